"""The learned algorithm written out: as a Python function that needs NumPy only, and as LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import OMEGAS, diagonal_fit, inert, omega_of, refuse_registers
from ridgeformer.analysis.noise_bands import Measured, Sample
from ridgeformer.analysis.refit import DiagonalModel, Tuner, diagonal_model
from ridgeformer.core.forward import check_model
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance
from ridgeformer.evaluation import Evaluation, trained_on
from ridgeformer.theory.numerics import is_diagonal

_CODE = '''"""{title}

{note}
Needs NumPy only. Written by `ridgeformer explain --as-code`.
"""

import numpy as np

# One row a layer: {columns}.
OMEGA = (
{rows}
)


def fit(X, y):
    """Weights w (d,) for features X (n, d) and targets y (n,); predict with `queries @ fit(X, y)`."""
    n, d = np.shape(X)
    # Queries are tokens with target 0; the d unit vectors together stand for all of them.
    x = np.vstack([X, np.eye(d)]).astype(float)
    y = np.concatenate([y, np.zeros(d)]).astype(float)
    for {names} in OMEGA:
{statistics}
{update}
    return -y[n:]
'''


@dataclass(frozen=True)
class Algorithm:
    """The constants of a diagonal model, and sentences about them; `algorithm` makes it.

    >>> "def fit(X, y):" in Algorithm(np.zeros((2, 4)), "Nothing.", "It predicts 0.").as_code()
    True
    """

    omega: Array  # (layers, 4)
    title: str  # one sentence: which model
    note: str  # more sentences: what it costs, where it is inexact

    def as_code(self) -> str:
        """A Python module with a function ``fit(X, y)``."""
        names, omega = _used(self.omega)
        terms = "xx * x @ scatter", "xy * np.outer(y, cross)", "yx * x @ cross", "yy * energy * y"
        sums = {"scatter": "x[:n].T @ x[:n]", "cross": "x[:n].T @ y[:n]", "energy": "y[:n] @ y[:n]"}
        moved = _moved({"x": "x", "y": "y"}, dict(zip(OMEGAS, terms, strict=True)), names)
        update = f"x, y = {moved['x']}, {moved['y']}"
        alone = "," * (len(names) == 1)  # of a tuple
        return _CODE.format(
            title=self.title,
            note=self.note,
            columns=", ".join(f"ω_{name}" for name in names),
            rows="\n".join(f"    ({', '.join(repr(float(value)) for value in row)}{alone})," for row in omega),
            names=", ".join(names) + alone,
            statistics="\n".join(f"        {name} = {text}" for name, text in sums.items() if name in update),
            update=f"        {update}",
        )

    def as_latex(self) -> str:
        """The same update and a table of its constants, for a paper that loads amsmath and booktabs."""
        names, omega = _used(self.omega)
        symbols = {name: f"\\omega_{{{name}}}^{{l}}" for name in OMEGAS}
        factors = r"\Sigma^l x_i", r"y_i \alpha^l", r"\langle \alpha^l, x_i \rangle", r"\lambda^l y_i"
        terms = {name: f"{symbols[name]} {factor}" for name, factor in zip(OMEGAS, factors, strict=True)}
        moved = _moved({"x": "x_i", "y": "y_i"}, terms, names)
        rows = "\n".join(
            "  " + " & ".join([str(layer), *(f"${_latex_number(value)}$" for value in row)]) + r" \\"
            for layer, row in enumerate(omega, 1)
        )
        return "\n".join(
            [
                f"% {self.title}",
                *(f"% {line}" for line in self.note.splitlines()),
                r"\begin{align*}",
                f"  x_i &\\leftarrow {moved['x']}, \\\\",
                f"  y_i &\\leftarrow {moved['y']},",
                r"\end{align*}",
                r"with $\Sigma^l = \sum_{j \le n} x_j x_j^\top$, $\alpha^l = \sum_{j \le n} y_j x_j$ and "
                r"$\lambda^l = \sum_{j \le n} y_j^2$ over the current tokens. The query starts as $(x_t, 0)$, and the "
                r"prediction is minus its $y$ at the end.",
                r"\begin{center}\begin{tabular}{r" + "r" * len(names) + "}",
                r"  \toprule",
                "  $l$ & " + " & ".join(f"${symbols[name]}$" for name in names) + r" \\",
                r"  \midrule",
                rows,
                r"  \bottomrule",
                r"\end{tabular}\end{center}",
                "",
            ]
        )


def _used(omega: Array) -> tuple[list[str], Array]:
    """Names of the ω that are not zero throughout, never none, and their columns, inert ones set to zero."""
    omega = np.where(inert(len(omega)), 0.0, omega)
    used = [place for place in range(4) if omega[:, place].any()] or [2]
    return [OMEGAS[place] for place in used], omega[:, used]


def _moved(start: dict[str, str], terms: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The new x and y of a layer: sums of the terms that these ω stand for."""
    return {at: " + ".join([text, *(terms[name] for name in names if name[0] == at)]) for at, text in start.items()}


