"""A complete set of result records with made-up numbers, for the tests of figures and report."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ridgeformer import baselines
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.task import Task
from ridgeformer.evaluation import ShiftResult, default_scenarios
from ridgeformer.plots import FIGURES, Figure
from ridgeformer.reproduction import cells, records
from ridgeformer.reproduction.baseline_check import BaselineCell, BaselineReport, Limit
from ridgeformer.reproduction.measuring import LEVELS, profile_levels
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.results import read_results
from ridgeformer.reproduction.table1 import Entry, Table1

BASELINES = ("constrr", "adarr", "tunedrr", "bayes")
QUICK_BASELINES = {
    **{name: baselines.BASELINES[name] for name in BASELINES},
    "constrr": replace(baselines.BASELINES["constrr"], make=lambda task: baselines.ConstRR(2.0)),
    "tunedrr": replace(baselines.BASELINES["tunedrr"], make=lambda task: baselines.TunedRR(1.5, 2.5)),
}
"""Those of Table 1 without the seconds that tuning takes, for where their parameters do not matter."""
PREDICTORS = ("GD++ 7", "DIAG 7", "FULL 7", "ConstRR", "AdaRR", "TunedRR", "Bayes limit")


def made_up(record: str) -> Any:
    """One record, the same every time."""
    return _MAKERS[record](np.random.default_rng(RECORDS.index(record)))


def write_results(folder: Path, *without: str, **instead: Any) -> Path:
    """A folder of all records but some; ``instead`` has records, or their JSON, that take the place of others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in RECORDS:
        if name not in without:
            record = instead.get(name) or made_up(name)
            values = record if isinstance(record, dict) else record.as_json()
            (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def made_up_baselines() -> BaselineReport:
    """A baseline that agrees with the paper, one that may by chance, and one that does not."""
    losses = {"uniform:5": 0.0681, "uniform:6": 0.0701, "uniform:7": 0.0801}
    cells = [BaselineCell("adarr", noise, "AdaRR", 0.068, loss, 0.0001, 0.001) for noise, loss in losses.items()]
    limits = (
        Limit("uniform:5", 0.04, 0.001, "TunedRR", 0.009, 0.0001, 40),
        Limit("uniform:6", 0.05, 0.001, "AdaRR", 0.01, 0.1, None),
    )
    return BaselineReport(1000, tuple(cells), limits)


def figure_of(name: str, *without: str, **instead: Any) -> Figure:
    """A figure of such a folder."""
    with TemporaryDirectory() as folder:
        return FIGURES[name].build(read_results(write_results(Path(folder), *without, **instead)))


made_up_figure = cache(figure_of)
"""For figures of all records as they are."""


def named(chart: Any) -> dict[str, Any]:
    """The series of a chart by name, its floor among them."""
    return {one.name: one for one in (*chart.series, *([chart.floor] if chart.floor else []))}


def _losses(rng: np.random.Generator, count: int) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in rng.uniform(0.02, 0.9, count))


def _table1(rng: np.random.Generator) -> Table1:
    entries = []
    for noise in cells.PRIORS:
        limit = 1e-29 if noise == "uniform:0" else 0.01
        sizes = [(kind, layers, 1) for kind in KINDS for layers in cells.LAYERS]
        if noise in cells.BEYOND_PRIORS:
            sizes += [(kind, *size) for kind in ("diag", "full") for size in cells.BEYOND_SIZES]
        rows: list[tuple[str, int | None, int]] = [*sizes, *((name, None, 1) for name in BASELINES)]
        for method, layers, heads in rows:
            loss = limit if layers is None and limit < 1e-20 else limit if method == "bayes" else _losses(rng, 1)[0]
            printed = printed_loss(method, layers, noise) if heads == 1 else None
            entries.append(
                Entry(method, layers, noise, loss, loss / 100, loss, loss, loss, 0, printed, loss / limit, heads)
            )
    return Table1(tuple(entries), 1000, 1)


def _profiles(rng: np.random.Generator) -> records.ProfilesRecord:
    panels = []
    for noise in cells.PRIORS:
        levels = profile_levels(noise)
        depths = (*cells.EVERY_DEPTH, cells.DEPTH) if noise in cells.EVERY_DEPTH_PRIORS else (cells.DEPTH,)
        methods = [*((kind, depth) for kind in KINDS for depth in depths), *((name, None) for name in BASELINES)]
        series = [
            records.ProfileSeries(
                method, layers, losses := _losses(rng, len(levels)), losses, _losses(rng, len(levels))
            )
            for method, layers in methods
        ]
        panels.append(records.ProfilePanel(noise, levels, tuple(series)))
    return records.ProfilesRecord(1000, 1, tuple(panels))


def _readouts(rng: np.random.Generator) -> records.ReadoutsRecord:
    models = [
        records.ModelReadout(
            kind,
            layers,
            seed,
            _losses(rng, layers),
            _losses(rng, layers),
            tuple(_losses(rng, len(LEVELS)) for _ in range(layers)),
        )
        for kind in KINDS
        for layers in cells.SEEDED_LAYERS
        for seed in cells.SEEDS
    ]
    return records.ReadoutsRecord(cells.SEEDED_PRIOR, 1000, LEVELS, 500, tuple(models))


def _weights(rng: np.random.Generator) -> records.WeightsRecord:
    return records.WeightsRecord(
        tuple(records.ModelWeights(name, *rng.normal(size=(2, 4, 1, 11, 11)).round(4)) for name in cells.SHOWN)
    )


def _training(rng: np.random.Generator) -> records.TrainingRecord:
    curves = [
        records.TrainingCurve(
            f"{kind}-{layers}-uniform-5",
            kind,
            layers,
            cells.SEEDED_PRIOR,
            None,
            (
                records.TrainingStage("start 1", (0.5, 1.0, 2.0), (2.0, 0.5, 0.4)),
                records.TrainingStage("start 2", (3.0, 4.0), (0.9, 0.2)),
            ),
            _losses(rng, 1)[0],
            5.0,
        )
        for kind in KINDS
        for layers in cells.SEEDED_LAYERS
    ]
    return records.TrainingRecord(tuple(curves))


def _shift(rng: np.random.Generator) -> records.ShiftRecord:
    def result() -> ShiftResult:
        loss = _losses(rng, 1)[0]
        return ShiftResult(loss, 0.01, round(1 + loss, 4), 0.01, -0.1, 0.01, loss, loss, loss, 0.1, 1000, 0, loss < 0.5)

    scenarios = [
        records.ShiftScenario(spec, 0.5, {name: result() for name in PREDICTORS}) for spec in default_scenarios(Task())
    ]
    return records.ShiftRecord(cells.SEEDED_PRIOR, 1000, PREDICTORS, tuple(scenarios))


_MAKERS = {
    "table1": _table1,
    "profiles": _profiles,
    "readouts": _readouts,
    "weights": _weights,
    "training": _training,
    "shift": _shift,
}
RECORDS = tuple(_MAKERS)
