"""The printed transformer, the Gram recursion and the fused kernels give the same numbers, and the read-outs agree."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.forward import gram_weights, layer_map, layer_maps, query_rows
from support import FLOAT32_EPS, KINDS, VARIANTS, make_examples, relative_error, tame_model

# Float64 rounding, 1e-16, grows with the length of the sums (n and p up to 100) and through the layers; measured, the
# worst case below is 2e-14. Any real difference between the three computations is of order one.
TIGHT = 1e-12

# (layers, heads): every depth and head count of the smaller models; (2, 3) and (5, 2) mix them.
DEPTHS = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 3), (5, 1), (5, 2)]
# (dim, n): n = 1, n < d, n = d, n = d + 1, n ≫ d; p = 2, 3, 6, 11 are below, at and beyond a register tile of 4.
SHAPES = [(1, 1), (1, 2), (1, 30), (2, 1), (2, 2), (2, 3), (5, 3), (5, 6), (10, 1), (10, 10), (10, 20), (10, 100)]


@pytest.mark.parametrize("kind", [*VARIANTS, "diag+1", "diag+5"])
@pytest.mark.parametrize(("layers", "heads"), DEPTHS)
@pytest.mark.parametrize(("dim", "n"), SHAPES)
def test_predictions_of_tokens_gram_and_fused_over_shapes_are_equal(
    kind: str, layers: int, heads: int, dim: int, n: int
) -> None:
    examples = make_examples(5, n, dim, seed=layers)
    X, y, queries = examples.X, examples.y, examples.queries
    model = tame_model(kind, layers, heads, dim, examples.gram)
    printed = rf.token_predictions(model, X, y, queries)
    by_gram = np.einsum("bmd,bd->bm", queries, gram_weights(model, examples.gram))
    fused_weights = rf.implicit_weights(model, X, y, backend="fused")
    assert relative_error(by_gram, printed) < TIGHT
    assert relative_error(np.einsum("bmd,bd->bm", queries, fused_weights), printed) < TIGHT
    assert relative_error(rf.predict(model, X, y, queries, backend="fused"), printed) < TIGHT
    assert relative_error(rf.predict(model, X, y, queries), printed) < TIGHT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads", "dim", "n"), [(2, 2, 64, 70), (3, 1, 64, 30), (7, 1, 10, 20)])
def test_predictions_of_a_wide_or_deep_model_are_equal(kind: str, layers: int, heads: int, dim: int, n: int) -> None:
    examples = make_examples(9, n, dim, seed=1)  # 9: one more than a vector of float64 has lanes
    model = tame_model(kind, layers, heads, dim, examples.gram)
    printed = rf.token_predictions(model, examples.X, examples.y, examples.queries)
    for backend in ("reference", "fused"):
        found = rf.predict(model, examples.X, examples.y, examples.queries, backend=backend)
        assert relative_error(found, printed) < TIGHT


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize(("layers", "heads", "dim", "n"), [(1, 1, 1, 1), (3, 2, 5, 3), (5, 1, 10, 20), (2, 1, 64, 70)])
def test_float32_predictions_stay_within_rounding_of_float64(
    kind: str, backend: str, layers: int, heads: int, dim: int, n: int
) -> None:
    examples = make_examples(19, n, dim, seed=2)
    model = tame_model(kind, layers, heads, dim, examples.gram)
    expected = rf.implicit_weights(model, examples.X, examples.y, backend="reference")
    X, y = examples.X.astype(np.float32), examples.y.astype(np.float32)
    found = rf.implicit_weights(model.astype(np.float32), X, y, backend=backend)
    assert found.dtype == np.float32
    # Rounding of inputs, weights and sums, 6e-8 each, of terms of both signs. Measured, 1e-6 to 1e-5 depending on the
    # draw; a wrong term shows at 1e-2.
    assert relative_error(found, expected) < 400 * FLOAT32_EPS


def test_precision_of_mixed_inputs_is_the_wider_one() -> None:
    examples = make_examples(2, 5, 3, seed=3)
    model = tame_model("full", 1, 1, 3, examples.gram)
    narrow = examples.X.astype(np.float32), examples.y.astype(np.float32)
    for backend in ("reference", "fused"):
        assert rf.implicit_weights(model.astype(np.float32), *narrow, backend=backend).dtype == np.float32
        assert rf.implicit_weights(model, *narrow, backend=backend).dtype == np.float64
        mixed = rf.implicit_weights(model.astype(np.float32), examples.X, examples.y, backend=backend)
        assert mixed.dtype == np.float64


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_readout_after_k_layers_equals_tokens_after_k_layers(kind: str, backend: str) -> None:
    examples = make_examples(4, 9, 5, seed=4)
    X, y, queries = examples.X, examples.y, examples.queries
    model = tame_model(kind, 5, 2, 5, examples.gram)
    trace = rf.transform_tokens(model, X, y, queries)
    for K in range(1, 6):
        printed = -trace[K][:, 9:, -1]
        assert relative_error(rf.predict(model, X, y, queries, layers=K, backend=backend), printed) < TIGHT
        weights = rf.implicit_weights(model, X, y, layers=K, backend=backend)
        assert relative_error(np.einsum("bmd,bd->bm", queries, weights), printed) < TIGHT
        context = rf.Context.from_tokens(X, y)
        assert np.array_equal(rf.context_weights(model, context, layers=K, backend=backend), weights)


def test_readout_after_different_numbers_of_layers_differs() -> None:
    examples = make_examples(4, 9, 5, seed=4)
    model = tame_model("full", 3, 1, 5, examples.gram)
    first, second, third = (rf.implicit_weights(model, examples.X, examples.y, layers=K) for K in (1, 2, 3))
    # Layers of a tame model move tokens by about a sixth of their length: far more than rounding.
    assert relative_error(first, second) > 1e-3
    assert relative_error(second, third) > 1e-3


def test_transform_tokens_before_the_first_layer_holds_the_tokens_themselves() -> None:
    examples = make_examples(2, 4, 3, seed=5)
    model = tame_model("diag", 2, 1, 3, examples.gram)
    trace = rf.transform_tokens(model, examples.X, examples.y, examples.queries)
    assert len(trace) == 3
    assert np.array_equal(trace[0][:, :4, :3], examples.X)
    assert np.array_equal(trace[0][:, :4, 3], examples.y)
    assert np.array_equal(trace[0][:, 4:, :3], examples.queries)
    assert not trace[0][:, 4:, 3].any()


def test_transform_tokens_puts_registers_of_zero_between_features_and_target() -> None:
    examples = make_examples(2, 4, 3, seed=5)
    model = tame_model("full+2", 2, 1, 3, examples.gram)
    trace = rf.transform_tokens(model, examples.X, examples.y, examples.queries)
    assert trace[0].shape == (2, 4 + 3, 3 + 2 + 1)
    assert np.array_equal(trace[0][:, :4, [0, 1, 2, 5]], np.concatenate([examples.X, examples.y[..., None]], axis=-1))
    assert not trace[0][:, :, 3:5].any()
    assert not trace[0][:, 4:, 5].any()
    assert trace[1][:, :, 3:5].all()  # a random layer writes into every register of every token


def test_transform_tokens_on_one_context_equals_the_sums_of_the_paper() -> None:
    """Section 2 of the paper's model, written out: e_i ← e_i + Σ_k P_k (Σ_{j ≤ n} e_j e_jᵀ) Q_k e_i."""
    examples = make_examples(1, 3, 2, seed=6, queries=1)
    model = tame_model("full", 2, 2, 2, examples.gram)
    P, Q = model.attention_matrices()
    tokens = [np.append(x, y) for x, y in zip(examples.X[0], examples.y[0], strict=True)]
    tokens.append(np.append(examples.queries[0, 0], 0.0))
    for layer in range(2):
        gram = sum(np.outer(e, e) for e in tokens[:3])  # the query, last, is not attended to
        tokens = [e + sum(P[layer, k] @ gram @ Q[layer, k] @ e for k in range(2)) for e in tokens]
    found = rf.transform_tokens(model, examples.X, examples.y, examples.queries)[-1][0]
    assert relative_error(found, np.array(tokens)) < TIGHT


