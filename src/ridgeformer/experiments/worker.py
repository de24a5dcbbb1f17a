"""A training process of `ridgeformer.experiments.grid`: ``python -m ridgeformer.experiments.worker FOLDER``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from ridgeformer.experiments.grid import work

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which then closes the orders
    work(Path(sys.argv[1]), sys.stdin, sys.stdout)
