"""Helpers of several test files: examples, models that do not explode, and how errors are measured."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array

KINDS = ("gdpp", "diag", "full")
VARIANTS = (*KINDS, "diag+2", "full+1")
"""Kinds, and kinds with so many registers; `tame_model` and `kind_and_registers` take them."""
OBJECTIVES = ("exact", "sampled")
DTYPES = (np.float32, np.float64)
FLOAT32_EPS = float(np.finfo(np.float32).eps)
FLOAT64_EPS = float(np.finfo(np.float64).eps)


class Examples(NamedTuple):
    """Contexts as tokens, with what they were made of."""

    X: Array
    y: Array
    queries: Array
    weights: Array
    sigma: Array

    @property
    def gram(self) -> Array:
        return rf.Context.from_tokens(self.X, self.y).gram


def make_examples(batch: int, n: int, dim: int, seed: int, queries: int = 3) -> Examples:
    """Contexts of the task, drawn by NumPy alone, with σ between 0.5 and 2 so that n < d has a unique oracle."""
    rng = np.random.default_rng([seed, batch, n, dim])
    X, weights = rng.standard_normal((batch, n, dim)), rng.standard_normal((batch, dim))
    sigma = rng.uniform(0.5, 2.0, batch)
    y = np.einsum("bnd,bd->bn", X, weights) + sigma[:, None] * rng.standard_normal((batch, n))
    return Examples(X, y, rng.standard_normal((batch, queries, dim)), weights, sigma)


def as_draw(examples: Examples) -> rf.ContextDraw:
    """The same contexts as the objective takes them; the query is the first one of each context."""
    context = rf.Context.from_tokens(examples.X, examples.y)
    oracle = context.ridge(examples.sigma**2)
    return rf.ContextDraw(context, examples.weights, examples.sigma, examples.queries[:, 0], oracle)


def kind_and_registers(variant: str) -> tuple[str, int]:
    """("diag", 2) of "diag+2"."""
    kind, _, registers = variant.partition("+")
    return kind, int(registers or 0)


def tame_model(
    kind: str, layers: int, heads: int, dim: int, gram: Array, seed: int = 0, strength: float = 0.5
) -> rf.LinearTransformer:
    """A random float64 model whose layers move these contexts' tokens by about ``strength`` / L of their length.

    ‖P G Q‖ is about scale² tr G for scalars p, q, and p times that for dense p × p matrices. Larger steps would
    explode: the map has degree 3^L in the data. ``kind`` may be any of `VARIANTS`.
    """
    kind, registers = kind_and_registers(kind)
    spread = (dim + 1 + registers if kind == "full" else 1 + registers) * np.sqrt(heads)
    scale = np.sqrt(strength / layers / (spread * np.trace(gram, axis1=1, axis2=2).max()))
    sizes = {"layers": layers, "heads": heads, "dim": dim, "registers": registers}
    return rf.LinearTransformer.init(kind, **sizes, seed=seed, scale=float(scale), dtype=np.float64)


def rotation(dim: int, seed: int) -> Array:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))[0]


def relative_error(found: Array, expected: Array) -> float:
    """max |found − expected| / max |expected|; NaN wherever either holds one, which no tolerance accepts."""
    assert found.shape == expected.shape
    return float(np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max())


def within_standard_errors(samples: Array, expected: Any, limit: float = 5.0) -> bool:
    """Whether means over the first axis are where they should be; a normal exceeds 5 once in two million."""
    error = np.abs(samples.mean(axis=0) - expected)
    return bool((error <= limit * samples.std(axis=0) / math.sqrt(len(samples))).all())


def gradient_on(
    model: rf.LinearTransformer, draw: Any, objective: str, backend: str, saturation: float = 0.0, **options: Any
) -> tuple[Array, Array]:
    """Losses and the gradient as one vector; ``options`` are further ones of `rf.Options`."""
    losses, gradient = rf.losses_and_gradient_on(
        model, draw, objective=objective, saturation=saturation, backend=backend, **options
    )
    return losses, gradient.flatten()


def one_sentence(error: BaseException, longest: int = 400) -> str:
    """The message of an error, checked to be what a user can read: one short line that ends like a sentence.

    400 characters are five lines of a terminal; the longest honest message lists four shapes.
    """
    message = str(error)
    assert "\n" not in message
    assert message.rstrip()[-1] in ".?"  # a question: "Did you mean …?"
    assert len(message) < longest
    return message


@contextmanager
def refusal(match: str = "", longest: int = 400) -> Iterator[None]:
    """What happens inside is refused with an `InputError` of one sentence that matches."""
    with pytest.raises(rf.InputError, match=match or None) as caught:
        yield
    one_sentence(caught.value, longest)


def refused(match: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    """`refusal` of a single call."""
    with refusal(match):
        function(*arguments, **keywords)


def run_python(code: str, cache: Path | None = None, **environment: str) -> str:
    """What ``code`` prints in a fresh interpreter that finds the same ridgeformer."""
    package = str(Path(rf.__file__).parents[1])
    inherited = {name: value for name, value in os.environ.items() if name != "RIDGEFORMER_THREADS"}
    paths = [package, *filter(None, [inherited.get("PYTHONPATH", "")])]
    settings = {**inherited, "PYTHONPATH": os.pathsep.join(paths), **environment}
    if cache is not None:
        settings["RIDGEFORMER_CACHE_DIR"] = str(cache)
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
