"""Trained models that come with the package, one safetensors file each, and `load`, which reads those and others.

A name says kind, layers and noise prior: ``full-7-uniform-5``, ``diag-4-categorical-1+3``; further seeds of a cell end
in ``-seed-1`` and so on. What a model was trained with, and how good it is, is in its file: ``model.info``.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources
from pathlib import Path

from ridgeformer.checks import shortened
from ridgeformer.errors import InputError
from ridgeformer.model import LinearTransformer
from ridgeformer.model_file import load_model, read_model

_SUFFIX = ".safetensors"


@cache
def zoo_names() -> tuple[str, ...]:
    """The names of all models in the zoo, sorted."""
    files = resources.files("ridgeformer.zoo").joinpath("models").iterdir()
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX)))


def load(source: str | Path) -> LinearTransformer:
    """A model from a file written by `LinearTransformer.save`, or from the zoo by its name.

    A file that exists wins over a name of the zoo.
    """
    if not isinstance(source, str | Path):
        raise InputError(f"A model is loaded from a file or by its name in the zoo, not from {source!r}.")
    if isinstance(source, Path) or "/" in source or source.endswith(_SUFFIX) or Path(source).exists():
        return load_model(Path(source))
    if source not in zoo_names():
        near = difflib.get_close_matches(source, zoo_names(), n=1)
        hint = (
            f" Did you mean {near[0]!r}?" if near else " 'ridgeformer zoo' lists what there is."
        )
        raise InputError(f"There is no model file {shortened(source)} and no such model in the zoo.{hint}")
    data = resources.files("ridgeformer.zoo").joinpath("models", source + _SUFFIX).read_bytes()
    return read_model(data, source)
