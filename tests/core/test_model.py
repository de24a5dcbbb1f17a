"""The model: parameters, initialisation, embedding, and that nothing about it can be changed by accident."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.core import kinds
from support import DTYPES, KINDS, make_examples, refusal, tame_model


def small(kind: str, layers: int = 2, heads: int = 3, dim: int = 4, dtype: Any = np.float64) -> rf.LinearTransformer:
    return rf.LinearTransformer.init(kind, layers=layers, heads=heads, dim=dim, dtype=dtype, scale=0.1)


# --- initialisation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_init_of_the_same_seed_is_equal_and_of_another_differs(kind: str) -> None:
    first, again, other = (rf.LinearTransformer.init(kind, layers=2, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.flatten(), again.flatten())
    assert not np.isclose(first.flatten(), other.flatten()).any()


@pytest.mark.parametrize("kind", KINDS)
def test_init_in_float32_is_that_in_float64_rounded(kind: str) -> None:
    wide, narrow = (small(kind, dtype=dtype) for dtype in (np.float64, np.float32))
    assert np.array_equal(wide.flatten().astype(np.float32), narrow.flatten())


@pytest.mark.parametrize("kind", KINDS)
def test_init_has_the_shapes_and_defaults_of_its_kind(kind: str) -> None:
    model = rf.LinearTransformer.init(kind, layers=3, heads=2, dim=4)
    assert (model.kind, model.layers, model.heads, model.dim) == (kind, 3, 2, 4)
    assert model.dtype == np.float32
    numbers = {"full": 2 * 3 * 2 * 25, "diag": 3 * 2 * 4, "gdpp": 3 * 2 * 3}
    assert model.size == numbers[kind] == model.flatten().size
    assert {name: array.shape for name, array in model.parameters.items()} == kinds.KINDS[kind].shapes(3, 2, 4)
    assert rf.LinearTransformer.init(kind, layers=1).dim == 10
    assert rf.LinearTransformer.init(kind, layers=1).heads == 1


@pytest.mark.parametrize(("kind", "scale"), [("full", 0.3), ("diag", 2.0), ("gdpp", None), ("full", None)])
def test_init_scale_is_the_standard_deviation_of_the_parameters(kind: str, scale: float | None) -> None:
    model = rf.LinearTransformer.init(kind, layers=100, heads=30, dim=3, scale=scale)
    values, expected = model.flatten().astype(np.float64), kinds.KINDS[kind].init_scale if scale is None else scale
    # 5 standard errors of the mean and of the standard deviation of N normals: s/√N and s/√(2N).
    assert abs(values.mean()) < 5 * expected / math.sqrt(values.size)
    assert abs(values.std() - expected) < 5 * expected / math.sqrt(2 * values.size)


def test_init_with_scale_zero_is_the_zero_model() -> None:
    assert not rf.LinearTransformer.init("full", layers=1, scale=0.0).flatten().any()


# --- read-out, precision ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_first_layers_are_the_first_layers(kind: str) -> None:
    model = small(kind, layers=4)
    cut = model.first_layers(3)
    assert cut.layers == 3
    for name, array in cut.parameters.items():
        assert np.array_equal(array, model.parameters[name][:3])
    assert model.first_layers(None) is model
    assert np.array_equal(model.first_layers(4).flatten(), model.flatten())


@pytest.mark.parametrize("kind", KINDS)
def test_astype_rounds_once_and_there_and_back_keeps_float32(kind: str) -> None:
    model = small(kind, dtype=np.float32)
    wide = model.astype("float64")
    assert wide.dtype == np.float64
    assert np.array_equal(wide.flatten(), model.flatten())
    assert np.array_equal(wide.astype(np.float32).flatten(), model.flatten())


# --- immutability, flat vectors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_model_cannot_be_changed_in_place(kind: str) -> None:
    model = small(kind)
    for array in model.parameters.values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.dim = 3  # type: ignore[misc]


def test_model_does_not_share_memory_with_the_arrays_it_was_made_of() -> None:
    p, q = np.ones((1, 1, 2)), np.ones((1, 1, 2))
    model = rf.LinearTransformer("diag", 3, {"p": p, "q": q})
    p[:] = 7.0
    assert model.parameters["p"].tolist() == [[[1.0, 1.0]]]


def test_parameters_are_kept_in_the_order_of_the_kind() -> None:
    arrays = {"q": np.full((1, 1, 2), 2.0), "p": np.full((1, 1, 2), 1.0)}
    assert rf.LinearTransformer("diag", 3, arrays).flatten().tolist() == [1.0, 1.0, 2.0, 2.0]


@given(st.sampled_from(KINDS), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99))
def test_unflatten_reverses_flatten(kind: str, layers: int, heads: int, dim: int, seed: int) -> None:
    model = rf.LinearTransformer.init(kind, layers=layers, heads=heads, dim=dim, seed=seed)
    vector = np.random.default_rng(seed).standard_normal(model.size).astype(np.float32)
    back = model.unflatten(vector)
    assert np.array_equal(back.flatten(), vector)
    assert {n: a.shape for n, a in back.parameters.items()} == {n: a.shape for n, a in model.parameters.items()}
    assert np.array_equal(model.unflatten(model.flatten()).flatten(), model.flatten())


def test_replace_keeps_kind_precision_and_info() -> None:
    model = dataclasses.replace(small("diag", dtype=np.float32), info={"a": 1})
    other = model.replace({name: 2 * array.astype(np.float64) for name, array in model.parameters.items()})
    assert (other.kind, other.dim, other.dtype, other.info) == ("diag", 4, np.dtype(np.float32), {"a": 1})
    assert np.array_equal(other.flatten(), 2 * model.flatten())


# --- refusals ---------------------------------------------------------------------------------------------------------

ONE = np.ones((1, 1, 2))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"p": ONE},
        {"p": ONE, "q": ONE, "r": ONE},
        {"P": ONE, "Q": ONE},
        {"p": ONE, "q": ONE[..., :1]},
        {"p": ONE[0], "q": ONE[0]},
        {"p": ONE, "q": np.ones((2, 1, 2))},
        {"p": ONE, "q": np.ones((1, 2, 2))},
        {"p": np.ones((0, 1, 2)), "q": np.ones((0, 1, 2))},
        {"p": np.ones((1, 0, 2)), "q": np.ones((1, 0, 2))},
        {"p": ONE.astype(int), "q": ONE.astype(int)},
        {"p": ONE, "q": ONE.astype(np.float32)},
        {"p": ONE.astype(complex), "q": ONE.astype(complex)},
        {"p": "a", "q": "b"},
        {"p": None, "q": None},
        {"p": [[1.0], [1.0, 2.0]], "q": ONE},
        None,
        5,
    ],
)
def test_model_of_bad_parameters_is_refused(parameters: Any) -> None:
    with refusal():
        rf.LinearTransformer("diag", 3, parameters)


@pytest.mark.parametrize("info", [None, "text", 5, [1]])
def test_model_of_info_that_is_no_mapping_is_refused(info: Any) -> None:
    with refusal():
        rf.LinearTransformer("diag", 3, {"p": ONE, "q": ONE}, info)


def test_full_model_of_another_dim_is_refused() -> None:
    square = np.ones((1, 1, 4, 4))
    assert rf.LinearTransformer("full", 3, {"P": square, "Q": square}).dim == 3
    with refusal():
        rf.LinearTransformer("full", 4, {"P": square, "Q": square})


@pytest.mark.parametrize(
    "vector", [np.ones(11), np.ones((12, 1)), 5.0, "a", ["a"] * 12, [[1.0], [1.0, 2.0]], np.ones(12, complex), None]
)
def test_unflatten_of_a_bad_vector_is_refused(vector: Any) -> None:
    model = rf.LinearTransformer.init("diag", layers=3, dim=2)
    assert model.size == 12
    with refusal():
        model.unflatten(vector)


@pytest.mark.parametrize("value", ["a", [[1.0], [1.0, 2.0]], None, np.ones((1, 1, 2), complex)])
def test_replace_with_bad_parameters_is_refused(value: Any) -> None:
    model = rf.LinearTransformer.init("diag", layers=1, dim=2)
    with refusal():
        model.replace({"p": value, "q": value})


def test_model_made_by_hand_is_gradient_descent() -> None:
    """ω_yx alone is one step of gradient descent from zero (section 2 of the paper): ŵ = −ω_yx α."""
    examples = make_examples(2, 5, 3, seed=0)
    model = rf.LinearTransformer("gdpp", 3, {"p": np.array([[[0.0, -0.01]]]), "q": np.array([[[1.0]]])})
    context = rf.Context.from_tokens(examples.X, examples.y)
    assert rf.context_weights(model, context) == pytest.approx(0.01 * context.cross, rel=1e-14)
    assert tame_model("gdpp", 1, 1, 3, context.gram).omega().shape == (1, 4)


# --- as a predictor, and in words ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_the_context_weights_in_the_precision_of_the_model(kind: str, dtype: Any) -> None:
    context = rf.Task(3, 8).draw_contexts(20, seed=0).context
    model = tame_model(kind, 3, 1, 3, context.gram).astype(dtype)
    narrow = rf.Context(context.gram.astype(dtype), 8)
    for layers in (None, 1, 2):
        weights = model.weights(context, layers)
        assert weights.dtype == np.dtype(dtype)
        assert np.array_equal(weights, rf.context_weights(model, narrow, layers, backend="fused"))


def test_repr_of_a_model_says_what_it_is_and_what_is_known_of_it_in_a_few_short_lines() -> None:
    bare = repr(small("diag", heads=1))
    assert bare == "LinearTransformer: DIAG, 2 layers, 1 head, 4 features, float64, 8 parameters"
    assert "3 heads" in repr(small("gdpp", heads=3))
    measured = {"adjusted_loss": 0.0412, "standard_error": 0.00012, "maximum": 3.0, "sequences": 1000}
    for task in ({"noise": "uniform:5", "examples": 20}, {"noise": "uniform:5", "context": 20}):
        info = {"task": task, "training": {"seed": 4}, "evaluation": measured}
        lines = repr(dataclasses.replace(small("diag", heads=1), info=info)).splitlines()
        assert lines[1:] == [
            "  trained on σ ~ uniform:5, n = 20, seed 4",
            "  adjusted loss 0.0412 ± 0.0001, largest 3, on 1,000 sequences",
        ]
        assert max(map(len, [bare, *lines])) <= 100
    failed = {"adjusted_loss": None, "diverged": 3, "sequences": 1000}
    assert repr(dataclasses.replace(small("diag"), info={"evaluation": failed})).endswith(
        "no finite loss on 3 of 1,000 sequences"
    )


HUGE = {"noise": "a\nb" * 1000, "examples": [1] * 1000, "seed": "\n"}


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, {"seed": {}}, {"adjusted_loss": "low"}, HUGE])
def test_repr_of_a_model_with_any_info_is_a_few_lines(value: Any) -> None:
    """Info comes from files: nothing in it may make a model unprintable."""
    for names in (("task",), ("training",), ("evaluation",), ("task", "training", "evaluation")):
        model = dataclasses.replace(small("diag"), info=dict.fromkeys(names, value))
        assert len(repr(model).splitlines()) <= 3
        assert max(map(len, repr(model).splitlines())) <= 100
    numbers = {"adjusted_loss": 0.1, "standard_error": 0.1, "maximum": 0.1, "sequences": value}
    assert len(repr(dataclasses.replace(small("diag"), info={"evaluation": numbers})).splitlines()) <= 3
