"""The best possible predictors for a task, where they are known.

The oracle, which is told σ, is part of every draw (`core.task`). The Bayes limit is not told σ. With Gaussian noise and
a posterior of w that can be computed, no predictor with the same knowledge is better on average than these two.
Otherwise the oracle is only the best predictor that is linear in y, and there is no Bayes limit; tables then say so.
"""

from __future__ import annotations

from ridgeformer.baselines.bayes import Bayes
from ridgeformer.core.mixture import Mixture
from ridgeformer.core.task import Task


def bayes_limit(task: Task) -> Bayes | None:
    """The Bayes limit of a task, the best predictor that is not told σ; None if it cannot be computed.

    A mixture has one if its components differ only in features and numbers of examples: once X is known, these tell
    nothing more about w.

    >>> bayes_limit(Task(noise_shape="student:5")) is None
    True
    """
    tasks = task.tasks if isinstance(task, Mixture) else (task,)
    first = tasks[0]
    alike = all((t.prior.spec, t.weights.spec) == (first.prior.spec, first.weights.spec) for t in tasks)
    if not alike or not all(t.reference.exact for t in tasks):
        return None
    return Bayes(first.prior, of_weights=first.weights)


def reference_note(task: Task) -> str:
    """One sentence that says what losses on a task are compared with; it is printed below tables.

    >>> reference_note(Task(noise_shape="student:5")).rpartition("; ")[2]
    'no Bayes limit is known.'
    """
    oracle = task.reference
    limit = "no Bayes limit is known" if bayes_limit(task) is None else "the Bayes limit is not told σ"
    bound = "no predictor is better on average" if oracle.exact else "losses below it are possible"
    return f"Reference: {oracle.text} ({bound}); {limit}."
