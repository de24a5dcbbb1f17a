"""The one place that decides how kernels are compiled and where compiled code is kept.

* ``nogil``: the thread pool of `ridgeformer.kernels.threads` runs kernels side by side.
* ``error_model="numpy"``: a division by zero gives an infinity that the divergence guard sees, not an exception.
* ``fastmath={"contract"}``: a product and a sum may fuse. Nothing else is relaxed: NaN and Inf must survive.
* ``cache``: compiled code is kept on disk, in a folder named after the digest of this package's kernel sources.
  Numba itself looks only at the file that holds a function, so it would miss an edit to a helper in another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from ridgeformer.core.storage import cache_root


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


_KERNEL_CACHE = str(cache_root() / f"kernels-{_sources_digest()}")


def kernel(function: Callable[..., Any]) -> Any:
    """Compile an entry point, called from Python: cached on disk, runs without the GIL."""
    previous = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = previous or _KERNEL_CACHE
    try:
        return numba.njit(cache=True, nogil=True, _nrt=False, error_model="numpy", fastmath={"contract"})(function)
    finally:
        numba.config.CACHE_DIR = previous


def device(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call. It is compiled once per type and stored inside its callers.

    A device function should call nothing but vector operations and `inlined` functions: numba optimises the whole code
    below a function again at every level of calls, so depth costs compile time.
    """
    return numba.njit(nogil=True, _nrt=False, error_model="numpy", fastmath={"contract"})(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A function copied into its callers before they are compiled: for stages that are called from one place."""
    return numba.njit(inline="always", nogil=True, _nrt=False, error_model="numpy", fastmath={"contract"})(function)
