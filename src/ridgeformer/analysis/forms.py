"""Ways of writing the ω of a diagonal model with few constants.

All count layers from l = 0 and measure ω_xx and ω_yx in units of 1/n, ω_xy and ω_yy in units of 1/(n d), so that n and
d are not among the constants. A *pattern* leaves ω_xy out of the first layer and ω_xx out of the second. Constants are
what is fitted, and round numbers count as well; the pattern, equalities, signs and exponents are choices, and every
form says which it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.core.validation import whole_number

Constants = Sequence[float] | Array


@dataclass(frozen=True)
class ConstantForm:
    """ω as a function of a few constants."""

    name: str
    statement: str
    """What is chosen, in one sentence."""
    constants: tuple[str, ...]
    """Names of what is fitted."""
    start: tuple[float, ...]
    """Where fits start from: values near those of four layers on σ ~ U(0, 5)."""
    build: Callable[[Array, int], Array]
    """(constants, layers) ↦ (layers, 4), in the units above."""
    round_numbers: int = 0
    """Constants that are set to round numbers rather than fitted."""
    control: bool = False
    """Whether it is there to show that a choice matters."""

    def omega(self, constants: Constants, layers: int, task: Task) -> Array:
        """(layers, 4) for contexts of ``task``."""
        layers = whole_number("layers", layers, 3)
        return self.build(np.asarray(constants, np.float64), layers) * form_units(task)


def form_units(task: Task) -> Array:
    """(4,): 1/n and 1/(n d)."""
    n, d = task.examples, task.dim
    return np.array([1 / n, 1 / (n * d), 1 / n, 1 / (n * d)])


def geometric(
    layers: int,
    sizes: Constants,
    ratios: Constants,
    last: tuple[float, float],
    pattern: bool = True,
) -> Array:
    """ω_ab = −size · ratio^l in all layers but the last, which has ω_yx = −last[0] and ω_yy = +last[1]."""
    powers = np.abs(np.asarray(ratios, np.float64)) ** np.arange(layers)[:, None]
    omega = -np.asarray(sizes) * powers
    if pattern:
        omega[0, 1] = omega[1, 0] = 0.0
    omega[-1] = 0.0, 0.0, -last[0], last[1]
    return omega


# From many constants to few: each form fills in what the one before it leaves free.


def _ten(c: Constants, layers: int) -> Array:
    return geometric(layers, c[:4], c[4:8], (c[8], c[9]))


def _seven(c: Constants, layers: int) -> Array:
    *sizes, r, last_yx, last_yy = c
    return _ten((*sizes, r, r, r, r, last_yx, last_yy), layers)


def _six(c: Constants, layers: int) -> Array:
    a, b, e, r, last_yx, last_yy = c
    return _seven((a, b, a, e, r, last_yx, last_yy), layers)


def _five(c: Constants, layers: int) -> Array:
    a, b, e, r, last_yx = c
    return _six((a, b, e, r, last_yx, e * abs(r) ** layers), layers)


def _four(c: Constants, layers: int) -> Array:
    a, e, r, last_yx = c
    return _five((a, a, e, r, last_yx), layers)


def _three(c: Constants, layers: int) -> Array:
    a, e, r = c
    return _four((a, e, r, a * abs(r) ** layers), layers)


def _fifth(c: Constants, layers: int) -> Array:
    a, r = c
    return _three((a, a / 5, r), layers)


def _round(c: Constants, layers: int) -> Array:
    return _fifth((1 / 4, c[0]), layers)


# The controls, each with one choice undone.


def _seven_everywhere(c: Constants, layers: int) -> Array:
    return geometric(layers, c[:4], [c[4]] * 4, (c[5], c[6]), pattern=False)


def _three_without_leap(c: Constants, layers: int) -> Array:
    a, e, r = c
    last = abs(r) ** (layers - 1)
    return _six((a, a, e, r, a * last, e * last), layers)


def _three_without_turn(c: Constants, layers: int) -> Array:
    a, e, r = c
    last = abs(r) ** layers
    return _six((a, a, e, r, a * last, -e * last), layers)


def _one_kernel(c: Constants, layers: int) -> Array:
    """Geometric p_x and p_y with one κ = q_y / q_x: x and y both move along <x_j, x_i> + κ y_j y_i / d."""
    a, r_x, b, r_y, kappa = c
    last = b * abs(r_y) ** (layers - 1)
    return geometric(layers, (a, a * kappa, b, b * kappa), [r_x, r_x, r_y, r_y], (last, -last * kappa), pattern=False)


def _tied(c: Constants, layers: int) -> Array:
    return geometric(layers, c, [1.0] * 4, (c[2], -c[3]), pattern=False)


FORMS = (
    ConstantForm(
        "four sequences",
        "Each ω is a geometric sequence over the layers but the last, with the pattern; the last has its own two.",
        ("xx", "xy", "yx", "yy", "r_xx", "r_xy", "r_yx", "r_yy", "last yx", "last yy"),
        (0.25, 0.24, 0.25, 0.06, 2.3, 2.7, 2.6, 2.6, 9.8, 2.6),
        _ten,
    ),
    ConstantForm(
        "one ratio",
        "All four sequences share one ratio.",
        ("xx", "xy", "yx", "yy", "r", "last yx", "last yy"),
        (0.23, 0.27, 0.24, 0.06, 2.37, 9.5, 2.1),
        _seven,
    ),
    ConstantForm(
        "ω_xx = ω_yx",
        "Preconditioning and gradient step have the same size a r^l.",
        ("a", "xy", "e", "r", "last yx", "last yy"),
        (0.24, 0.27, 0.063, 2.39, 9.8, 2.3),
        _six,
    ),
    ConstantForm(
        "last ω_yy = −e r^L",
        "The last rescaling is the next but one of the sequence, with its sign turned.",
        ("a", "xy", "e", "r", "last yx"),
        (0.25, 0.25, 0.056, 2.42, 10.0),
        _five,
    ),
    ConstantForm(
        "ω_xy = ω_xx",
        "In units of 1/(n d), ω_xy has the size a r^l too.",
        ("a", "e", "r", "last yx"),
        (0.246, 0.055, 2.41, 9.8),
        _four,
    ),
    ConstantForm(
        "last ω_yx = a r^L",
        "The last gradient step is the next but one of its sequence as well.",
        ("a", "e", "r"),
        (0.239, 0.0525, 2.475),
        _three,
    ),
    ConstantForm(
        "e = a/5",
        "The same with the rescaling tied to the step by a round number.",
        ("a", "r"),
        (0.243, 2.44),
        _fifth,
        round_numbers=1,
    ),
    ConstantForm(
        "a = 1/4, e = 1/20",
        "The same with two of the three constants set to round numbers.",
        ("r",),
        (2.43,),
        _round,
        round_numbers=2,
    ),
    ConstantForm(
        "without the pattern",
        "As “one ratio”, with ω_xy in the first and ω_xx in the second layer.",
        ("xx", "xy", "yx", "yy", "r", "last yx", "last yy"),
        (0.136, 0.063, 0.17, 0.006, 3.9, 6.3, 0.4),
        _seven_everywhere,
        control=True,
    ),
    ConstantForm(
        "without the leap",
        "As “last ω_yx = a r^L”, with the exponent L − 1 in the last layer.",
        ("a", "e", "r"),
        (0.38, 0.055, 2.26),
        _three_without_leap,
        control=True,
    ),
    ConstantForm(
        "without the turn",
        "As “last ω_yx = a r^L”, with the sign of the last rescaling kept.",
        ("a", "e", "r"),
        (0.239, 0.02, 2.2),
        _three_without_turn,
        control=True,
    ),
    ConstantForm(
        "one kernel",
        "One head whose q_y / q_x is the same in all layers, with geometric p_x and p_y.",
        ("p_x", "r_x", "p_y", "r_y", "κ"),
        (0.1, 4.0, 0.3, 2.6, 0.1),
        _one_kernel,
        control=True,
    ),
    ConstantForm(
        "one layer",
        "The same four ω in every layer.",
        ("xx", "xy", "yx", "yy"),
        (0.3, 0.1, 0.4, 0.02),
        _tied,
        control=True,
    ),
)
"""From many constants to few, each form a special case of the one before it; then the controls."""
