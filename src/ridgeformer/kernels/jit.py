"""The one place that decides how kernels are compiled and where compiled code is kept.

* ``nogil``: the thread pool of `ridgeformer.kernels.threads` runs kernels side by side.
* ``error_model="numpy"``: a division by zero gives an infinity that the divergence guard sees, not an exception.
* ``fastmath={"contract"}``: a product and a sum may fuse. Nothing else is relaxed: NaN and Inf must survive.
* ``cache``: compiled code is kept on disk, in a folder named after a digest of everything that it depends on: the
  sources of the kernels and of `CONSTANTS`, numba, llvmlite, and the processor. Numba itself looks only at the file
  that holds a function, so it would miss an edit to a helper or a constant in another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core import event

from ridgeformer.core.storage import cache_root
from ridgeformer.kernels import compile_hooks

CONSTANTS = ("random", "gradient")
"""Modules of `core` with constants that are compiled in; a test sees to it that kernels take none from elsewhere."""


def cache_digest(sources: Iterable[Path]) -> str:
    """Names a version of the compiled code: these sources, the compilers and the processor."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    features = str(sorted(llvm.get_host_cpu_features().items()))
    for part in (numba.__version__, llvmlite.__version__, llvm.get_host_cpu_name(), features):
        digest.update(part.encode())
    return digest.hexdigest()[:16]


def sources() -> list[Path]:
    """The files that decide what is compiled."""
    here = Path(__file__).parent
    return [*here.glob("*.py"), *(here.parent / "core" / f"{name}.py" for name in CONSTANTS)]


CACHE = cache_root() / f"kernels-{cache_digest(sources())}"


def compiled() -> bool:
    """Whether compiled code of this version is there; if not, the first call of a kernel takes about ten seconds."""
    return CACHE.is_dir() and any(CACHE.rglob("*.nbc"))


def kernel(function: Callable[..., Any]) -> Any:
    """Compile an entry point, called from Python: cached on disk, runs without the GIL."""
    previous = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = previous or str(CACHE)
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


class _Compilation(event.Listener):
    """Tells `ridgeformer.kernels.compile_hooks`; kernels compile what they call on the way, which is not told."""

    depth = 0

    def on_start(self, happening: Any) -> None:
        self.depth += 1
        if self.depth == 1:
            for hook in compile_hooks:
                hook(True)

    def on_end(self, happening: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            for hook in compile_hooks:
                hook(False)


event.register("numba:compile", _Compilation())
