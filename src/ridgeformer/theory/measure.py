"""What a check of the theory reports, and how two computations of the same thing are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.core.notation import Array

ROUNDING = 1e-10
"""Bound for equalities in float64. Measured: 1e-14, and 1e-12 for Lemma 4.4 where Σ is nearly singular (n = d)."""


@dataclass(frozen=True)
class Check:
    """One statement, held against numbers."""

    name: str
    """The result it belongs to, such as "Theorem 4.1"."""
    statement: str
    """What must hold, in one sentence."""
    measured: float
    bound: float
    passed: bool
    detail: str
    """What was measured, on what; for a slip of the print, which term it is."""
    relation: str = "≤"
    """Where ``measured`` must lie with regard to ``bound``: "≤", or "≥" for what must visibly differ."""

    @classmethod
    def at_most(cls, name: str, statement: str, measured: float, bound: float, detail: str = "") -> Check:
        """Passes if measured ≤ bound; NaN never does."""
        return cls(name, statement, float(measured), float(bound), bool(measured <= bound), detail)

    @classmethod
    def at_least(cls, name: str, statement: str, measured: float, bound: float, detail: str = "") -> Check:
        """Passes if measured ≥ bound; NaN never does."""
        return cls(name, statement, float(measured), float(bound), bool(measured >= bound), detail, "≥")


def relative_difference(found: Array, expected: Array) -> float:
    """The largest, over contexts (the first axis), of max |found − expected| / max |expected|.

    NaN if either holds one, so that no bound accepts it; 0 if there is no context or both are zero.
    """
    if len(found) == 0:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model compares as NaN
        axes = tuple(range(1, np.ndim(found)))
        gap, size = np.abs(found - expected).max(axis=axes), np.abs(expected).max(axis=axes)
        return float(np.where(gap == 0, 0.0, gap / np.where(size == 0, np.finfo(float).tiny, size)).max())
