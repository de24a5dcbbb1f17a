"""What is best for a task: which references are limits that no predictor can pass, and where there is none.

The oracle is part of every draw (`core.task`). The Bayes limit is not told σ. Both are exact where the noise is
Gaussian and the posterior of w has a closed form or a sum. Elsewhere the oracle is the best linear predictor and there
is no Bayes limit: tables then say so.
"""

from __future__ import annotations

from ridgeformer.baselines.bayes import Bayes
from ridgeformer.core.mixture import Mixture
from ridgeformer.core.task import Task


def bayes_limit(task: Task) -> Bayes | None:
    """The Bayes limit of a task; None where it has none that can be computed.

    A mixture has one if its components differ only in features and numbers of examples: given X, these say nothing more
    of w.

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
    """One sentence on what losses are compared with, for the end of a table."""
    oracle = task.reference
    limit = "no Bayes limit is known" if bayes_limit(task) is None else "the Bayes limit is not told σ"
    bound = "no predictor is better on average" if oracle.exact else "losses below it are possible"
    return f"Reference: {oracle.text} ({bound}); {limit}."
