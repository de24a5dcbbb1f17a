"""Sums of products on panels, small and symmetric matrices equal the formulas that they are written as."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from ridgeformer.core.notation import Array
from ridgeformer.kernels.engine import carve
from ridgeformer.kernels.jit import device
from ridgeformer.kernels.panels import (
    Add,
    AddT,
    Both,
    Outer,
    Product,
    Scale,
    Times,
    TimesT,
    TTimes,
    add_inner,
    matrix_times_panel,
    panel_sum,
    set_inner,
    small_sum,
    symmetric_sum,
)
from support import relative_error

# Sums of at most 17 products in float64, in another order than NumPy's.
TIGHT = 1e-14
# s: one column, several, and more than a tile of rows is chosen by.
WIDTHS = [1, 2, 5]
# d: below, at and beyond tiles of 3, 4, 5 and 10 rows.
DIMS = [1, 3, 4, 10, 17]


@device
def sums(width: Any, out: Any, matrix: Any, panels: Any, smalls: Any, vectors: Any, shorts: Any, shared: Any) -> None:
    """One of each, with every step that it takes."""
    steps = (Times(panels[0], smalls[0]), Scale(0.5), TimesT(panels[1], shared), Outer(vectors[0], shorts[0]))
    end = (Add(panels[2], -2.0),)
    panel_sum(width, out.panel[0], steps + end)
    matrix_times_panel(width, out.panel[1], matrix[2], panels[0])
    set_inner(width, out.small[0], panels[0], panels[1])
    add_inner(width, out.small[1], panels[1], panels[2])
    first = (Times(shared, smalls[0]), TimesT(smalls[1], smalls[2]), Scale(3.0), TTimes(smalls[1], shared))
    second = (Outer(shorts[0], shorts[1]), Add(smalls[2], 0.25), AddT(shared, 2.0))
    small_sum(width, out.small[2], first + second)
    products = (Product(matrix[0], matrix[1]), Product(matrix[1], matrix[0]), Scale(0.5))
    rest = (Both(panels[0], panels[1]), Add(matrix[0], 3.0), Both(vectors[0], vectors[1]))
    symmetric_sum(width, out.square, products + rest)


def lane_arrays(shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    arrays, rng = carve(shapes, np.float64), np.random.default_rng(0)
    for array in arrays.values():
        array[...] = rng.standard_normal(array.shape)
    return arrays


class Out(NamedTuple):
    """What `sums` fills."""

    panel: Array
    small: Array
    square: Array


def T(array: Array) -> Array:
    return array.swapaxes(-1, -2)


def outer(column: Array, row: Array) -> Array:
    product: Array = column[..., :, None] * row[..., None, :]
    return product


@pytest.mark.parametrize("width", WIDTHS)
def test_sums_equal_the_formulas_that_they_are_written_as(width: int) -> None:
    for dim in DIMS:
        results = lane_arrays({"panel": (2, dim, width), "small": (3, width, width), "square": (dim, dim)})
        given = lane_arrays(
            {
                "matrix": (3, dim, dim),
                "panels": (3, dim, width),
                "smalls": (3, width, width),
                "vectors": (2, dim),
                "shorts": (2, width),
            }
        )
        for number in range(2):  # what a symmetric sum takes
            given["matrix"][number] += given["matrix"][number].swapaxes(0, 1).copy()
        shared = np.random.default_rng(1).standard_normal(width**2)
        before = results["small"][1].copy()
        sums((0,) * width, Out(**results), *given.values(), shared)
        # The lane axis first, as NumPy's products want it.
        matrix, panels, smalls, vectors, shorts = (np.moveaxis(array, -1, 1) for array in given.values())
        out = {name: np.moveaxis(array, -1, 0 if name == "square" else 1) for name, array in results.items()}
        S = shared.reshape(width, width)
        expected = {
            "panel": 0.5 * panels[0] @ smalls[0] + panels[1] @ S.T + outer(vectors[0], shorts[0]) - 2 * panels[2],
            "pushed": matrix[2] @ panels[0],
            "inner": T(panels[0]) @ panels[1],
            "added": np.moveaxis(before, -1, 0) + T(panels[1]) @ panels[2],
            "small": 3 * (S @ smalls[0] + smalls[1] @ T(smalls[2]))
            + T(smalls[1]) @ S
            + outer(shorts[0], shorts[1])
            + 0.25 * smalls[2]
            + 2 * S.T,
            "square": 0.5 * (matrix[0] @ matrix[1] + matrix[1] @ matrix[0])
            + panels[0] @ T(panels[1])
            + panels[1] @ T(panels[0])
            + 3 * matrix[0]
            + outer(vectors[0], vectors[1])
            + outer(vectors[1], vectors[0]),
        }
        found = (*out["panel"], *out["small"], out["square"])
        for name, array in zip(expected, found, strict=True):
            assert relative_error(array, expected[name]) < TIGHT, (name, dim)
        assert np.array_equal(out["square"], T(out["square"]))
