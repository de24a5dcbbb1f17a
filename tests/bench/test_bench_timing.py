"""Samples are taken in turns, and the exponent of growth is fitted where it should be."""

from __future__ import annotations

import pytest

from ridgeformer.bench.timing import best_times, growth_exponent


def test_best_times_takes_turns_and_finds_positive_times() -> None:
    order: list[str] = []
    seconds = best_times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3, window=0.0)
    assert all(time > 0 for time in seconds.values())
    turns = [name for name, before in zip(order, ["", *order], strict=False) if name != before]
    assert turns == ["a", "b"] * 4  # once to compile, then three samples


def test_best_times_of_a_failing_call_passes_its_error_on() -> None:
    with pytest.raises(ZeroDivisionError):
        best_times({"a": lambda: 1 // 0}, repeats=1, window=0.0)


def test_growth_exponent_of_a_power_law_is_its_power() -> None:
    sizes = [100, 316, 1000, 3162, 10_000]
    assert growth_exponent(sizes, [3e-9 * size**1.7 for size in sizes]) == pytest.approx(1.7)


def test_growth_exponent_leaves_out_the_lower_half() -> None:
    sizes = [1, 2, 4, 8, 16]
    assert growth_exponent(sizes, [5.0, 5.0, 16.0, 64.0, 256.0]) == pytest.approx(2)


def test_growth_exponent_of_two_sizes_is_the_slope_between_them() -> None:
    assert growth_exponent([10, 100], [1.0, 1000.0]) == pytest.approx(3)
