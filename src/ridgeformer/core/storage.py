"""Writing files so that a crash leaves either the old file or the new one, never a part of it; where caches live."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from ridgeformer.core.validation import InputError


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: temporary file, fsync, rename, fsync of the folder."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as failed:
        with contextlib.suppress(OSError):
            if temporary:
                os.unlink(temporary)
        if isinstance(failed, OSError):
            raise InputError(f"Cannot write {path}: {failed.strerror or failed}.") from failed
        if isinstance(failed, ValueError):  # a null byte in the name
            raise InputError(f"Cannot write {path}: {failed}.") from failed
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cache_root() -> Path:
    """Where compiled kernels and tuned baselines are kept: ``RIDGEFORMER_CACHE_DIR`` or the platform's cache folder."""
    chosen = os.environ.get("RIDGEFORMER_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local"))) / "ridgeformer"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ridgeformer"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ridgeformer"
