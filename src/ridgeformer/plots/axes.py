"""Axes that can be read off."""

from __future__ import annotations

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

_FEW = 2.5  # decades up to which 1, 2 and 5 of each get a number
_ONE = 1.0  # decades up to which there is room for more


def label_few_decades(axis: Axis) -> None:
    """Numbers at 1, 2 and 5 on a logarithmic axis of few decades, where Matplotlib has one number or too many."""
    low, high = sorted(axis.get_view_interval())
    if not 0 < low < high or np.log10(high / low) > _FEW:
        return
    narrow = np.log10(high / low) <= _ONE
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0) if narrow else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_locator(NullLocator())
