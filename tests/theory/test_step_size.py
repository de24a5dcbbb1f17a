"""Section 5.3: ω_xy, then ω_yx, is one gradient step of a size that depends on the noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.theory.implicit_model import implicit_models
from ridgeformer.theory.numerics import residual_energy
from ridgeformer.theory.step_size import adaptive_step, adaptive_step_network, effective_step_size, two_layer_update
from support import KINDS, make_examples, relative_error, tame_model

TIGHT = 1e-10

small = st.floats(-0.9, 0.9).filter(lambda value: abs(value) > 0.01)


@given(small, small, st.integers(1, 12), st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_two_layers_take_one_gradient_step_of_the_exact_size(xy: float, yx: float, dim: int, n: int, seed: int) -> None:
    examples = make_examples(3, n, dim, seed, queries=2)
    context = rf.Context.from_tokens(examples.X, examples.y)
    xy, yx = xy / context.energy.max(), yx / context.energy.max()
    network = adaptive_step_network(dim, xy, yx)
    predictions = rf.token_predictions(network, examples.X, examples.y, examples.queries)
    weights = adaptive_step(xy, yx, context.energy)[:, None] * np.einsum("bnd,bn->bd", examples.X, examples.y)
    assert relative_error(np.einsum("bmd,bd->bm", examples.queries, weights), predictions) < TIGHT


def test_network_uses_one_coefficient_in_each_layer() -> None:
    network = adaptive_step_network(3, -0.2, -0.5)
    assert network.heads == 1
    assert np.array_equal(network.omega(), [[0, -0.2, 0, 0], [0, 0, -0.5, 0]])


def test_printed_size_is_exact_only_for_pure_noise() -> None:
    """Σ r² of OLS stands for Σ y² in print: right where OLS explains nothing, far off where it explains all."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((1, 30, 4))
    y = rng.standard_normal(30)
    orthogonal = y - X[0] @ np.linalg.lstsq(X[0], y, rcond=None)[0]
    noise_only = rf.Context.from_tokens(X, orthogonal[None])
    assert relative_error(residual_energy(noise_only), noise_only.energy) < TIGHT
    noise_free = rf.Context.from_tokens(X, X @ rng.standard_normal(4))
    assert relative_error(adaptive_step(-0.01, -0.1, residual_energy(noise_free)), np.array([0.1])) < TIGHT
    assert relative_error(adaptive_step(-0.01, -0.1, noise_free.energy), np.array([0.1])) > 0.1


@pytest.mark.parametrize("kind", ["gdpp", "diag"])
@pytest.mark.parametrize(("dim", "n"), [(1, 5), (4, 3), (6, 40)])
def test_two_layers_behind_a_model_do_what_the_general_formula_says(kind: str, dim: int, n: int) -> None:
    examples = make_examples(3, n, dim, seed=3)
    context = rf.Context.from_tokens(examples.X, examples.y)
    first = tame_model(kind, 3, 1, dim, context.gram, strength=1.0).embed("diag")
    xy, yx = -0.3 / context.energy.max(), -0.6 / context.energy.max()
    second = adaptive_step_network(dim, xy, yx)
    both = {name: np.concatenate([first.parameters[name], second.parameters[name]]) for name in ("p", "q")}
    expected = rf.context_weights(rf.LinearTransformer("diag", dim, both), context)
    state = implicit_models(first, context)[-1]
    assert relative_error(two_layer_update(state, context, xy, yx), expected) < TIGHT
    assert relative_error(two_layer_update(state, context, 1.1 * xy, yx), expected) > 1e-6  # the control
    assert relative_error(two_layer_update(state, context, xy, 1.01 * yx), expected) > 1e-6


def test_effective_step_of_the_construction_is_the_exact_size_along_the_gradient() -> None:
    examples = make_examples(4, 20, 6, seed=4)
    context = rf.Context.from_tokens(examples.X, examples.y)
    first, second = effective_step_size(adaptive_step_network(6, -1e-3, -1e-2), context)
    assert (first.layer, second.layer) == (1, 2)
    assert not first.step.any()
    assert relative_error(second.step, adaptive_step(-1e-3, -1e-2, context.energy)) < TIGHT
    assert relative_error(second.alignment, np.ones(4)) < TIGHT
    assert relative_error(second.energy, context.energy) < TIGHT


def test_effective_step_of_plain_gradient_descent_is_its_rate_in_every_layer() -> None:
    """ω_yx alone: w ← w + η Σ (w* − w), and the energies are those of the residuals."""
    examples = make_examples(3, 15, 4, seed=5)
    context = rf.Context.from_tokens(examples.X, examples.y)
    p, q = np.tile([[[0.0, -0.01]]], (4, 1, 1)), np.ones((4, 1, 1))
    w = np.zeros((3, 4))
    for size in effective_step_size(rf.LinearTransformer("gdpp", 4, {"p": p, "q": q}), context):
        residuals = examples.y - np.einsum("bnd,bd->bn", examples.X, w)
        assert relative_error(size.step, np.full(3, 0.01)) < TIGHT
        assert relative_error(size.alignment, np.ones(3)) < TIGHT
        assert relative_error(size.energy, (residuals**2).sum(axis=1)) < TIGHT
        w = w + 0.01 * np.einsum("bnd,bn->bd", examples.X, residuals)


@pytest.mark.parametrize("kind", KINDS)
def test_effective_steps_of_any_kind_are_finite_and_aligned_at_most_fully(kind: str) -> None:
    examples = make_examples(5, 20, 4, seed=6)
    model = tame_model(kind, 4, 2, 4, examples.gram, strength=1.0)
    sizes = effective_step_size(model, rf.Context.from_tokens(examples.X, examples.y))
    assert [size.layer for size in sizes] == [1, 2, 3, 4]
    for size in sizes:
        assert np.isfinite(size.step).all()
        assert (np.abs(size.alignment) <= 1 + TIGHT).all()
    if kind == "full":
        assert np.abs(sizes[0].alignment).min() < 0.99  # dense weights do not step along the gradient
