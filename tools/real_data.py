"""Measure GroupRidge for docs/real-data.md: on simulated groups, where the truth is known, and on real ones.

python tools/real_data.py                      all tables, about half an hour; goes on where it was interrupted
python tools/real_data.py --only simulated     one of simulated, coverage, robustness, real
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from sklearn.linear_model import BayesianRidge, RidgeCV

import ridgeformer as rf
from grouped_data import SETS, GroupedSet, mixed_model
from ridgeformer.core.notation import Array
from ridgeformer.core.storage import write_whole
from ridgeformer.estimators import GroupRidge
from ridgeformer.estimators.one_by_one import predict_one_by_one, predict_own_means, predict_pooled
from write_docs import replace_block

_DOCS = Path(__file__).parents[1] / "docs"
_SPLITS = 5
_PENALTIES = np.logspace(-3, 3, 13)
_KINDS = (True, "pooled", "correlated")  # of intercept
_LOOPED = 2000  # groups that loops of scikit-learn are measured on, at most


@dataclass(frozen=True)
class LogNormal:
    """ln σ ~ N(0, spread²)."""

    spread: float

    @property
    def spec(self) -> str:
        """Its name."""
        return f"lognormal:{self.spread:g}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """(size,) levels."""
        return np.exp(self.spread * rng.standard_normal(size))

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        """Equal steps of ln σ."""
        steps = np.linspace(-4, 4, nodes)
        density = np.exp(-(steps**2) / 2)
        return np.exp(self.spread * steps), density / density.sum()


# --- simulated: adjusted losses ---------------------------------------------------------------------------------------

SIMULATED: Mapping[str, tuple[rf.Task, int]] = {
    "σ ~ U(0, 5), d 10, n 20, 1 000 groups": (rf.Task(10, 20, "uniform:5"), 1000),
    "σ ~ U(0, 5), d 10, n 20, 10 000 groups": (rf.Task(10, 20, "uniform:5"), 10_000),
    "σ ∈ {1, 3}, d 10, n 20, 1 000 groups": (rf.Task(10, 20, "categorical:1+3"), 1000),
    "σ ∈ {1, 3}, d 10, n 20, 10 000 groups": (rf.Task(10, 20, "categorical:1+3"), 10_000),
    "ln σ ~ N(0, 0.5²), d 5, n 12, 2 000 groups": (rf.Task(5, 12, LogNormal(0.5)), 2000),
    "σ ~ U(0, 5), d 20, n 15, 2 000 groups": (rf.Task(20, 15, "uniform:5"), 2000),
    "σ ~ U(0, 5), d 10, n 20, 100 groups": (rf.Task(10, 20, "uniform:5"), 100),
}


def simulated(name: str) -> dict[str, Any]:
    """Adjusted losses ½‖ŵ − w*‖², where w* is ridge regression that is told σ; means over draws."""
    task, groups = SIMULATED[name]
    draws = max(1, 10_000 // groups)
    losses: dict[str, list[float]] = {}
    for draw in range(draws):
        tokens = task.draw_tokens(groups, seed=100 + draw)
        context = rf.Context.from_tokens(tokens.X, tokens.y)
        oracle = context.ridge(tokens.sigma**2)
        looped = slice(0, max(1, min(groups, _LOOPED // draws)))
        answers = {
            "GroupRidge": GroupRidge(fit_intercept=False).fit(tokens.X, tokens.y).coef_,
            "Bayes limit": rf.baselines.Bayes(task.prior).weights(context),
            "RidgeCV": _loop(lambda: RidgeCV(_PENALTIES, fit_intercept=False), tokens.X[looped], tokens.y[looped]),
            "BayesianRidge": _loop(lambda: BayesianRidge(fit_intercept=False), tokens.X[looped], tokens.y[looped]),
        }
        for who, weights in answers.items():
            losses.setdefault(who, []).append(float(0.5 * ((weights - oracle[: len(weights)]) ** 2).sum(axis=1).mean()))
    gaps = np.array(losses["GroupRidge"]) - losses["Bayes limit"]
    limit = float(np.mean(losses["Bayes limit"]))
    spread = float(gaps.std(ddof=1) / np.sqrt(draws)) / limit if draws > 1 else None
    means = {who: float(np.mean(own)) for who, own in losses.items()}
    return {"draws": draws, "losses": means, "over_limit": float(gaps.mean()) / limit, "error": spread}


def _loop(make: Callable[[], Any], X: Array, y: Array) -> Array:
    return np.array([make().fit(rows, targets).coef_ for rows, targets in zip(X, y, strict=True)])


def simulated_table(found: Mapping[str, Any]) -> str:
    """Markdown."""
    lines = [
        "| setting | GroupRidge | Bayes limit | above the limit | RidgeCV loop | BayesianRidge loop |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        loss = one["losses"]
        error = "" if one["error"] is None else f" ± {100 * one['error']:.1f}"
        numbers = (loss[who] for who in ("GroupRidge", "Bayes limit"))
        loops = (loss[who] for who in ("RidgeCV", "BayesianRidge"))
        shown = [*(f"{value:.4f}" for value in numbers), f"{100 * one['over_limit']:.1f}{error} %"]
        lines.append(f"| {name} | {' | '.join([*shown, *(f'{value:.2f}' for value in loops)])} |")
    return "\n".join(lines)


# --- coverage ---------------------------------------------------------------------------------------------------------

COVERAGE: Mapping[str, dict[str, Any]] = {
    "d 10, n 20, σ ~ U(0, 5)": {"p": 10, "sizes": (20, 20)},
    "d 3, n 8, lognormal σ, intercepts": {"p": 3, "sizes": (8, 8), "noise": "lognormal", "mean": 1, "level": 3},
    "d 20, n 15, lognormal σ (n < d)": {"p": 20, "sizes": (15, 15), "noise": "lognormal", "scale": 0.5},
    "d 5, n 3 to 40, σ ∈ {1, 3}, intercepts": {"p": 5, "sizes": (3, 40), "noise": "two", "scale": 0.3, "level": 2},
    "d 10, n 8, σ ~ U(0, 5) (n < d)": {"p": 10, "sizes": (8, 8)},
    "d 5, n 12, σ ~ U(0, 5), 100 groups": {"p": 5, "sizes": (12, 12), "groups": 100},
    "d 5, n 12, σ ~ U(0, 5), 20 groups": {"p": 5, "sizes": (12, 12), "groups": 20},
}


def _groups(
    seed: int,
    p: int,
    sizes: tuple[int, int],
    noise: str = "uniform",
    mean: float = 0.0,
    scale: float = 1.0,
    level: float = 0.0,
    groups: int = 2000,
) -> dict[str, Array]:
    """Rows of made-up groups, and four fresh ones of each."""
    rng = np.random.default_rng(seed)
    sigma = {
        "uniform": 5 * rng.random(groups),
        "two": rng.choice([1.0, 3.0], groups),
        "lognormal": np.exp(0.7 * rng.standard_normal(groups)),
    }[noise]
    weights, levels = mean + scale * rng.standard_normal((groups, p)), level * rng.standard_normal(groups)
    out: dict[str, Array] = {"weights": weights}
    for name, n in (("", rng.integers(sizes[0], sizes[1] + 1, groups)), ("fresh_", np.full(groups, 4))):
        codes = np.repeat(np.arange(groups), n)
        X = rng.standard_normal((len(codes), p))
        clean = levels[codes] + np.einsum("ij,ij->i", X, weights[codes])
        y = clean + sigma[codes] * rng.standard_normal(len(codes))
        out |= {f"{name}X": X, f"{name}y": y, f"{name}codes": codes}
    return out


def coverage(name: str) -> dict[str, Any]:
    """Shares of new targets and true weights within ±1.96 standard deviations."""
    shares: dict[str, list[float]] = {}
    for draw in range(max(1, 2000 // COVERAGE[name].get("groups", 2000))):
        data = _groups(draw, **COVERAGE[name])
        for kind in _KINDS:
            model = GroupRidge(fit_intercept=kind).fit(data["X"], data["y"], data["codes"])
            mean, std = model.predict(data["fresh_X"], data["fresh_codes"], return_std=True)
            within = np.abs(mean - data["fresh_y"]) < 1.96 * std
            known = np.abs(model.coef_ - data["weights"]) < 1.96 * model.coef_std_
            shares.setdefault(f"predictions, {kind}", []).append(float(within.mean()))
            shares.setdefault(f"weights, {kind}", []).append(float(known.mean()))
    return {what: float(np.mean(values)) for what, values in shares.items()}


def coverage_table(found: Mapping[str, Any]) -> str:
    """Markdown."""
    columns = [f"{what}, {kind}" for kind in _KINDS for what in ("predictions", "weights")]
    heads = ["setting", *(column.removesuffix(", True") for column in columns)]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, one in found.items():
        lines.append(f"| {name} | {' | '.join(f'{100 * one[column]:.1f} %' for column in columns)} |")
    return "\n".join(lines)


# --- robustness -------------------------------------------------------------------------------------------------------

ROBUSTNESS = (
    "as assumed",
    "noise: t with 3 degrees of freedom",
    "noise: 5 % of targets are outliers, ten times the noise",
    "noise: grows with the first feature",
    "weights: Laplace",
    "weights: 8 of 10 are zero, others in each group",
    "weights: two kinds of groups, far apart",
    "features: correlated, 0.9 between neighbours",
    "features: t with 3 degrees of freedom",
)


def robustness(name: str) -> dict[str, Any]:
    """Squared errors of weights over their variance, of all, in 1 000 groups of 20 × 10 with σ ~ U(0, 5)."""
    rng, groups, n, p = np.random.default_rng(7), 1000, 20, 10
    w, X = rng.standard_normal((groups, p)), rng.standard_normal((groups, n, p))
    unit = rng.standard_normal((groups, n))
    if name == "weights: Laplace":
        w = rng.laplace(size=(groups, p)) / np.sqrt(2)
    elif name.startswith("weights: 8"):
        w *= np.sqrt(5) * (np.argsort(rng.random((groups, p)), axis=1) < 2)
    elif name.startswith("weights: two"):
        w = 0.3 * w + np.where(rng.random((groups, 1)) < 0.5, 1.0, -1.0)
    elif name.startswith("features: corr"):
        places = np.arange(p)
        X = X @ np.linalg.cholesky(0.9 ** np.abs(places[:, None] - places)).T
    elif name.startswith("features: t"):
        X = rng.standard_t(3, (groups, n, p)) / np.sqrt(3)
    if name.startswith("noise: t"):
        unit = rng.standard_t(3, (groups, n)) / np.sqrt(3)
    elif name.startswith("noise: 5"):
        unit = np.where(rng.random((groups, n)) < 0.05, 10.0, 1.0) * unit
    elif name.startswith("noise: grows"):
        unit = unit * np.abs(X[..., 0])
    y = np.einsum("gnp,gp->gn", X, w) + 5 * rng.random((groups, 1)) * unit
    answers = {
        "GroupRidge": GroupRidge().fit(X, y).coef_,
        "RidgeCV": _loop(lambda: RidgeCV(_PENALTIES), X, y),
        "BayesianRidge": _loop(BayesianRidge, X, y),
    }
    return {who: float(((own - w) ** 2).sum() / (w**2).sum()) for who, own in answers.items()}


def robustness_table(found: Mapping[str, Any]) -> str:
    """Markdown."""
    lines = ["| what is wrong | GroupRidge | RidgeCV loop | BayesianRidge loop |", "|---|---|---|---|"]
    for name, one in found.items():
        lines.append(
            f"| {name} | {' | '.join(f'{one[who]:.3f}' for who in ('GroupRidge', 'RidgeCV', 'BayesianRidge'))} |"
        )
    return "\n".join(lines)


# --- real -------------------------------------------------------------------------------------------------------------

_REAL = (
    "GroupRidge",
    "pooled intercepts",
    "correlated",
    "OLS",
    "RidgeCV",
    "BayesianRidge",
    "one for all",
    "own means",
    "MixedLM",
)


def real(data: GroupedSet) -> dict[str, Any]:
    """Squared errors over the variance of held-out targets; half of each group's rows are held out, five times."""
    errors: dict[str, list[float]] = {}
    for split in range(_SPLITS):
        inside = _half(data.codes, np.random.default_rng(split))
        X, y, codes = data.X[inside], data.y[inside], data.codes[inside]
        queries, targets, asked = data.X[~inside], data.y[~inside], data.codes[~inside]
        rows = (X, y, codes, queries, asked)
        guesses = {
            "GroupRidge": GroupRidge().fit(X, y, codes).predict(queries, asked),
            "pooled intercepts": GroupRidge(fit_intercept="pooled").fit(X, y, codes).predict(queries, asked),
            "correlated": GroupRidge(fit_intercept="correlated").fit(X, y, codes).predict(queries, asked),
            **{name: predict_one_by_one(name, *rows) for name in ("OLS", "RidgeCV", "BayesianRidge")},
            "one for all": predict_pooled(X, y, queries),
            "own means": predict_own_means(*rows),
            "MixedLM": mixed_model(*rows),
        }
        for name, guess in guesses.items():
            errors.setdefault(name, []).append(float(((guess - targets) ** 2).mean() / targets.var()))
    sizes = np.bincount(data.codes)
    return {
        "source": data.source,
        "what": data.what,
        "groups": len(sizes),
        "rows": [int(sizes.min()), int(sizes.max())],
        "features": data.X.shape[1],
        "errors": {name: float(np.mean(own)) for name, own in errors.items()},
    }


