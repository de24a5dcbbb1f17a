"""A training process of `ridgeformer.reproduction.grid`: ``python -m ridgeformer.reproduction.worker FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from ridgeformer.reproduction.grid import work

if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.stdin, sys.stdout)
