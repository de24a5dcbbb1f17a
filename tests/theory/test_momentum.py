"""Lemma 4.4: layers of diagonal models are gradient descent with momentum."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.theory.implicit_model import implicit_models
from ridgeformer.theory.momentum import MomentumLayer, difference_from_recursion, momentum_layers
from support import make_examples, one_sentence, relative_error, tame_model

# Rounding, times ‖w*‖² where n is close to d; measured, the worst of 3000 random cases is 1e-12.
TIGHT = 1e-10


def build(kind: str, layers: int, heads: int, dim: int, n: int, seed: int) -> tuple[rf.LinearTransformer, rf.Context]:
    examples = make_examples(3, n, dim, seed)
    model = tame_model(kind, layers, heads, dim, examples.gram, seed, strength=1.0)
    return model, rf.Context.from_tokens(examples.X, examples.y)


@given(
    st.sampled_from(["gdpp", "diag"]),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(1, 200),
    st.integers(0, 2**32 - 1),
)
def test_momentum_form_of_a_random_model_equals_the_recursion(
    kind: str, layers: int, heads: int, dim: int, n: int, seed: int
) -> None:
    assert difference_from_recursion(*build(kind, layers, heads, dim, n, seed)) < TIGHT


@pytest.mark.parametrize(("dim", "n"), [(2, 1), (5, 3), (12, 4), (12, 11), (12, 12), (12, 13)])
def test_momentum_form_with_few_examples_holds_for_the_solution_of_least_norm(dim: int, n: int) -> None:
    assert difference_from_recursion(*build("diag", 4, 2, dim, n, seed=1)) < TIGHT


def test_trajectory_by_the_momentum_form_alone_ends_at_the_model_s_weights() -> None:
    model, context = build("diag", 5, 1, 6, 30, seed=2)
    u, w = np.zeros((3, 6)), np.zeros((3, 6))
    for layer in momentum_layers(model, context):
        u, w = layer.update(u, w)
    assert relative_error(w, rf.context_weights(model, context)) < TIGHT


def test_coefficients_equal_the_lemma_written_out_for_one_context() -> None:
    """Λ, Γ, s, Π, Φ from tokens, residuals by lstsq and sums over examples: nothing shared with the module."""
    examples = make_examples(1, 9, 3, seed=3)
    X, y = examples.X[0], examples.y[0]
    model = tame_model("diag", 3, 2, 3, examples.gram, strength=1.0)
    context = rf.Context.from_tokens(examples.X, examples.y)
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    rho = ((y - X @ best) ** 2).sum()
    trace = rf.transform_tokens(model, examples.X, examples.y, examples.queries)
    for number, layer in enumerate(momentum_layers(model, context)):
        xx, xy, yx, yy = model.omega()[number]
        state = implicit_models(model, context)[number]
        M, u, a, w = state.M[0], state.u[0], state.a[0], state.w[0]
        X_l, y_l = trace[number][0, :9, :3], trace[number][0, :9, 3]
        assert relative_error(layer.Lambda[0], -xx * X_l.T @ X_l - xy * a**2 * rho * np.eye(3)) < TIGHT
        assert relative_error(layer.Gamma[0], a * xy * (M + np.outer(u, best))) < TIGHT
        assert relative_error(layer.s, np.array([yy * (y_l**2).sum()])) < TIGHT
        assert relative_error(layer.Pi[0], yx * M.T @ (M + np.outer(u, best))) < TIGHT
        assert relative_error(layer.Phi[0], a * rho * yx * M.T) < TIGHT
        assert relative_error(layer.descent[0], X.T @ (a * y - X @ w)) < TIGHT


def test_descent_is_minus_the_gradient_of_half_the_squared_residuals() -> None:
    model, context = build("diag", 3, 1, 4, 15, seed=4)
    examples = make_examples(3, 15, 4, 4)
    state, layer = implicit_models(model, context)[2], momentum_layers(model, context)[2]

    def half_square(w: np.ndarray) -> np.ndarray:
        return 0.5 * ((state.a[:, None] * examples.y - np.einsum("bnd,bd->bn", examples.X, w)) ** 2).sum(axis=1)

    for place in range(4):
        step = np.zeros(4)
        step[place] = 1e-4
        slope = (half_square(state.w + step) - half_square(state.w - step)) / 2e-4
        # Central differences of a quadratic are exact but for rounding, 1e-16 · λ / 1e-4.
        assert relative_error(-slope, layer.descent[:, place]) < 1e-7


@given(st.integers(3, 6), st.integers(1, 3), st.integers(2, 12), st.integers(5, 200), st.integers(0, 2**32 - 1))
def test_momentum_form_with_the_printed_factor_differs(layers: int, heads: int, dim: int, n: int, seed: int) -> None:
    """Slip of the proof: M + a u w*ᵀ. It needs a ≠ 1 and u ≠ 0, hence the third layer."""
    model, context = build("diag", layers, heads, dim, n, seed)
    assert difference_from_recursion(model, context) < TIGHT
    # The smallest of 1000 random cases is 2e-5.
    assert difference_from_recursion(model, context, printed=True) > 1e-7


@pytest.mark.parametrize("name", ["Lambda", "Gamma", "s", "Pi", "Phi", "descent"])
def test_update_with_a_coefficient_off_by_a_hundredth_differs(name: str) -> None:
    model, context = build("diag", 3, 2, 4, 20, seed=5)
    layer, before, after = momentum_layers(model, context)[2], *implicit_models(model, context)[2:4]
    wrong: MomentumLayer = dataclasses.replace(layer, **{name: getattr(layer, name) * 1.01})
    u, w = wrong.update(before.u, before.w)
    assert max(relative_error(u, after.u), relative_error(w, after.w)) > 1e-7  # Φ, the smallest term: 9e-7
    u, w = layer.update(before.u, before.w)
    assert max(relative_error(u, after.u), relative_error(w, after.w)) < TIGHT


def test_full_model_is_refused_in_one_sentence() -> None:
    model, context = build("full", 2, 1, 3, 9, seed=6)
    with pytest.raises(rf.InputError, match="only gdpp and diag models do") as caught:
        momentum_layers(model, context)
    one_sentence(caught.value)