def _half(codes: Array, rng: np.random.Generator) -> Array:
    """Mask of the rows to learn from: half of each group, at least two."""
    order = np.lexsort((rng.random(len(codes)), codes))
    counts = np.bincount(codes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    place = np.empty(len(codes), np.intp)
    place[order] = np.arange(len(codes)) - starts[codes[order]]
    return np.asarray(place < np.maximum(np.ceil(counts / 2), 2)[codes])


def real_table(found: Mapping[str, Any]) -> str:
    """Markdown, the best of each row bold."""
    heads = ["data", "groups, rows, features", *_REAL, "GroupRidge over best other", "pooled", "correlated"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, one in found.items():
        errors = one["errors"]
        best = min(errors.values())
        other = min(errors[who] for who in _REAL[3:])
        cells = [f"**{errors[who]:.3g}**" if errors[who] == best else f"{errors[who]:.3g}" for who in _REAL]
        low, high = one["rows"]
        size = f"{one['groups']}, {low}" + (f" to {high}" if high > low else "") + f", {one['features']}"
        ratios = [f"{errors[who] / other:.3f}" for who in _REAL[:3]]
        lines.append(f"| {name}: {one['what']} ({one['source']}) | {size} | {' | '.join([*cells, *ratios])} |")
    return "\n".join(lines)


# --- all of it --------------------------------------------------------------------------------------------------------


def _real_sets() -> dict[str, Callable[[], dict[str, Any]]]:
    return {data.name: partial(real, data) for data in (make() for make in SETS)}


_PARTS: dict[str, tuple[Callable[[Mapping[str, Any]], str], Callable[[], dict[str, Callable[[], dict[str, Any]]]]]] = {
    "simulated": (simulated_table, lambda: {name: partial(simulated, name) for name in SIMULATED}),
    "coverage": (coverage_table, lambda: {name: partial(coverage, name) for name in COVERAGE}),
    "robustness": (robustness_table, lambda: {name: partial(robustness, name) for name in ROBUSTNESS}),
    "real": (real_table, _real_sets),
}


def main(only: tuple[str, ...] = (), record: Path = _DOCS / "results" / "real-data.json", again: bool = False) -> None:
    """Measure what the record does not have yet, and write the tables of docs/real-data.md.

    Args:
        only: Some of simulated, coverage, robustness, real; all unless given.
        record: Where measurements are kept, and looked for before anything is measured.
        again: Measure everything again.
    """
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, Any]] = json.loads(record.read_text()) if record.exists() else {}
    for part in only or tuple(_PARTS):
        table, make = _PARTS[part]
        own = {} if again else found.get(part, {})
        for name, measure in make().items():
            if name not in own:
                sys.stderr.write(f"{part}: {name}\n")
                own[name] = measure()
                found[part] = own
                write_whole(record, (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())
            replace_block(_DOCS / "real-data.md", part, table(own))


if __name__ == "__main__":
    tyro.cli(main)
