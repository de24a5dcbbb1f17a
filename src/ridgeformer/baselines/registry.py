"""The list of all baselines, with their names, labels and how to make them. Add yours here or from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ridgeformer.baselines.iterative import IterativeAdaRR
from ridgeformer.baselines.references import bayes_limit
from ridgeformer.baselines.ridge import OLS, AdaRR, ConstRR, Oracle, TunedRR
from ridgeformer.core.predictor import Predictor
from ridgeformer.core.registry import BLACK, ORANGE, PURPLE, SKY, Look, Registry
from ridgeformer.core.task import Task

_GREY = Look("#777777", (1, 2), width=1.0)  # for baselines that no figure of the paper shows


@dataclass(frozen=True)
class Baseline:
    """One entry of `BASELINES`: a baseline that tables, plots and the command line know.

    >>> BASELINES["adarr"].label, BASELINES["adarr"].make(Task()).describe()
    ('AdaRR', 'AdaRR, v = σ̂²')
    """

    name: str
    """In files and on the shell."""
    label: str
    """In tables and legends."""
    make: Callable[[Task], Predictor | None]
    """Makes the baseline for a task, tuned to it if there is anything to tune; None if it is not defined there."""
    summary: str
    """What it does, in one sentence."""
    look: Look = _GREY
    in_table1: bool = False
    """Whether the paper's Table 1 has it."""
    limit: bool = False
    """Whether no predictor can be better on average."""


BASELINES: Registry[Baseline] = Registry("baseline")
"""All baselines by name, in the order of tables."""
for _baseline in (
    Baseline(
        "ols", "OLS", lambda task: OLS(), "Ordinary least squares: no penalty.", Look("#8B6F4E", (5, 2), width=1.0)
    ),
    Baseline(
        "constrr",
        "ConstRR",
        ConstRR.tuned,
        "Ridge regression with one penalty for every sequence, the best one for the noise prior.",
        Look(PURPLE, (1, 1.2), width=1.4),
        in_table1=True,
    ),
    Baseline(
        "adarr",
        "AdaRR",
        lambda task: AdaRR(),
        "Ridge regression whose penalty is the noise variance estimated from the residuals of least squares.",
        Look(ORANGE, (6, 1.5, 1, 1.5, 1, 1.5), width=1.0),
        in_table1=True,
    ),
    Baseline(
        "tunedrr",
        "TunedRR",
        TunedRR.tuned,
        "AdaRR with its estimate scaled and capped, by the two numbers that are best for the noise prior.",
        Look(SKY, (2, 1), width=1.4),
        in_table1=True,
    ),
    Baseline(
        "iterative",
        "IterativeAdaRR",
        lambda task: IterativeAdaRR(),
        "AdaRR with each of its two regressions replaced by 100 steps of gradient descent.",
    ),
    Baseline(
        "bayes",
        "Bayes limit",
        bayes_limit,
        "The mean of w given the data and the noise prior: no predictor that is not told σ is better on average.",
        Look(BLACK, width=0.9),
        limit=True,
    ),
    Baseline("oracle", "Oracle", lambda task: Oracle(), "Ridge regression that is told σ: its adjusted loss is zero."),
):
    BASELINES.add(_baseline)


def baselines_for(task: Task, names: Iterable[str] | None = None) -> dict[str, Predictor]:
    """The baselines of a task, by label: all of them, or those with these names.

    Baselines that are not defined for the task are left out. Raises `InputError` for an unknown name.

    >>> list(baselines_for(Task(noise_shape="student:5"), ("ols", "adarr", "bayes")))
    ['OLS', 'AdaRR']
    """
    entries = BASELINES.values() if names is None else [BASELINES.find(name) for name in names]
    made = {entry.label: entry.make(task) for entry in entries}
    return {label: baseline for label, baseline in made.items() if baseline is not None}
