"""Starting a run from a trained model: of a smaller kind, fewer layers or heads, or another task."""

from __future__ import annotations

import numpy as np

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.validation import InputError
from ridgeformer.training.config import TrainConfig

_NEW_SCALE = 0.02  # of the random q of a new layer or head; its p is zero, so that it changes nothing at first


def warm_start(model: LinearTransformer, config: TrainConfig) -> LinearTransformer:
    """The model as one of the config's kind, layers, heads and precision that computes the same function.

    New layers come first, where the tokens still are what the old first layer was trained on. A new layer or head has
    p = 0 and a small random q: with both at zero the gradient would vanish for ever.
    """
    if model.dim != config.dim:
        raise InputError(f"The model to start from has {model.dim} features, the run has {config.dim}.")
    if model.layers > config.layers or model.heads > config.heads:
        raise InputError(
            f"The model to start from has {model.layers} layers and {model.heads} heads, more than the run's "
            f"{config.layers} and {config.heads}."
        )
    same_kind = model.embed(config.kind).astype(config.dtype)
    fresh = LinearTransformer.init(
        config.kind,
        layers=config.layers,
        dim=config.dim,
        heads=config.heads,
        seed=config.seed,
        scale=_NEW_SCALE,
        dtype=config.dtype,
    )
    parameters = {}
    for name, array in fresh.parameters.items():
        parameters[name] = np.zeros_like(array) if name in ("p", "P") else array.copy()
        old = parameters[name][config.layers - model.layers :, : model.heads]
        old[...] = same_kind.parameters[name]
    return fresh.replace(parameters)
