"""Trained models that come with the package, one safetensors file each, and `load`, which reads those and others.

A name says kind, layers and noise prior: ``full-7-uniform-5``, ``diag-4-categorical-1+3``; further seeds of a cell end
in ``-seed-1`` and so on. What a model was trained with, and how good it is, is in its file: ``model.info``.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import load_model, read_model
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, shortened

_SUFFIX = ".safetensors"


@cache
def zoo_names() -> tuple[str, ...]:
    """The names of all models in the zoo, sorted."""
    files = resources.files("ridgeformer.zoo").joinpath("models").iterdir()
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX)))


@dataclass(frozen=True)
class ZooEntry:
    """What is known of a model of the zoo."""

    name: str
    sha256: str
    evaluation: dict[str, Any]
    """As measured when it was trained; the fields of `ridgeformer.Evaluation`."""
    training: dict[str, Any]
    """The fields of its `ridgeformer.TrainConfig`."""


def zoo_entries() -> list[ZooEntry]:
    """All models of the zoo, sorted by name."""
    found = []
    for name in zoo_names():
        data = _file(name)
        info = read_model(data, name).info
        digest = hashlib.sha256(data).hexdigest()
        found.append(ZooEntry(name, digest, dict(info["evaluation"]), dict(info["training"])))
    return found


def build_zoo(runs: Path, into: Path | None = None) -> dict[str, int]:
    """Copy the models of all finished runs in ``runs`` into a folder, the package's own by default: name → bytes."""
    from ridgeformer.training.run_directory import RunDirectory  # late: runs can start from a model of the zoo

    folder = Path(str(resources.files("ridgeformer.zoo").joinpath("models"))) if into is None else into
    found: dict[str, bytes] = {}
    for path in sorted(runs.glob(f"*/model{_SUFFIX}")):
        if RunDirectory(path.parent).finished_result() is not None:
            found[path.parent.name] = path.read_bytes()
            read_model(found[path.parent.name], path)  # refuses what is not a model, before anything is written
    if not found:
        raise InputError(f"There are no finished runs in {runs}.")
    for name, data in found.items():
        write_whole(folder / f"{name}{_SUFFIX}", data)
    zoo_names.cache_clear()
    return {name: len(data) for name, data in found.items()}


def _file(name: str) -> bytes:
    return resources.files("ridgeformer.zoo").joinpath("models", name + _SUFFIX).read_bytes()


def _is_file(source: str) -> bool:
    try:
        return Path(source).is_file()  # a folder of that name is none: 'explain NAME --out NAME' makes one
    except (OSError, ValueError):  # too long for a name, or a null byte
        return False


def load(source: str | Path) -> LinearTransformer:
    """A model from a file written by `LinearTransformer.save`, or from the zoo by its name.

    A file that exists wins over a name of the zoo.
    """
    if not isinstance(source, str | Path):
        raise InputError(f"A model is loaded from a file or by its name in the zoo, not from {source!r}.")
    if isinstance(source, Path) or "/" in source or source.endswith(_SUFFIX) or _is_file(source):
        return load_model(Path(source))
    if source not in zoo_names():
        near = difflib.get_close_matches(source, zoo_names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else " 'ridgeformer zoo' lists what there is."
        raise InputError(f"There is no model file {shortened(source)} and no such model in the zoo.{hint}")
    return read_model(_file(source), source)
