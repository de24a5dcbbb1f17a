"""The checks of what users pass in: canonical values out, or one sentence."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ridgeformer.core.validation import InputError, RidgeformerError, finite_array, float_dtype, one_of, whole_number
from support import one_sentence


@pytest.mark.parametrize("value", [1, 5, 10, np.int64(3), np.uint8(7)])
def test_whole_number_within_bounds_is_returned_as_an_int(value: Any) -> None:
    found = whole_number("count", value, 1, 10)
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize("value", [0, 11, -1, 10**100])
def test_whole_number_out_of_bounds_names_the_bounds(value: int) -> None:
    with pytest.raises(InputError, match="count must be between 1 and 10") as caught:
        whole_number("count", value, 1, 10)
    one_sentence(caught.value)
    assert whole_number("count", 10**100, 1) == 10**100


@pytest.mark.parametrize("value", [1.0, np.float64(2), True, np.True_, "3", None, [1], Fraction(2), 1 + 0j])
def test_whole_number_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="count must be a whole number") as caught:
        whole_number("count", value, 1)
    one_sentence(caught.value)


def test_one_of_the_choices_is_returned() -> None:
    assert one_of("kind", "diag", ("gdpp", "diag", "full")) == "diag"


@pytest.mark.parametrize(
    ("value", "hint"),
    [("dag", "diag"), ("ful", "full"), ("fulll", "full"), ("gdp", "gdpp"), ("diags", "diag")],
)
def test_one_of_a_near_miss_names_the_nearest_choice(value: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"Did you mean '{hint}'") as caught:
        one_of("kind", value, ("gdpp", "diag", "full"))
    assert "gdpp, diag, full" in one_sentence(caught.value)


@pytest.mark.parametrize("value", ["softmax", "", None, 5, ["diag"], {"diag"}, b"diag"])
def test_one_of_something_else_names_the_choices(value: Any) -> None:
    with pytest.raises(InputError, match="must be one of gdpp, diag, full") as caught:
        one_of("kind", value, ("gdpp", "diag", "full"))
    one_sentence(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, "float32", "f4", np.dtype(np.float32)])
def test_float_dtype_accepts_every_spelling(dtype: Any) -> None:
    assert float_dtype(dtype) == np.float32
    assert float_dtype(float) == np.float64


@pytest.mark.parametrize("dtype", ["floaty", np.int32, np.float16, np.longdouble, "f4,f8", object, str, [1], 5])
def test_float_dtype_of_anything_else_is_refused(dtype: Any) -> None:
    with pytest.raises(InputError, match="float32 or float64") as caught:
        float_dtype(dtype)
    one_sentence(caught.value)


def test_finite_array_keeps_the_two_precisions_and_widens_everything_else() -> None:
    for given, expected in [
        (np.ones(2, np.float32), np.float32),
        (np.ones(2, np.float64), np.float64),
        (np.ones(2, np.float16), np.float64),
        (np.ones(2, np.longdouble), np.float64),
        (np.ones(2, ">f8"), np.float64),
        ([1, 2], np.float64),
        ([True, False], np.float64),
        (np.ones(2, np.uint8), np.float64),
    ]:
        found = finite_array("y", given, ("n",))
        assert found.dtype == np.dtype(expected)
        assert found.dtype.isnative


@pytest.mark.parametrize("value", [5.0, [[1.0]], np.ones((2, 2, 2)), []])
def test_finite_array_of_the_wrong_number_of_axes_names_the_axes(value: Any) -> None:
    with pytest.raises(InputError, match=r"\(batch, n, m, dim\)") as caught:
        finite_array("X", value, ("batch", "n", "m", "dim"))
    one_sentence(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_finite_array_with_a_bad_value_is_refused(bad: float) -> None:
    with pytest.raises(InputError, match="NaN or infinite") as caught:
        finite_array("y", [1.0, bad], ("n",))
    one_sentence(caught.value)


@pytest.mark.parametrize("value", ["text", ["a", "b"], [1, [2, 3]], None, [None, 1.0], [1j], [object()], b"ab", {1: 2}])
def test_finite_array_of_something_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="y ") as caught:
        finite_array("y", value, ("n",))
    one_sentence(caught.value)


def test_input_errors_are_errors_of_the_package() -> None:
    """The command line catches RidgeformerError alone and turns it into exit code 2."""
    assert issubclass(InputError, RidgeformerError)
