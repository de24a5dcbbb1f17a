"""``python -m ridgeformer`` is the ``ridgeformer`` command."""

from ridgeformer.cli import main

main()
