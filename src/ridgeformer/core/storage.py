"""Files: a crash leaves either the old file or the new one, and reading never hangs or fills the memory.

Also where caches are.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.validation import InputError, shortened


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
        sync_folder(path.parent)
    except BaseException as failed:
        with contextlib.suppress(OSError):
            if temporary:
                os.unlink(temporary)
        if isinstance(failed, OSError):
            raise InputError(f"Cannot write {path}: {failed.strerror or failed}.") from failed
        if isinstance(failed, ValueError):  # a null byte in the name
            raise InputError(f"Cannot write {path}: {failed}.") from failed
        raise


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the disk or the folder into an `InputError` of one sentence about ``path``."""
    try:
        yield
    except OSError as failed:
        raise InputError(f"Cannot write {path}: {failed.strerror or failed}.") from failed


class MissingFileError(InputError):
    """There is no such file."""


def read_whole(path: Path, at_most: int) -> bytes:
    """The bytes of a regular file; `InputError` if it is larger than ``at_most``, or a pipe, device or folder."""
    name = shortened(str(path), 200)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{name} is not a regular file.")
            if status.st_size > at_most:
                raise InputError(f"{name} is larger than {at_most / 2**20:g} MiB, which no such file is.")
            return file.read(at_most)
    except FileNotFoundError as missing:
        raise MissingFileError(f"There is no file {name}.") from missing
    except OSError as failed:
        raise InputError(f"Cannot read {name}: {failed.strerror or failed}.") from failed
    except ValueError as impossible:  # a null byte
        raise InputError(f"Cannot read {name}: {impossible}.") from impossible


def strict_json(data: bytes | str) -> Any:
    """Read strict JSON: no NaN, no Infinity, no key twice. Raises ValueError, or RecursionError if it is too deep."""
    return json.loads(data, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)


def plain(value: Any, digits: int | None = None) -> Any:
    """``value`` as plain JSON values: dataclasses as objects, arrays as lists, null for numbers that are not finite.

    Numbers are rounded to ``digits`` digits, if given. A noise prior becomes its spec, and a task its ``specs``. A
    dataclass may list properties in ``derived``, which come after its fields.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, NoisePrior):
        return value.spec
    if isinstance(specs := getattr(value, "specs", None), dict):
        return specs
    if is_dataclass(value) and not isinstance(value, type):
        names = [*(field.name for field in fields(value)), *getattr(value, "derived", ())]
        value = {name: getattr(value, name) for name in names}
    if isinstance(value, Mapping):
        return {str(name): plain(item, digits) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, digits) for item in value]
    if isinstance(value, float):
        return (value if digits is None else float(f"{value:.{digits}g}")) if math.isfinite(value) else None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key appears twice")
    return values


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def sync_folder(folder: Path) -> None:
    """Wait until all changes in a folder (new, renamed and removed files) are on disk."""
    if os.name == "posix":  # elsewhere folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cache_root() -> Path:
    """The folder for compiled kernels and tuned baselines: ``RIDGEFORMER_CACHE_DIR`` or the system's cache folder."""
    chosen = os.environ.get("RIDGEFORMER_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local"))) / "ridgeformer"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ridgeformer"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ridgeformer"
