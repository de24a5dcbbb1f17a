"""Kinds: the parameters of a layer, the matrices they stand for, and the way back from gradients."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.kinds import KINDS, Blocks, Dense
from ridgeformer.core.notation import Array
from support import refused


def small(kind: str, layers: int = 2, heads: int = 3, dim: int = 4, dtype: Any = np.float64) -> rf.LinearTransformer:
    return rf.LinearTransformer.init(kind, layers=layers, heads=heads, dim=dim, dtype=dtype, scale=0.1)


def test_kinds_are_the_three_of_the_paper_from_small_to_large() -> None:
    assert {name: kind.label for name, kind in KINDS.items()} == {"gdpp": "GD++", "diag": "DIAG", "full": "FULL"}
    assert len({(kind.look.colour, kind.look.marker, kind.look.dashes) for kind in KINDS.values()}) == 3


# --- attention matrices and ω -----------------------------------------------------------------------------------------


def test_attention_matrices_of_a_full_model_are_its_parameters() -> None:
    model = small("full")
    P, Q = model.attention_matrices()
    assert np.array_equal(P, model.parameters["P"])
    assert np.array_equal(Q, model.parameters["Q"])


@pytest.mark.parametrize("kind", ["gdpp", "diag"])
def test_attention_matrices_of_a_diagonal_model_repeat_its_numbers_along_the_diagonal(kind: str) -> None:
    model = small(kind)
    P, Q = model.attention_matrices()
    assert P.shape == Q.shape == (2, 3, 5, 5)
    p, q = model.parameters["p"], model.parameters["q"]
    for layer in range(2):
        for head in range(3):
            p_x, p_y = p[layer, head]
            q_x, q_y = q[layer, head] if kind == "diag" else (q[layer, head, 0], 0.0)
            assert np.array_equal(P[layer, head], np.diag([p_x] * 4 + [p_y]))
            assert np.array_equal(Q[layer, head], np.diag([q_x] * 4 + [q_y]))


def test_omega_sums_products_over_heads() -> None:
    model = small("diag")
    p, q = model.parameters["p"], model.parameters["q"]
    for layer in range(2):
        expected = [sum(p[layer, k, a] * q[layer, k, b] for k in range(3)) for a in (0, 1) for b in (0, 1)]
        assert model.omega()[layer] == pytest.approx(expected, rel=1e-14)  # rounding of a sum of three products


def test_omega_of_a_gdpp_model_has_no_y_column() -> None:
    omega = small("gdpp").omega()
    assert not omega[:, [1, 3]].any()
    assert omega[:, [0, 2]].all()


def test_omega_of_one_head_satisfies_the_identity_of_the_paper_and_of_two_heads_does_not() -> None:
    """ω_xx ω_yy = ω_xy ω_yx (the paper's section 3): both sides are p_x p_y q_x q_y."""
    one, two = (small("diag", layers=5, heads=heads).omega() for heads in (1, 2))
    assert one[:, 0] * one[:, 3] == pytest.approx(one[:, 1] * one[:, 2], rel=1e-14)
    assert not np.isclose(two[:, 0] * two[:, 3], two[:, 1] * two[:, 2], rtol=1e-3, atol=0).any()


def test_omega_of_a_full_model_is_refused() -> None:
    refused("full", small("full").omega)
    refused("full", small("full").omega_gradient, np.ones((2, 4)))


def pullback(model: rf.LinearTransformer, arrays: Any, gradient: tuple[Array, ...]) -> Array:
    """The gradient of Σ g∘arrays(θ), which is bilinear in θ: central differences are exact except for rounding."""
    flat, step = model.flatten(), 0.5

    def value(vector: Array) -> float:
        return sum(float((g * a).sum()) for g, a in zip(gradient, arrays(model.unflatten(vector)), strict=True))

    unit = step * np.eye(model.size)
    return np.array([(value(flat + shift) - value(flat - shift)) / (2 * step) for shift in unit])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_kind_are_the_chain_rule_through_its_matrices_and_its_compiled_form(kind: str) -> None:
    model, rng = small(kind), np.random.default_rng(0)
    assert isinstance(model.compiled(), Dense if kind == "full" else Blocks)

    def check(arrays: Any, backward: Any) -> None:
        gradient = tuple(rng.standard_normal(array.shape) for array in arrays(model))
        own = backward(gradient)
        assert {name: array.shape for name, array in own.items()} == KINDS[kind].shapes(2, 3, 4)
        assert model.replace(own).flatten() == pytest.approx(pullback(model, arrays, gradient), rel=1e-9, abs=1e-12)

    check(lambda m: m.attention_matrices(), lambda g: KINDS[kind].gradient(model.parameters, *g))
    check(lambda m: m.compiled(), lambda g: KINDS[kind].compiled_gradient(model.parameters, g))
    if kind != "full":
        check(lambda m: (m.omega(),), lambda g: model.omega_gradient(g[0]).parameters)


# --- embedding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_embed_in_its_own_kind_is_the_model_itself(kind: str) -> None:
    model = small(kind)
    assert model.embed(kind) is model


@pytest.mark.parametrize(("kind", "smaller"), [("full", "diag"), ("full", "gdpp"), ("diag", "gdpp")])
def test_embed_in_a_smaller_kind_is_refused(kind: str, smaller: str) -> None:
    refused("⊂", small(kind).embed, smaller)


def test_embed_keeps_info_and_precision() -> None:
    model = dataclasses.replace(small("gdpp", dtype=np.float32), info={"task": "uniform:5"})
    embedded = model.embed("full")
    assert embedded.info == {"task": "uniform:5"}
    assert embedded.dtype == np.float32
