"""The zoo: trained models that come with the package, one safetensors file each; and `load`, which reads model files.

A name consists of kind, layers and noise prior: ``full-7-uniform-5``, ``diag-4-categorical-1+3``. Numbers of heads and
registers come after the layers, ``diag-4-registers-2-uniform-5``; other seeds end in ``-seed-1`` and so on.
The file also says how the model was trained and how good it is: ``model.info``.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import load_model, read_model
from ridgeformer.core.validation import InputError, shortened

SUFFIX = ".safetensors"


def zoo_folder() -> Path:
    """The folder with the models of the zoo."""
    return Path(str(resources.files("ridgeformer.zoo").joinpath("models")))


@cache
def zoo_names() -> tuple[str, ...]:
    """The names of all models in the zoo, sorted.

    >>> "full-7-uniform-5" in zoo_names()
    True
    """
    return tuple(sorted(file.name.removesuffix(SUFFIX) for file in zoo_folder().glob(f"*{SUFFIX}")))


@dataclass(frozen=True)
class ZooEntry:
    """What is known about a model of the zoo; `zoo_entries` lists them."""

    name: str
    sha256: str
    evaluation: dict[str, Any]
    """How good it is on a million fresh sequences or more: fields of `ridgeformer.Evaluation`, None where a loss was
    not finite, and the seed of the sequences."""
    training: dict[str, Any]
    """The fields of its `ridgeformer.TrainConfig`, under the names that they had when it was trained."""


def zoo_entries() -> list[ZooEntry]:
    """All models of the zoo, sorted by name."""
    entries = []
    for name in zoo_names():
        data = _file(name).read_bytes()
        info, digest = read_model(data, name).info, hashlib.sha256(data).hexdigest()
        entries.append(ZooEntry(name, digest, dict(info["evaluation"]), dict(info["training"])))
    return entries


def load(source: str | Path) -> LinearTransformer:
    """Load a model from a file, or from the zoo (the models that come with the package) by its name.

    Parameters
    ----------
    source: the path of a file that `LinearTransformer.save` wrote, or a name in the zoo, such as
        ``"full-7-uniform-5"``: kind, layers, noise prior. 'ridgeformer zoo' lists the names. If a file has the same
        name, the file is read. A text with a slash or that ends in ``.safetensors`` is always a path.

    Returns the model. Its ``info`` says how it was trained and how good it was on fresh sequences. Raises `InputError`
    if there is no such file or name (the message suggests the nearest name), or the file is not a model.

    >>> import ridgeformer as rf
    >>> model = rf.load("diag-4-uniform-5")
    >>> model.kind, model.layers, round(model.info["evaluation"]["adjusted_loss"], 3)
    ('diag', 4, 0.06)
    """
    if not isinstance(source, str | Path):
        raise InputError(f"A model is loaded from a file or by its name in the zoo, not from {shortened(source)}.")
    # isfile: a folder of that name is not a model ('explain NAME --out NAME' makes one).
    if isinstance(source, Path) or "/" in source or source.endswith(SUFFIX) or os.path.isfile(source):
        return load_model(Path(source))
    if source not in zoo_names():
        near = difflib.get_close_matches(source, zoo_names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else " 'ridgeformer zoo' lists the names."
        raise InputError(f"There is no model file {shortened(source)} and no such model in the zoo.{hint}")
    return read_model(_file(source).read_bytes(), source)


def _file(name: str) -> Path:
    return zoo_folder() / f"{name}{SUFFIX}"
