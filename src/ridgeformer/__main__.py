"""``python -m ridgeformer`` is the ``ridgeformer`` command."""

from ridgeformer.cli.main import main

main()