def test_queries_do_not_influence_one_another() -> None:
    examples = make_examples(2, 6, 3, seed=7, queries=5)
    model = tame_model("full", 3, 1, 3, examples.gram)
    together = rf.token_predictions(model, examples.X, examples.y, examples.queries)
    alone = rf.token_predictions(model, examples.X, examples.y, examples.queries[:, 2:3])
    assert relative_error(together[:, 2:3], alone) < TIGHT


def test_diagonal_layer_equals_the_omega_equations_of_the_paper() -> None:
    """x ← x + ω_xx Σ x + ω_xy y α ; y ← y + ω_yx <α, x> + ω_yy λ y, for two heads."""
    examples = make_examples(1, 7, 3, seed=8)
    model = tame_model("diag", 1, 2, 3, examples.gram)
    (xx, xy, yx, yy), X, y = model.omega()[0], examples.X[0], examples.y[0]
    scatter, cross, energy = X.T @ X, X.T @ y, y @ y
    found = rf.transform_tokens(model, examples.X, examples.y, examples.queries)[1][0]
    assert relative_error(found[:7, :3], X + xx * X @ scatter + xy * np.outer(y, cross)) < TIGHT
    assert relative_error(found[:7, 3], y + yx * X @ cross + yy * energy * y) < TIGHT