def _latex_number(value: float) -> str:
    """Six significant digits: enough for a printed table."""
    mantissa, exponent = f"{value:.5e}".split("e")
    if -4 <= int(exponent) < 3:
        return "0" if value == 0 else f"{value:.6g}"
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}"


def algorithm(
    model: LinearTransformer, task: Task, label: str = "model", seed: int = 0, sequences: int | None = None
) -> Algorithm:
    """The learned algorithm with its constants; for a full model, its best diagonal approximation.

    Parameters
    ----------
    model: of any kind.
    task: contexts of the model's dimension that an approximation is fitted and measured on.
    label: what to call the model.
    seed, sequences: which fresh contexts, and how many; see `Sample.draw`.

    Returns the algorithm, to be written as code or LaTeX. Raises `InputError` if model and task do not fit.

    >>> import ridgeformer as rf
    >>> algorithm(rf.load("diag-4-uniform-5"), rf.Task()).omega.shape
    (4, 4)
    """
    check_model(model, instance("task", task, Task).dim)
    refuse_registers(model)
    if is_diagonal(model):
        return written_algorithm(model, task, label)
    sample = Sample.draw(task, sequences, seed)
    weights = sample.layer_weights(model)[-1]
    stand_in = diagonal_model(model, diagonal_fit(model), sample, weights, Tuner(task, seed=seed))
    return written_algorithm(model, task, label, stand_in, Measured.of(weights, sample).total)


def written_algorithm(
    model: LinearTransformer,
    task: Task,
    label: str,
    stand_in: DiagonalModel | None = None,
    own: Evaluation | None = None,
) -> Algorithm:
    """As `algorithm`, given the ``stand_in`` of a full model and the losses of the model itself."""
    # A label is a file's name, which may hold anything; this goes into a docstring and a LaTeX comment.
    safe = "".join(c if c.isalnum() or c in " ._+-/" else "_" for c in label)
    title = f"The algorithm of {safe}, a {model.kind} linear transformer of depth {model.layers}."
    if stand_in is None or own is None:
        try:
            recorded = recorded_task(model)
        except InputError:  # what it was trained on makes no difference to what it does
            recorded = None
        trained = "" if recorded is None else f"Trained for {_where(recorded)}. "
        return Algorithm(omega_of(model), title, f"{trained}Agrees with the model to rounding.")
    other = stand_in.fitted.total
    note = (
        f"An approximation: a full model has matrices, not four numbers a layer. These are of the diagonal model\n"
        f"whose predictions come nearest, for {_where(task)}.\n"
        f"Adjusted loss on {other.sequences} fresh sequences: {other.adjusted_loss:.4g} ± {other.standard_error:.2g}, "
        f"where the full model has {own.adjusted_loss:.4g} ± {own.standard_error:.2g}.\n"
        f"It explains {share_text(stand_in.fitted_share)} of the full model's predictions."
    )
    return Algorithm(stand_in.omega, title, note)


def recorded_task(model: LinearTransformer) -> Task | None:
    """The task that a model says it was trained on; None if it does not say."""
    recorded = instance("model", model, LinearTransformer).info.get("task")
    if recorded is None:
        return None
    if not isinstance(recorded, Mapping) or not isinstance(recorded.get("noise", ""), str):
        raise InputError("The model does not say in a readable form what it was trained on.")
    return trained_on(model)


def share_text(share: float) -> str:
    """A share that is explained, in per cent; "nothing" where predicting zero would be nearer."""
    return f"{share:.1%}" if share >= 0 else "nothing"


def _where(task: Task) -> str:
    return task.setting
