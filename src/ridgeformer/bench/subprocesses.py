"""Measurements that need a Python process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from ridgeformer.core.validation import RidgeformerError

_TIMEOUT = 300  # seconds; the longest, a cold start, takes about 15


def run_python(code: str, environment: Mapping[str, str]) -> Any:
    """What ``code`` writes to stdout as JSON, run by this interpreter with this process's import path."""
    # NUMBA_CACHE_DIR would override RIDGEFORMER_CACHE_DIR, and a cold start would find its kernels there.
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RidgeformerError(f"A process started by the benchmark failed: {reason}")
    return json.loads(done.stdout)


def blas_threads(count: int) -> dict[str, str]:
    """Environment that tells every BLAS that NumPy comes with how many threads to use; it is read at its start only."""
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return dict.fromkeys(names, str(count))
