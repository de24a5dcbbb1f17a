"""The learned algorithm written out: as a Python function without dependencies but NumPy, and as LaTeX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.omega import OMEGAS, inert
from ridgeformer.core.notation import Array

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
    """Constants and what to say of them."""

    omega: Array
    """(layers, 4)."""
    title: str
    """One sentence: which model."""
    note: str
    """More sentences: what it costs, where it is inexact."""

    def as_code(self) -> str:
        """A Python module with a function ``fit(X, y)``."""
        omega, used = _used(self.omega)
        names = [OMEGAS[place] for place in used]
        terms = {
            "xx": "xx * x @ scatter",
            "xy": "xy * np.outer(y, cross)",
            "yx": "yx * x @ cross",
            "yy": "yy * energy * y",
        }
        sums = {"scatter": "x[:n].T @ x[:n]", "cross": "x[:n].T @ y[:n]", "energy": "y[:n] @ y[:n]"}
        new_x = " + ".join(["x", *(terms[name] for name in names if name[0] == "x")])
        new_y = " + ".join(["y", *(terms[name] for name in names if name[0] == "y")])
        needed = [name for name in sums if name in new_x + new_y]
        rows = "\n".join(
            f"    ({', '.join(repr(float(value)) for value in row)}{',' * (len(row) == 1)})," for row in omega
        )
        return _CODE.format(
            title=self.title,
            note=self.note,
            columns=", ".join(f"ω_{name}" for name in names),
            rows=rows,
            names=", ".join(names) + "," * (len(names) == 1),
            statistics="\n".join(f"        {name} = {sums[name]}" for name in needed),
            update=f"        x, y = {new_x}, {new_y}",
        )

    def as_latex(self) -> str:
        """The same update and a table of its constants, for a paper that loads amsmath and booktabs."""
        omega, used = _used(self.omega)
        symbols = [f"\\omega_{{{OMEGAS[place]}}}^{{l}}" for place in used]
        terms = (r"\Sigma^l x_i", r"y_i \alpha^l", r"\langle \alpha^l, x_i \rangle", r"\lambda^l y_i")
        moved = {"x": "x_i", "y": "y_i"}
        for symbol, place in zip(symbols, used, strict=True):
            moved[OMEGAS[place][0]] += f" + {symbol} {terms[place]}"
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
                r"\begin{center}\begin{tabular}{r" + "r" * len(used) + "}",
                r"  \toprule",
                "  $l$ & " + " & ".join(f"${symbol}$" for symbol in symbols) + r" \\",
                r"  \midrule",
                rows,
                r"  \bottomrule",
                r"\end{tabular}\end{center}",
                "",
            ]
        )


def _used(omega: Array) -> tuple[Array, list[int]]:
    """ω without columns of zeros, inert ones set to zero, and which columns are left; never none."""
    omega = np.where(inert(len(omega)), 0.0, omega)
    used = [place for place in range(4) if omega[:, place].any()] or [2]
    return omega[:, used], used


def _latex_number(value: float) -> str:
    """Six significant digits: enough for a printed table."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.5e}".split("e")
    if -4 <= int(exponent) < 3:
        return f"{value:.6g}" if "e" not in f"{value:.6g}" else f"{value:.8f}"
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}"
