"""Theorem 4.1 and Lemma 4.3 with registers: the tokens are those of 1 + r linear models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.theory import register_models, registers
from ridgeformer.theory.implicit_model import implicit_models
from ridgeformer.theory.registers import RegisterModel, difference_from_tokens
from support import make_examples, refused, relative_error, tame_model

# Both sides are float64 computations of the same numbers in another order.
TIGHT = 1e-10
# (dim, n, layers, heads): n = 1, n < d, n = d, n ≫ d.
SHAPES = [(1, 1, 2, 1), (2, 1, 3, 2), (5, 3, 4, 1), (5, 5, 2, 3), (10, 20, 5, 1), (3, 100, 6, 2)]


@pytest.mark.parametrize("kind", ["gdpp", "diag", "full", "diag+1", "diag+3", "full+2"])
@pytest.mark.parametrize(("dim", "n", "layers", "heads"), SHAPES)
def test_tokens_and_weights_over_shapes_are_those_of_the_register_models(
    kind: str, dim: int, n: int, layers: int, heads: int
) -> None:
    examples = make_examples(3, n, dim, seed=1)
    model = tame_model(kind, layers, heads, dim, examples.gram, strength=1.0)
    assert difference_from_tokens(model, examples.X, examples.y, examples.queries) < TIGHT
    states = register_models(model, rf.Context.from_tokens(examples.X, examples.y))
    assert [state.W.shape for state in states] == [(3, 1 + model.registers, dim)] * (layers + 1)
    assert relative_error(states[-1].W[:, -1], rf.implicit_weights(model, examples.X, examples.y)) < TIGHT


def test_register_models_without_registers_are_the_implicit_models() -> None:
    examples = make_examples(3, 9, 4, seed=2)
    model, context = tame_model("full", 4, 2, 4, examples.gram), rf.Context.from_tokens(examples.X, examples.y)
    for state, known in zip(register_models(model, context), implicit_models(model, context), strict=True):
        for found, expected in (
            (state.M, known.M),
            (state.u, known.u),
            (state.A[:, 0], known.a),
            (state.W[:, 0], known.w),
        ):
            assert np.abs(found - expected).max() < TIGHT


@pytest.mark.parametrize("name", ["M", "u", "A", "W"])
def test_check_of_a_recursion_off_by_a_millionth_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    examples, right = make_examples(3, 9, 4, seed=4), registers.next_state

    def wrong(state: RegisterModel, update: np.ndarray) -> RegisterModel:
        following = right(state, update)
        return replace(following, **{name: getattr(following, name) * (1 + 1e-6)})

    model = tame_model("full+2", 3, 1, 4, examples.gram, strength=1.0)
    monkeypatch.setattr(registers, "next_state", wrong)
    assert difference_from_tokens(model, examples.X, examples.y, examples.queries) > 100 * TIGHT


def test_implicit_models_of_a_model_with_registers_are_refused() -> None:
    examples = make_examples(2, 9, 4, seed=5)
    model, context = tame_model("diag+1", 2, 1, 4, examples.gram), rf.Context.from_tokens(examples.X, examples.y)
    refused("register_models", implicit_models, model, context)
