"""A results folder with made-up numbers: a small Table 1 whose numbers tests know, claims, and all other records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ridgeformer as rf
from made_up_results import RECORDS, made_up
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.predictor import LinearPredictor
from ridgeformer.reproduction.table1 import Entry, Table1

PRIORS = ("uniform:0", "uniform:2", "uniform:5", "categorical:1+3")
BASELINES = {"constrr": 0.36, "adarr": 0.07, "tunedrr": 0.05, "bayes": 0.039}


def entry(method: str, layers: int | None, noise: str, loss: float, heads: int = 1) -> Entry:
    """One entry of Table 1; the paper has nothing beyond seven layers or one head."""
    printed = None if method == "bayes" or (layers or 0) > 7 or heads > 1 else 0.05
    ratio = None if math.isinf(loss) or noise == "uniform:0" else loss / 0.039
    return Entry(method, layers, noise, loss, loss / 100, loss, loss, loss, 0, printed, ratio, heads)


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
    rows.append(entry("diag", 8, "uniform:5", math.inf))
    return Table1(tuple(rows), 100_000, 1).as_json()


def records() -> dict[str, dict[str, Any]]:
    """All records by name."""
    claims = [
        {"statement": "It works.", "verdict": "confirmed", "numbers": "3 of 3 cells."},
        {"statement": "It always works.", "verdict": "refuted", "numbers": "0 of 3 cells."},
    ]
    others = {name: made_up(name).as_json() for name in RECORDS}
    return others | {"table1": table1(), "claims": {"record": "claims", "claims": claims}}


def poisoned(value: Any, text: str) -> Any:
    """Every text in a value with another behind it, except what the page tells things apart by."""
    if isinstance(value, dict):
        kept = ("type", "colour", "marker")
        return {name: item if name in kept else poisoned(item, text) for name, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text) for item in value]
    return value + text if isinstance(value, str) else value


def write_records(folder: Path, contents: dict[str, dict[str, Any]]) -> Path:
    """A results folder with these records."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def page_baselines(sigma: float, prior: str) -> dict[str, LinearPredictor]:
    """The baselines that the page computes itself, as Python has them."""
    made = rf.baselines
    return {"ols": made.OLS(), "adarr": made.AdaRR(), "oracle": made.Oracle(sigma), "bayes": made.Bayes(prior)}
