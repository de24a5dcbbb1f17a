"""ω, canonical heads and the nearest diagonal model: exact where they must be, however a model is written."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import canonical_heads, diagonal_fit, model_from_omega, omega_of
from ridgeformer.analysis.diagonal import OMEGAS, inert, low_rank_split, omega_of_kind
from ridgeformer.core.forward import gram_weights
from ridgeformer.core.notation import Array
from support import KINDS, make_examples, one_sentence, relative_error, tame_model

ROUNDING = 1e-10
GRAM = make_examples(6, 12, 4, seed=1).gram


def rewritten(model: rf.LinearTransformer, seed: int = 0) -> rf.LinearTransformer:
    """The same function with heads rescaled (signs too), mixed by an invertible matrix, and in another order."""
    rng = np.random.default_rng(seed)
    P, Q = (np.array(matrix) for matrix in model.embed("full").attention_matrices())
    mixing = rng.standard_normal((model.layers, model.heads, model.heads)) + 2 * np.eye(model.heads)
    new_P = np.einsum("lkh,lhij->lkij", mixing, P)
    new_Q = np.einsum("lhk,lhij->lkij", np.linalg.inv(mixing), Q)
    order = rng.permutation(model.heads)
    return rf.LinearTransformer("full", model.dim, {"P": new_P[:, order], "Q": new_Q[:, order]})


@pytest.mark.parametrize(("kind", "heads"), [("gdpp", 1), ("diag", 1), ("diag", 3)])
def test_two_heads_with_free_omega_are_the_same_model(kind: str, heads: int) -> None:
    model = tame_model(kind, 3, heads, 4, GRAM)
    same = model_from_omega(omega_of(model), 4)
    assert same.heads == 2
    assert relative_error(gram_weights(same, GRAM), gram_weights(model, GRAM)) < ROUNDING


def test_models_and_omega_of_the_wrong_kind_are_refused() -> None:
    for wrong in (omega_of, canonical_heads, diagonal_fit):
        with pytest.raises(rf.InputError, match="model must be a LinearTransformer"):
            wrong("diag-4-uniform-5")  # type: ignore[arg-type]
    with pytest.raises(rf.InputError, match="only gdpp and diag models do") as caught:
        omega_of(tame_model("full", 2, 1, 4, GRAM))
    one_sentence(caught.value)
    with pytest.raises(rf.InputError, match="axes"):
        model_from_omega(np.zeros(4), 3)


def test_every_kind_says_which_omega_it_has() -> None:
    of_kinds = {kind: [OMEGAS[place] for place in np.flatnonzero(omega_of_kind(kind))] for kind in KINDS}
    assert of_kinds == {"gdpp": ["xx", "yx"], "diag": list(OMEGAS), "full": list(OMEGAS)}


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_exactly_the_inert_omega_change_nothing(layers: int) -> None:
    omega = omega_of(tame_model("diag", layers, 2, 4, GRAM))
    before = gram_weights(model_from_omega(omega, 4), GRAM)
    for layer in range(layers):
        for block in range(4):
            moved = omega.copy()
            moved[layer, block] += 0.01
            changed = relative_error(gram_weights(model_from_omega(moved, 4), GRAM), before) > 1e-6
            assert changed != inert(layers)[layer, block], (layer, OMEGAS[block])


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_canonical_heads_and_projection_do_not_depend_on_how_the_model_is_written(kind: str, heads: int) -> None:
    if kind == "diag":
        heads = min(heads, 2)  # two diagonals span at most two heads; more would be degenerate
    model = tame_model(kind, 3, heads, 4, GRAM, seed=2)
    other = rewritten(model)
    for found, expected in zip(canonical_heads(other), canonical_heads(model), strict=True):
        assert relative_error(found, expected) < 1e-8
    assert relative_error(diagonal_fit(other).omega, diagonal_fit(model).omega) < 1e-9
    raw = other.attention_matrices()[0]
    assert relative_error(raw, model.embed("full").attention_matrices()[0]) > 0.1  # the control: it was rewritten


@pytest.mark.parametrize("kind", KINDS)
def test_canonical_heads_predict_the_same_and_are_balanced(kind: str) -> None:
    model = tame_model(kind, 3, 2, 4, GRAM)
    P, Q = canonical_heads(model)
    same = rf.LinearTransformer("full", 4, {"P": P, "Q": Q})
    assert relative_error(gram_weights(same, GRAM), gram_weights(model, GRAM)) < ROUNDING
    assert np.allclose(np.linalg.norm(P, axis=(2, 3)), np.linalg.norm(Q, axis=(2, 3)))
    largest = np.take_along_axis(P.reshape(3, 2, -1), np.abs(P).reshape(3, 2, -1).argmax(-1)[..., None], -1)
    assert (largest >= 0).all()


@pytest.mark.parametrize(("kind", "heads"), [("gdpp", 2), ("diag", 1), ("diag", 3)])
def test_diagonal_models_are_their_own_nearest_diagonal(kind: str, heads: int) -> None:
    model = tame_model(kind, 3, heads, 4, GRAM)
    fit = diagonal_fit(model)
    expected = np.where(inert(3), 0.0, omega_of(model))
    assert relative_error(fit.omega, expected) < ROUNDING
    assert np.allclose(fit.shares, 1)
    assert all(part.rank == 0 and part.diagonal_share > 1 - 1e-9 for part in fit.remainders)


def layer_as_matrix(P: Array, Q: Array) -> Array:
    """The map G ↦ Σ P G Q on an orthonormal basis of symmetric matrices: (p², p(p+1)/2)."""
    size = P.shape[-1]
    columns = []
    for i in range(size):
        for j in range(i, size):
            basis = np.zeros((size, size))
            basis[i, j] = basis[j, i] = 1.0 if i == j else np.sqrt(0.5)
            columns.append(sum(p @ basis @ q for p, q in zip(P, Q, strict=True)).ravel())
    return np.stack(columns, axis=1)


def test_projection_of_a_full_model_is_least_squares_over_all_symmetric_matrices() -> None:
    model = tame_model("full", 2, 2, 4, GRAM, seed=5)
    fit = diagonal_fit(model)
    P, Q = model.attention_matrices()
    basis = [layer_as_matrix(*(m[0] for m in model_from_omega(row[None], 4).attention_matrices())) for row in np.eye(4)]
    target = layer_as_matrix(P[0], Q[0])
    found, residual, *_ = np.linalg.lstsq(np.stack([b.ravel() for b in basis], axis=1), target.ravel(), rcond=None)
    assert relative_error(fit.omega[0], found) < ROUNDING
    assert fit.shares[0] == pytest.approx(1 - residual[0] / (target**2).sum())
    assert fit.shares[0] < 0.5  # a random model is far from diagonal


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_low_rank_remainder_of_a_synthetic_model_is_recovered(rank: int) -> None:
    rng = np.random.default_rng(rank)
    size = 11
    diagonal = np.diag(np.r_[np.full(size - 1, 0.3), -0.2])
    matrices = {}
    for name in "PQ":
        low_rank = rng.standard_normal((size, rank)) @ rng.standard_normal((rank, size)) / size
        matrices[name] = np.broadcast_to(diagonal + low_rank, (2, 1, size, size))
    parts = diagonal_fit(rf.LinearTransformer("full", 10, matrices)).remainders
    first_layer = [part for part in parts if part.layer == 1]
    assert [part.rank for part in first_layer] == [rank, rank]
    # The control: taking the mean diagonal away, as least squares does, leaves full rank.
    P = matrices["P"][0, 0]
    rest = P - np.diag(np.r_[np.full(size - 1, np.diag(P)[:-1].mean()), P[-1, -1]])
    assert rank == 0 or np.linalg.matrix_rank(rest, tol=1e-6) > rank + 3


def test_low_rank_split_finds_the_least_nuclear_norm() -> None:
    matrix = np.random.default_rng(0).standard_normal((6, 6))
    c_x, c_y = low_rank_split(matrix)

    def nuclear(x: float, y: float) -> float:
        return float(np.linalg.svd(matrix - np.diag([x] * 5 + [y]), compute_uv=False).sum())

    around = [nuclear(c_x + dx, c_y + dy) for dx in (-0.01, 0, 0.01) for dy in (-0.01, 0, 0.01)]
    assert nuclear(c_x, c_y) <= min(around) + 1e-12
