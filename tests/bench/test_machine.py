"""Samples are taken in turns, the exponent of growth is fitted where it should be, and processes are our own."""

from __future__ import annotations

import pytest

import ridgeformer as rf
from ridgeformer.bench.machine import best_times, growth_exponent, run_python


def test_best_times_takes_turns_and_finds_positive_times() -> None:
    order: list[str] = []
    seconds = best_times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3, window=0.0)
    assert all(time > 0 for time in seconds.values())
    turns = [name for name, before in zip(order, ["", *order], strict=False) if name != before]
    assert turns == ["a", "b"] * 4  # once to compile, then three samples


def test_best_times_of_a_failing_call_passes_its_error_on() -> None:
    with pytest.raises(ZeroDivisionError):
        best_times({"a": lambda: 1 // 0}, repeats=1, window=0.0)


@pytest.mark.parametrize(
    ("sizes", "seconds", "expected"),
    [
        ([100, 316, 1000, 3162], [3e-9 * size**1.7 for size in (100, 316, 1000, 3162)], 1.7),
        ([1, 2, 4, 8, 16], [5.0, 5.0, 16.0, 64.0, 256.0], 2),  # the lower half, with its fixed costs, is left out
        ([10, 100], [1.0, 1000.0], 3),
    ],
)
def test_growth_exponent_is_the_power_of_the_upper_half(
    sizes: list[float], seconds: list[float], expected: float
) -> None:
    assert growth_exponent(sizes, seconds) == pytest.approx(expected)


def test_process_finds_the_same_package_and_is_reported_with_its_last_words() -> None:
    code = "import json, sys, ridgeformer; json.dump(ridgeformer.__file__, sys.stdout)"
    assert run_python(code, {}) == rf.__file__
    with pytest.raises(rf.RidgeformerError, match="ValueError: no such thing"):
        run_python("raise ValueError('no such thing')", {})
