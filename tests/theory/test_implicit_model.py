"""Theorem 4.1 and Lemma 4.3: the tokens of any linear transformer are those of its implicit linear model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.core.forward import layer_maps
from ridgeformer.theory.implicit_model import (
    ImplicitModel,
    LayerBlocks,
    Recursion,
    difference_from_tokens,
    implicit_models,
    next_layer,
    printed_next_layer,
)
from support import KINDS, Examples, make_examples, relative_error, tame_model

# Both sides are float64 computations of the same numbers in another order; measured, the worst case is 1e-14.
TIGHT = 1e-10
# What a wrong term amounts to at least in models of this strength; measured, the smallest is 4e-6.
VISIBLE = 1e-7

# (dim, n, layers, heads): n = 1, n < d, n = d, n = d + 1, n ≫ d; depths 1 to 6; heads 1 to 3.
SHAPES = [
    (1, 1, 1, 1), (1, 200, 6, 3), (2, 1, 3, 2), (3, 3, 2, 1), (5, 2, 6, 1),
    (5, 6, 4, 3), (10, 20, 5, 1), (12, 1, 2, 2), (12, 12, 3, 1), (12, 200, 6, 2),
]  # fmt: skip


@st.composite
def cases(
    draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, fewest_layers: int = 1
) -> tuple[rf.LinearTransformer, Examples]:
    dim, n = draw(st.integers(1, 12)), draw(st.integers(1, 200))
    layers, heads = draw(st.integers(fewest_layers, 6)), draw(st.integers(1, 3))
    seed = draw(st.integers(0, 2**32 - 1))
    examples = make_examples(2, n, dim, seed)
    kind = draw(st.sampled_from(kinds))
    return tame_model(kind, layers, heads, dim, examples.gram, seed, strength=1.0), examples


def difference(model: rf.LinearTransformer, examples: Examples, recursion: Recursion = next_layer) -> float:
    return difference_from_tokens(model, examples.X, examples.y, examples.queries, recursion)


@given(cases())
def test_tokens_of_a_random_model_are_those_of_the_implicit_model(case: tuple[rf.LinearTransformer, Examples]) -> None:
    assert difference(*case) < TIGHT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dim", "n", "layers", "heads"), SHAPES)
def test_implicit_model_over_shapes_equals_tokens_weights_and_gram_matrices(
    kind: str, dim: int, n: int, layers: int, heads: int
) -> None:
    examples = make_examples(3, n, dim, seed=1)
    context = rf.Context.from_tokens(examples.X, examples.y)
    model = tame_model(kind, layers, heads, dim, context.gram)
    states = implicit_models(model, context)
    assert len(states) == layers + 1
    assert difference(model, examples) < TIGHT
    assert relative_error(states[-1].w, rf.implicit_weights(model, examples.X, examples.y)) < TIGHT
    _, grams = layer_maps(model, context.gram)
    for state, gram in zip(states, grams, strict=True):
        scatter, cross, energy = state.statistics(context)
        assert relative_error(scatter, gram[:, :-1, :-1]) < TIGHT
        assert relative_error(cross, gram[:, :-1, -1]) < TIGHT
        assert relative_error(energy, gram[:, -1, -1]) < TIGHT


@given(cases(kinds=("diag", "full"), fewest_layers=2))
def test_recursion_with_the_printed_sign_differs_from_the_tokens(case: tuple[rf.LinearTransformer, Examples]) -> None:
    """Slip of Lemma 4.3: + b wᵀ in M'. It needs w ≠ 0, hence two layers, and b ≠ 0, hence not GD++."""
    assert difference(*case, printed_next_layer) > VISIBLE


@pytest.mark.parametrize(("kind", "layers"), [("gdpp", 4), ("diag", 1), ("full", 1)])
def test_printed_sign_is_harmless_for_gdpp_and_in_a_first_layer(kind: str, layers: int) -> None:
    examples = make_examples(3, 9, 4, seed=3)
    model = tame_model(kind, layers, 2, 4, examples.gram)
    assert difference(model, examples, printed_next_layer) < TIGHT


def off_by_a_millionth(name: str) -> Recursion:
    def recursion(state: ImplicitModel, blocks: LayerBlocks) -> ImplicitModel:
        right = next_layer(state, blocks)
        values = {key: getattr(right, key) for key in ("M", "u", "a", "w")}
        values[name] = values[name] * (1 + 1e-6)
        return ImplicitModel(**values)

    return recursion


@pytest.mark.parametrize("name", ["M", "u", "a", "w"])
def test_check_of_a_recursion_off_by_a_millionth_fails(name: str) -> None:
    examples = make_examples(3, 9, 4, seed=4)
    model = tame_model("full", 3, 1, 4, examples.gram, strength=1.0)
    assert difference(model, examples, off_by_a_millionth(name)) > 100 * TIGHT


def test_float32_model_and_tokens_are_checked_in_float64() -> None:
    examples = make_examples(3, 20, 5, seed=5)
    model = tame_model("full", 3, 1, 5, examples.gram).astype(np.float32)
    X, y, queries = (array.astype(np.float32) for array in (examples.X, examples.y, examples.queries))
    assert difference_from_tokens(model, X, y, queries) < TIGHT


def test_difference_of_an_exploding_model_is_nan_and_warns_of_nothing() -> None:
    examples = make_examples(2, 10, 5, seed=6)
    model = rf.LinearTransformer.init("full", layers=6, dim=5, scale=1e3)
    assert np.isnan(difference(model, examples))


def test_implicit_models_of_another_dimension_are_refused() -> None:
    examples = make_examples(2, 10, 5, seed=7)
    model = rf.LinearTransformer.init("diag", layers=1, dim=4)
    with pytest.raises(rf.InputError, match="made for 4 features"):
        implicit_models(model, rf.Context.from_tokens(examples.X, examples.y))
