"""Compiled code on disk: one file for each kernel and signature, checked before it is used.

A cache may be missing, read-only, full, damaged, shared by several processes and machines, or written by an attacker.
None of that may ever cause an error or a wrong number:

* The folder is named after a digest of everything that compiled code depends on: the sources of the kernels and of the
  files with constants that are compiled in, numba, llvmlite, the processor, its vector width and numba's settings for
  it. Different machines can share a home folder: each has its own folder there. Numba's own cache looks only at the
  file that holds a function, and has an index that two processes can write at the same time.
* An entry is written whole or not at all, with its digest in another file. An entry that does not match its digest, or
  cannot be loaded, counts as missing and is compiled and written again.
* Entries are pickles that numba writes and reads, so a folder is used only if it belongs to the user and nobody else
  can write to it. Otherwise, and where no folder can be made, kernels are compiled in memory, and one warning says so.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core import compiler
from numba.core.caching import IndexDataCacheFile, _Cache

from ridgeformer.core.storage import cache_root, read_whole, write_whole
from ridgeformer.core.validation import InputError

CONSTANTS = ("random", "gradient")
"""Modules of `core` with constants that are compiled in; a test checks that kernels use no others."""
_MOST_BYTES = 100_000_000  # of an entry; the largest has half a million


class KernelCacheWarning(RuntimeWarning):
    """Compiled code cannot be stored on disk, so every process compiles it again."""


def sources() -> list[Path]:
    """The files that decide what is compiled."""
    here = Path(__file__).parent
    return [*here.glob("*.py"), *(here.parent / "core" / f"{name}.py" for name in CONSTANTS)]


def cache_digest(files: Iterable[Path]) -> str:
    """A digest of everything that decides the compiled code: sources, compilers, processor and settings."""
    digest = hashlib.sha256()
    for source in sorted(files):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    host = llvm.get_host_cpu_name(), sorted(llvm.get_host_cpu_features().items())
    told = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    digest.update(repr((numba.__version__, llvmlite.__version__, host, told)).encode())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """The folder for compiled code, made if necessary; None, after one warning, if no folder can be trusted."""
    try:
        folder = cache_root() / f"kernels-{cache_digest(sources())}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_trusted(folder)
    except (OSError, RuntimeError, InputError) as failed:  # RuntimeError: there is no home folder
        _warn(getattr(failed, "strerror", None) or str(failed))
        return None
    return folder


def _check_trusted(folder: Path) -> None:
    """Refuse a folder that somebody else could have put code into, or that cannot be written to."""
    if hasattr(os, "getuid"):
        found = folder.stat()
        if found.st_uid != os.getuid():
            raise InputError(f"{folder} belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InputError(f"other users can write to {folder}")
    with tempfile.TemporaryFile(dir=folder):
        pass


def _warn(problem: str) -> None:
    warnings.warn(
        f"Compiled kernels cannot be stored on disk ({problem.rstrip('.')}), so every process compiles them again, "
        "which takes about ten seconds. Set RIDGEFORMER_CACHE_DIR to a folder that only you can write to.",
        KernelCacheWarning,
        stacklevel=2,
    )


class KernelCache(_Cache):
    """What numba asks for the compiled code of one function before it compiles it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"

    @property
    def cache_path(self) -> str | None:
        """Where it is kept."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code, or None if there is none that can be used."""
        target_context.refresh()
        folder, name = cache_folder(), self._entry(sig, target_context.codegen())
        if folder is None:
            return None
        try:
            digest = hashlib.sha256(read_whole(folder / name, _MOST_BYTES)).hexdigest()
            if read_whole(folder / f"{name}.sha256", len(digest)).decode() != digest:
                return None
            return compiler.CompileResult._rebuild(target_context, *self._files(folder)._load_data(name))
        except Exception:  # whatever is wrong with an entry, the cure is the same: compile
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code, if the disk allows it."""
        folder, name = cache_folder(), self._entry(sig, data.codegen)
        if folder is None:
            return
        try:
            self._files(folder)._save_data(name, data._reduce())
            digest = hashlib.sha256(read_whole(folder / name, _MOST_BYTES)).hexdigest()
            write_whole(folder / f"{name}.sha256", digest.encode())
        except (OSError, InputError) as failed:  # a full disk, say
            _warn(getattr(failed, "strerror", None) or str(failed))

    def _entry(self, sig: Any, codegen: Any) -> str:
        key = hashlib.sha256(repr((sig, codegen.magic_tuple())).encode()).hexdigest()[:24]
        return f"{self._name}-{key}.kernel"

    def _files(self, folder: Path) -> Any:
        """Numba's way to write and read an entry; of its index, which two processes can spoil, nothing is used."""
        return IndexDataCacheFile(str(folder), self._name, "")

    def enable(self) -> None:
        """Always on."""

    def disable(self) -> None:
        """Always on."""

    def flush(self) -> None:
        """Nothing is held back."""
