"""A results folder with made-up numbers: every record, small, of the form that experiments write."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

PRIORS = ("uniform:0", "uniform:2", "uniform:5", "categorical:1+3")
KINDS = ("gdpp", "diag", "full")
BASELINES = {"constrr": 0.36, "adarr": 0.07, "tunedrr": 0.05, "bayes": 0.039}
LEVELS = [0.5 * k for k in range(13)]


def entry(method: str, layers: int | None, noise: str, loss: float | None, **others: Any) -> dict[str, Any]:
    """One entry of Table 1; the paper has nothing beyond seven layers or one head."""
    beyond = method == "bayes" or (layers or 0) > 7 or others.get("heads", 1) > 1
    values: dict[str, Any] = {
        "method": method,
        "layers": layers,
        "noise": noise,
        "adjusted_loss": loss,
        "standard_error": None if loss is None else loss / 100,
        "median": loss,
        "p99": loss,
        "maximum": loss,
        "diverged": 0,
        "printed": None if beyond else 0.05,
        "bayes_ratio": None if loss is None or noise == "uniform:0" else loss / 0.039,
        "heads": 1,
        "verdict": "" if beyond or layers is None or loss is None else "better" if loss < 0.05 else "worse",
    }
    return values | others


def table1() -> dict[str, Any]:
    """Four priors, depths 1, 2, 4 and 7, one model that is deeper, one with two heads, and one that diverged."""
    rows = [
        entry(kind, layers, noise, math.exp(-0.5 * layers) + 0.01 * place + 0.002 * column + 0.02)
        for column, noise in enumerate(PRIORS)
        for place, kind in enumerate(KINDS)
        for layers in (1, 2, 4, 7)
    ]
    rows += [entry(name, None, noise, loss) for noise in PRIORS for name, loss in BASELINES.items()]
    rows.append(entry("full", 8, "uniform:5", 0.0405))
    rows.append(entry("diag", 7, "uniform:5", 0.0403, heads=2))
    rows.append(entry("diag", 8, "uniform:5", None))
    return {"record": "table1", "sequences": 100_000, "seed": 1, "entries": rows}


def _series(method: str, layers: int | None, scale: float) -> dict[str, Any]:
    adjusted = [scale * (0.01 + (level - 2.5) ** 2) for level in LEVELS]
    adjusted[-1] = 1e300 if method == "full" else adjusted[-1]  # a model far outside of what it was trained on
    return {
        "method": method,
        "layers": layers,
        "adjusted": adjusted,
        "standard_error": [value / 50 for value in adjusted],
        "unadjusted": [value + 1 for value in adjusted],
    }


def records() -> dict[str, dict[str, Any]]:
    """All records by name."""
    profiles = [
        {
            "noise": noise,
            "levels": LEVELS,
            "series": [
                *(_series(kind, layers, 0.1 / layers) for kind in KINDS for layers in (2, 7)),
                *(_series(name, None, loss) for name, loss in BASELINES.items()),
            ],
        }
        for noise in PRIORS
    ]
    readouts = [
        {
            "method": kind,
            "layers": layers,
            "seed": seed,
            "adjusted": [1 / (k + 1 + 0.1 * seed) for k in range(layers)],
            "standard_error": [0.01] * layers,
            "profile": [[0.1 * (1 + k + seed + level) for level in LEVELS] for k in range(layers)],
        }
        for kind in KINDS
        for layers in (1, 2, 4)
        for seed in (0, 1)
    ]
    matrix = [[(1.0 if row == column else 0.1) * (-1) ** row for column in range(4)] for row in range(4)]
    weights = [{"name": name, "P": [[matrix]] * 2, "Q": [[matrix]] * 2} for name in ("full-2-made-up", "full-2-other")]
    legs = [{"name": "adam", "seconds": [1.0, 2.0, None], "loss": [0.5, 0.2, 0.1]}]
    curves = [
        {
            "name": f"{kind}-{layers}-uniform-5",
            "method": kind,
            "layers": layers,
            "noise": "uniform:5",
            "start": f"{kind}-4-uniform-5" if layers > 4 else None,
            "legs": legs,
            "final": 0.06,
            "final_seconds": 3.0,
        }
        for kind in KINDS
        for layers in (2, 4, 7)
    ]
    shifts = [
        {"spec": spec, "reference": 1.5, "results": {"FULL 7": _shifted(ratio), "AdaRR": _shifted(1.05)}}
        for spec, ratio in (("none", 1.03), ("outliers:0.05x10", None), ("kappa:10+student:5", 2e7))
    ]
    return {
        "table1": table1(),
        "claims": {
            "record": "claims",
            "claims": [
                {"statement": "It works.", "verdict": "confirmed", "numbers": "3 of 3 cells."},
                {"statement": "It always works.", "verdict": "refuted", "numbers": "0 of 3 cells."},
            ],
        },
        "profiles": {"record": "profiles", "sequences": 5000, "seed": 1, "panels": profiles},
        "readouts": {
            "record": "readouts",
            "noise": "uniform:5",
            "sequences": 20_000,
            "levels": LEVELS,
            "level_sequences": 5000,
            "models": readouts,
        },
        "weights": {"record": "weights", "models": weights},
        "training": {"record": "training", "curves": curves},
        "shift": {
            "record": "shift",
            "noise": "uniform:5",
            "sequences": 10_000,
            "predictors": ["FULL 7", "AdaRR"],
            "scenarios": shifts,
        },
    }


def _shifted(ratio: float | None) -> dict[str, Any]:
    fields = ("loss", "loss_error", "ratio_error", "excess", "excess_error", "median", "p99", "maximum", "top_share")
    return {
        **dict.fromkeys(fields, 0.01),
        "ratio": ratio,
        "sequences": 10_000,
        "diverged": 0,
        "survives": ratio is not None and ratio < 1.3,
    }


def write_records(folder: Path, contents: dict[str, dict[str, Any]]) -> Path:
    """A results folder with these records."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    return folder
