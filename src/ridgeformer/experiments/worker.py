"""A training process of `ridgeformer.experiments.grid`: ``python -m ridgeformer.experiments.worker FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from ridgeformer.experiments.grid import work

if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.stdin, sys.stdout)
