"""The ``ridgeformer`` command, also as ``python -m ridgeformer``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported is one line too."""
    try:
        from ridgeformer.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("ridgeformer: interrupted.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