@pytest.mark.parametrize("kind", VARIANTS)
def test_layer_maps_move_tokens_and_their_gram_matrix(kind: str) -> None:
    examples = make_examples(3, 6, 4, seed=9)
    model = tame_model(kind, 3, 2, 4, examples.gram)
    trace = rf.transform_tokens(model, examples.X, examples.y, examples.queries)
    maps, grams = layer_maps(model, examples.gram)
    for layer in range(3):
        assert relative_error(np.einsum("bij,btj->bti", maps[layer], trace[layer]), trace[layer + 1]) < TIGHT
        context = trace[layer + 1][:, :6]
        assert relative_error(grams[layer + 1], context.transpose(0, 2, 1) @ context) < TIGHT
    P, Q = model.attention_matrices()
    assert np.array_equal(layer_map(P[0], Q[0], grams[0]), maps[0])
    rows = query_rows(maps)
    assert len(rows) == 4
    assert relative_error(rows[0], (maps[2] @ maps[1] @ maps[0])[:, -1]) < TIGHT


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", KINDS)
def test_implicit_weights_of_no_context_are_an_empty_array(kind: str, backend: str) -> None:
    model = rf.LinearTransformer.init(kind, layers=2, dim=3, dtype=np.float64)
    assert rf.implicit_weights(model, np.empty((0, 4, 3)), np.empty((0, 4)), backend=backend).shape == (0, 3)


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_implicit_weights_of_an_exploding_model_are_not_finite_and_one_warning_says_so(backend: str) -> None:
    examples = make_examples(3, 10, 5, seed=10)
    model = rf.LinearTransformer.init("full", layers=6, dim=5, scale=1e3)
    with pytest.warns(rf.UntrainedDataWarning, match="not finite") as caught:
        assert not np.isfinite(rf.implicit_weights(model, examples.X, examples.y, backend=backend)).all()
    assert len(caught) == 1


def test_token_predictions_of_an_exploding_model_are_not_finite_and_warn_of_nothing() -> None:
    examples = make_examples(3, 10, 5, seed=10)
    model = rf.LinearTransformer.init("full", layers=6, dim=5, scale=1e3, dtype=np.float64)
    assert not np.isfinite(rf.token_predictions(model, examples.X, examples.y, examples.queries)).all()
