"""Model files: one safetensors file with the parameters of the model, and metadata as one JSON string.

Files may come from anywhere, so everything is checked: sizes are limited before anything is read, the metadata must be
plain JSON, tensors must be exactly those of the kind, and values must be finite. No code is ever loaded. Since format 2
a file also holds a digest of metadata and tensors, so that a damaged file is never loaded as another model.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ridgeformer._version import __version__
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.storage import read_whole, strict_json, write_whole
from ridgeformer.core.validation import FLOATS, InputError, shortened

FORMAT = 2
UNSIGNED_FORMAT = 1
"""Older files without a digest; they can still be loaded."""
METADATA_KEY = "ridgeformer"  # one key only: safetensors writes several in an order that changes
DIGEST_KEY = "sha256"
MAX_FILE_BYTES = 1 << 30
MAX_HEADER_BYTES = 1 << 22


def save_model(model: LinearTransformer, path: Path) -> None:
    """Write ``model`` to ``path``; refuses weights that are not finite."""
    if not all(np.isfinite(array).all() for array in model.parameters.values()):
        raise InputError("This model has NaN or infinite weights and is not saved.")
    metadata = {
        "format": FORMAT,
        "kind": model.kind,
        "dim": model.dim,
        "info": dict(model.info),
        "versions": {"ridgeformer": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    try:
        text = json.dumps(
            metadata | {DIGEST_KEY: tensors_digest(metadata, model.parameters)}, sort_keys=True, allow_nan=False
        )
    except (TypeError, ValueError, RecursionError) as unfit:
        raise InputError(f"The model's info must be plain JSON without NaN: {unfit}.") from unfit
    data = safetensors.numpy.save(dict(model.parameters), metadata={METADATA_KEY: text})
    if int.from_bytes(data[:8], "little") > MAX_HEADER_BYTES:
        raise InputError(f"The model's info is larger than {MAX_HEADER_BYTES >> 20} MiB and could not be loaded again.")
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"This model is larger than {MAX_FILE_BYTES >> 20} MiB and could not be loaded again.")
    write_whole(path, data)


def load_model(path: Path) -> LinearTransformer:
    """Read a model file; anything wrong with it is one `InputError`."""
    return read_model(read_whole(path, MAX_FILE_BYTES), path)


class ModuleFileError(InputError):
    """A file holds a module of `ridgeformer.torch` that is not one of the paper's models."""


def read_model(data: bytes, path: Path | str) -> LinearTransformer:
    """A model from the bytes of a file; ``path`` is its name in error messages."""
    metadata = file_metadata(path, data)
    if "architecture" in metadata:
        raise ModuleFileError(f"{path} holds another kind of transformer; read it with ridgeformer.torch.load.")
    digest = metadata.pop(DIGEST_KEY, None)
    kind, dim, info = metadata.get("kind"), metadata.get("dim"), metadata.get("info", {})
    version = metadata.get("format")
    if version not in (FORMAT, UNSIGNED_FORMAT) or isinstance(version, bool):
        raise InputError(f"{path} has format {shortened(version)}; this version reads formats 1 and {FORMAT}.")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{path} says it holds a model of unknown kind {shortened(kind)}.")
    if not isinstance(info, dict) or not isinstance(dim, int):
        raise InputError(f"{path} has metadata of the wrong form.")
    try:
        tensors = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as broken:
        raise InputError(f"{path} is not a readable safetensors file: {broken}.") from broken
    if (version != UNSIGNED_FORMAT or digest is not None) and digest != tensors_digest(metadata, tensors):
        raise InputError(f"{path} is damaged: what it holds does not match its digest.")
    names = set(KINDS[kind].shapes(1, 1, 1))
    if set(tensors) != names:
        expected = " and ".join(sorted(names))
        raise InputError(
            f"{path} must hold the tensors {expected} of a {kind} model, not {shortened(sorted(tensors))}."
        )
    for name, array in tensors.items():
        if array.dtype not in FLOATS:
            raise InputError(f"{path}: tensor {name} must be float32 or float64, not {array.dtype}.")
        if not np.isfinite(array).all():
            raise InputError(f"{path}: tensor {name} holds NaN or infinite values.")
    try:
        return LinearTransformer(kind, dim, tensors, info)
    except InputError as unfit:
        raise InputError(f"{path}: {unfit}") from unfit


def weights_digest(model: LinearTransformer) -> str:
    """SHA-256 of the kind and parameters of a model; the file it comes from does not matter."""
    return tensors_digest({"kind": model.kind, "dim": model.dim}, model.parameters)


def tensors_digest(metadata: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """SHA-256 of the metadata and of every tensor with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True, allow_nan=False).encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def file_metadata(path: Path | str, data: bytes) -> dict[str, Any]:
    """The JSON object in the file's header."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, MAX_HEADER_BYTES):
        raise InputError(f"{path} is not a safetensors file, or is cut off.")
    try:
        metadata = strict_json(strict_json(data[8 : 8 + length])["__metadata__"][METADATA_KEY])
    except (ValueError, KeyError, TypeError, RecursionError) as broken:
        raise InputError(f"{path} is not a ridgeformer model file: its metadata cannot be read.") from broken
    if not isinstance(metadata, dict):
        raise InputError(f"{path} is not a ridgeformer model file: its metadata is not an object.")
    return metadata
