"""Kinds: the parameters of a layer, the matrices they stand for, and the way back from gradients."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.kinds import KINDS, MOST_BLOCKS, Blocks, Dense
from ridgeformer.core.notation import Array
from support import VARIANTS, kind_and_registers, refused


def small(kind: str, layers: int = 2, heads: int = 3, dim: int = 4, dtype: Any = np.float64) -> rf.LinearTransformer:
    kind, registers = kind_and_registers(kind)
    sizes = {"layers": layers, "heads": heads, "dim": dim, "registers": registers}
    return rf.LinearTransformer.init(kind, **sizes, dtype=dtype, scale=0.1)


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


@pytest.mark.parametrize("variant", [*VARIANTS, "diag+5"])
def test_gradients_of_a_kind_are_the_chain_rule_through_its_matrices_and_its_compiled_form(variant: str) -> None:
    model, rng, (kind, registers) = small(variant), np.random.default_rng(0), kind_and_registers(variant)
    assert isinstance(model.compiled(), Dense if kind == "full" or registers > MOST_BLOCKS else Blocks)

    def check(arrays: Any, backward: Any) -> None:
        gradient = tuple(rng.standard_normal(array.shape) for array in arrays(model))
        own = backward(gradient)
        assert {name: array.shape for name, array in own.items()} == KINDS[kind].shapes_with(2, 3, 4, registers)
        assert model.replace(own).flatten() == pytest.approx(pullback(model, arrays, gradient), rel=1e-9, abs=1e-12)

    check(lambda m: m.attention_matrices(), lambda g: KINDS[kind].gradient(model.parameters, *g))
    check(lambda m: m.compiled(), lambda g: KINDS[kind].compiled_gradient(model.parameters, g))
    if kind != "full" and not registers:
        check(lambda m: (m.omega(),), lambda g: model.omega_gradient(g[0]).parameters)


# --- registers -------------------------------------------------------------------------------------------------------


def test_attention_matrices_of_a_diagonal_model_with_registers_are_dense_behind_the_features() -> None:
    model = small("diag+2", dim=3)
    assert {name: array.shape for name, array in model.parameters.items()} == {"p": (2, 3, 10), "q": (2, 3, 10)}
    for matrices, numbers in zip(model.attention_matrices(), model.parameters.values(), strict=True):
        assert matrices.shape == (2, 3, 6, 6)
        expected = np.zeros((6, 6))
        expected[:3, :3] = numbers[1, 2, 0] * np.eye(3)
        expected[3:, 3:] = numbers[1, 2, 1:].reshape(3, 3)
        assert np.array_equal(matrices[1, 2], expected)


@pytest.mark.parametrize("registers", [0, 1, 2, 4])
def test_blocks_of_a_diagonal_model_make_the_layer_map_that_its_matrices_make(registers: int) -> None:
    """T = I + [[ω Σ, K A], [B Kᵀ, C:N]], as the docstring of `Blocks` says."""
    model, rng, dim, s = small(f"diag+{registers}"), np.random.default_rng(0), 4, 1 + registers
    tokens = rng.standard_normal((7, dim + s))
    gram, (blocks,) = tokens.T @ tokens, [model.compiled()]
    assert isinstance(blocks, Blocks)
    assert blocks.rest == s
    P, Q = model.attention_matrices()
    for layer in range(2):
        xx, A, B, C = np.split(blocks.omega[layer], np.cumsum([1, s * s, s * s]))
        scatter, cross, energy = gram[:dim, :dim], gram[:dim, dim:], gram[dim:, dim:]
        corner = np.einsum("aem,m->ae", C.reshape(s, s, -1), energy[np.triu_indices(s)])
        expected = np.block([[xx * scatter, cross @ A.reshape(s, s)], [B.reshape(s, s) @ cross.T, corner]])
        assert sum(P[layer] @ gram @ Q[layer]) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_diagonal_model_without_registers_has_the_same_bits_as_ever() -> None:
    model = small("diag")
    p, q = model.parameters["p"], model.parameters["q"]
    assert p.shape == (2, 3, 2)
    assert model.omega().tobytes() == np.einsum("lha,lhb->lab", p, q).reshape(2, 4).tobytes()


def test_omega_of_a_model_with_registers_is_refused() -> None:
    refused("registers", small("diag+1").omega)
    refused("registers", small("diag+1").omega_gradient, np.ones((2, 4)))


def test_registers_of_a_gdpp_model_are_refused() -> None:
    refused("gdpp model has no registers", rf.LinearTransformer.init, "gdpp", layers=2, registers=1)
    refused("gdpp model has no registers", small("gdpp").embed, "gdpp", 1)


def test_embed_with_fewer_registers_is_refused() -> None:
    refused("registers must be between 2 and", small("diag+2").embed, "full", 1)


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


@pytest.mark.parametrize("registers", [0, 1, 2])
@pytest.mark.parametrize("kind", ["gdpp", "diag", "full"])
def test_first_layer_without_empty_registers_is_the_same_model(kind: str, registers: int) -> None:
    if kind == "gdpp" and registers:
        return
    model = rf.LinearTransformer.init(kind, layers=3, dim=3, registers=registers, seed=1, scale=0.2, dtype=np.float64)
    changed = model.replace(KINDS[kind].without_empty_registers(model.parameters))
    context = rf.Task(3, 8).draw_contexts(20, seed=0).context
    np.testing.assert_allclose(changed.weights(context), model.weights(context), rtol=1e-12)
    if kind == "diag" and registers:
        assert (changed.flatten() == 0).sum() > (model.flatten() == 0).sum()
        assert np.array_equal(changed.parameters["p"][1:], model.parameters["p"][1:])
