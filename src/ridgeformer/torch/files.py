"""Modules on disk, as safetensors and JSON, never as pickles; for the paper's models see `ridgeformer.core.model_file`.

Models of the paper's kinds are written as `ridgeformer.load` reads them. Other modules have their architecture in the
metadata instead of a kind. Both have a digest, and everything in a file is checked.
"""

from __future__ import annotations

import difflib
import json
import os
import platform
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch

from ridgeformer._version import __version__
from ridgeformer.core.model_file import (
    DIGEST_KEY,
    FORMAT,
    MAX_FILE_BYTES,
    METADATA_KEY,
    file_metadata,
    read_model,
    tensors_digest,
)
from ridgeformer.core.notation import Array
from ridgeformer.core.storage import read_whole, write_whole
from ridgeformer.core.validation import InputError, shortened
from ridgeformer.torch.linear import LinearTransformer, from_model
from ridgeformer.torch.module import as_array, choose_device, choose_dtype
from ridgeformer.torch.transformer import Architecture, Transformer
from ridgeformer.zoo import load as load_model
from ridgeformer.zoo import zoo_names

SUFFIX = ".safetensors"
_PRECISIONS = ("float32", "float64")


def save_module(module: Transformer, path: Path) -> None:
    """Write a module whole or not at all; half precision is kept as float32."""
    if module.device.type == "meta":
        raise InputError("A module on the meta device has no weights.")
    arrays = {name: as_array(_wide(tensor)) for name, tensor in module.state_dict().items()}
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError("This module has NaN or infinite weights and is not saved.")
    versions = {"ridgeformer": __version__, "torch": torch.__version__, "python": platform.python_version()}
    metadata: dict[str, Any] = {"format": FORMAT, "architecture": module.architecture.as_json()}
    metadata |= {"info": dict(module.info), "versions": versions}
    try:
        signed = metadata | {DIGEST_KEY: tensors_digest(metadata, arrays)}
        text = json.dumps(signed, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as unfit:
        raise InputError(f"The module's info must be plain JSON without NaN: {unfit}.") from unfit
    write_whole(path, safetensors.numpy.save(arrays, metadata={METADATA_KEY: text}))


def load(source: str | Path, *, device: Any = None, dtype: Any = None) -> LinearTransformer | Transformer:
    """A module from a file, or by its name: one of `shipped_names`, or of the zoo.

    Parameters
    ----------
    source: a file that a module's ``save_pretrained`` or `ridgeformer.LinearTransformer.save` wrote, or a name.
    device, dtype: where to put it, and in which precision; on the CPU and as in the file by default.

    Returns the module; its ``info`` says how it was trained. Raises `InputError` if there is no such file or name, or
    if the file is damaged or not a module's.

    >>> import ridgeformer as rf
    >>> rf.torch.load("diag-4-uniform-5").size
    16
    """
    if not isinstance(source, str | Path):
        raise InputError(f"A module is loaded from a file or by its name, not from {shortened(source)}.")
    if isinstance(source, Path) or "/" in source or source.endswith(SUFFIX) or os.path.isfile(source):
        return read_module(read_whole(Path(source), MAX_FILE_BYTES), source, device=device, dtype=dtype)
    if source in shipped_names():
        return read_module((_folder() / f"{source}{SUFFIX}").read_bytes(), source, device=device, dtype=dtype)
    if source not in zoo_names():
        near = difflib.get_close_matches(source, (*shipped_names(), *zoo_names()), n=1, cutoff=0.0)
        raise InputError(f"There is no module file or name {shortened(source)}. Did you mean {near[0]!r}?")
    return from_model(load_model(source), device=device, dtype=dtype)


def read_module(
    data: bytes, path: Path | str, *, device: Any = None, dtype: Any = None
) -> LinearTransformer | Transformer:
    """A module from the bytes of a file; ``path`` is what errors call it."""
    metadata = file_metadata(path, data)
    if "architecture" not in metadata:
        return from_model(read_model(data, path), device=device, dtype=dtype)
    digest = metadata.pop(DIGEST_KEY, None)
    if metadata.get("format") != FORMAT or not isinstance(metadata.get("info"), dict):
        raise InputError(f"{path} has metadata of the wrong form, or of another version.")
    try:
        arrays = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as broken:
        raise InputError(f"{path} is not a readable safetensors file: {broken}.") from broken
    if digest != tensors_digest(metadata, arrays):
        raise InputError(f"{path} is damaged: what it holds does not match its digest.")
    architecture = Architecture.from_json(metadata["architecture"], f"The architecture in {path}")
    return _filled(architecture, arrays, metadata["info"], path, device, dtype)


def _filled(
    architecture: Architecture, arrays: dict[str, Array], info: dict[str, Any], path: Any, device: Any, dtype: Any
) -> Transformer:
    """A module of this architecture with these weights, if they are finite and exactly the ones it has."""
    empty = Transformer(architecture, device="meta")
    expected = {name: tuple(tensor.shape) for name, tensor in empty.state_dict().items()}
    if {name: array.shape for name, array in arrays.items()} != expected:
        raise InputError(f"{path} holds other tensors than its architecture needs.")
    precisions = {array.dtype.name for array in arrays.values()}
    if len(precisions) != 1 or not precisions <= set(_PRECISIONS):
        raise InputError(f"{path}: the tensors must all be float32 or all be float64, not {shortened(precisions)}.")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError(f"{path}: tensor {name} holds NaN or infinite values.")
    module = Transformer(architecture, dtype=precisions.pop(), info=info)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, strict=True)
    return module.to(
        torch.device("cpu") if device is None else choose_device(device),
        module.dtype if dtype is None else choose_dtype(dtype),
    )


@cache
def shipped_names() -> tuple[str, ...]:
    """Names of the modules that come with the package, those of docs/architectures.md, for `load`.

    >>> "softmax-1-uniform-5" in shipped_names()
    True
    """
    return tuple(sorted(file.name.removesuffix(SUFFIX) for file in _folder().glob(f"*{SUFFIX}")))


def _folder() -> Path:
    return Path(str(resources.files("ridgeformer.torch").joinpath("models")))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
