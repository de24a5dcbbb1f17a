"""Measuring the records of a results folder from trained models and their runs.

The work is many small jobs, on all cores at once: NumPy and the kernels release the GIL for nearly all of their time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from ridgeformer.analysis import canonical_heads
from ridgeformer.core.backend import engine
from ridgeformer.core.distributions import Categorical, Fixed
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.predictor import Predictor
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.evaluation import Profile, default_levels, default_scenarios, half_square, profile, shift_table
from ridgeformer.evaluation.statistics import Moments
from ridgeformer.kernels.threads import default_threads
from ridgeformer.reproduction import records
from ridgeformer.reproduction.cells import DEPTH, EVERY_DEPTH, EVERY_DEPTH_PRIORS, PRIORS, SEEDED_PRIOR, SHOWN, Cell
from ridgeformer.reproduction.table1 import models_of, row_name, table1_baselines
from ridgeformer.training.run_directory import RunDirectory

LEVEL_STEP = 0.25
CATEGORICAL_MARGIN = 3
"""How far profiles go beyond the largest level of a categorical prior; 1 for uniform priors, as in the paper."""
LEVELS = tuple(0.5 * k for k in range(21))
"""σ = 0 … 10 for read-outs, twice as far as the models were trained."""
_MOST_POINTS = 150  # of a stage of training: more than a printed line can show

Models = Mapping[Cell, LinearTransformer]
OnPart = Callable[[int, int], None]
"""Called with the number of jobs that are done and the number of all."""
OnStage = Callable[[str, int], Callable[[int], None]]
"""Called with a name and the stage's share of `RECORD_PARTS`; what it returns is called with how many are done."""
_PROFILE_PARTS, _READOUT_PARTS, _SHIFT_PARTS = 650, 270, 80  # as they share the time
RECORD_PARTS = _PROFILE_PARTS + _READOUT_PARTS + _SHIFT_PARTS
_MOST = 200_000  # sequences to take shares of: lines are then finer than a pen draws
_T = TypeVar("_T")


def _unwatched(done: int, jobs: int) -> None: ...


def make_records(
    models: Models,
    runs: Path | None,
    out: Path,
    sequences: int = 100_000,
    seed: int = 1,
    on_stage: OnStage = lambda name, parts: lambda done: None,
) -> tuple[Path, ...]:
    """Measure what figures and page need and write it into ``out``; the files that were written.

    ``runs`` holds the run directories of the models; without it the record of training is not changed. ``sequences`` is
    the number for Table 1: answers after each layer get a fifth of it, shifts a tenth, and each noise level a
    twentieth, because there are many. Above 200 000 these three do not grow any more.
    """
    sequences = whole_number("sequences", sequences, 2)
    fifth, tenth, twentieth = (max(2, min(sequences, _MOST) // part) for part in (5, 10, 20))

    def stage(name: str, parts: int) -> OnPart:
        show = on_stage(name, parts)
        return lambda done, jobs: show(parts * done // jobs)

    measured: list[records.Record] = [
        measure_profiles(models, twentieth, seed, stage("noise levels", _PROFILE_PARTS)),
        measure_readouts(models, fifth, twentieth, seed, stage("read-outs after each layer", _READOUT_PARTS)),
        measure_shift(models, tenth, seed, stage("shifts", _SHIFT_PARTS)),
        measure_weights(models),
    ]
    if runs is not None and runs.is_dir():
        measured.append(measure_training(list(models), runs))
    files = {out / f"{record.record}.json": record for record in measured}
    for path, record in files.items():
        write_whole(path, (json.dumps(record.as_json(), ensure_ascii=False, allow_nan=False) + "\n").encode())
    return tuple(files)


def _in_parallel(jobs: Sequence[Callable[[], _T]], on_part: OnPart) -> list[_T]:
    """The results of all jobs, in order; ``on_part`` is called from this thread."""
    pool, results = ThreadPoolExecutor(default_threads()), []
    try:
        for done, future in enumerate([pool.submit(job) for job in jobs], 1):
            results.append(future.result())
            on_part(done, len(jobs))
        return results
    finally:
        pool.shutdown(cancel_futures=True)  # what is not begun is not worth waiting for after an error or Ctrl-C


def profile_levels(noise: str) -> tuple[float, ...]:
    """The levels of a panel: from 0 to beyond the prior, where models extrapolate."""
    prior = Task(noise=noise).prior
    levels = default_levels(prior, LEVEL_STEP)
    if isinstance(prior, Categorical):
        more = round((CATEGORICAL_MARGIN - 1) / LEVEL_STEP)
        levels += tuple(levels[-1] + LEVEL_STEP * k for k in range(1, more + 1))
    return levels


def measure_profiles(
    models: Models, sequences: int, seed: int = 1, on_part: OnPart = _unwatched
) -> records.ProfilesRecord:
    """Models of seven layers and all baselines at every level, and of 2 to 6 layers for some priors.

    Priors for which none of these models is there are left out.
    """
    predictors: dict[str, dict[tuple[str, int | None], Predictor]] = {}
    jobs: dict[tuple[str, float], Callable[[], Profile]] = {}
    for noise in PRIORS:
        depths = (*EVERY_DEPTH, DEPTH) if noise in EVERY_DEPTH_PRIORS else (DEPTH,)
        chosen = {c: m for c, m in models_of(models, noise).items() if c.layers in depths and not c.beyond}
        if chosen:
            task, own = Task(noise=noise), predictors.setdefault(noise, {})
            own |= {(cell.kind, cell.layers): model for cell, model in chosen.items()}
            own |= {(name, None): baseline for name, baseline in table1_baselines(task).items()}
            named = {row_name(*method): predictor for method, predictor in own.items()}
            for level in profile_levels(noise):
                jobs[noise, level] = partial(profile, named, task, (level,), sequences, seed)
    profiles = dict(zip(jobs, _in_parallel(list(jobs.values()), on_part), strict=True))

    def series(noise: str, method: str, layers: int | None) -> records.ProfileSeries:
        name = row_name(method, layers)
        column = [profiles[noise, level].evaluations[name][0] for level in profile_levels(noise)]
        losses = zip(*((e.adjusted_loss, e.standard_error, e.loss) for e in column), strict=True)
        return records.ProfileSeries(method, layers, *losses)

    def panel(noise: str) -> records.ProfilePanel:
        own = (series(noise, *method) for method in predictors[noise])
        return records.ProfilePanel(noise, profile_levels(noise), tuple(own))

    return records.ProfilesRecord(sequences, seed, tuple(map(panel, predictors)))


def measure_readouts(
    models: Models, sequences: int, level_sequences: int, seed: int = 1, on_part: OnPart = _unwatched
) -> records.ReadoutsRecord:
    """The paper's models for `SEEDED_PRIOR`, on the prior and at every level; all of them on the same sequences."""
    order = list(KINDS)
    cells = [cell for cell in models if cell.noise == SEEDED_PRIOR and not cell.beyond]
    cells.sort(key=lambda cell: (order.index(cell.kind), cell.layers, cell.seed))
    chosen = [models[cell] for cell in cells]
    jobs = [partial(_layer_losses, chosen, Task(noise=SEEDED_PRIOR), sequences, seed)]
    jobs += [partial(_layer_losses, chosen, Task(noise=Fixed(level)), level_sequences, seed) for level in LEVELS]
    on_prior, *at_levels = _in_parallel(jobs, on_part)
    readouts = []
    for place, cell in enumerate(cells):
        adjusted, errors = (tuple(values.tolist()) for values in (on_prior[place].mean, on_prior[place].error))
        rows = tuple(zip(*(level[place].mean.tolist() for level in at_levels), strict=True))
        readouts.append(records.ModelReadout(cell.kind, cell.layers, cell.seed, adjusted, errors, rows))
    return records.ReadoutsRecord(SEEDED_PRIOR, sequences, LEVELS, level_sequences, tuple(readouts))


def _layer_losses(models: Sequence[LinearTransformer], task: Task, sequences: int, seed: int) -> list[Moments]:
    """Of every model, the moments of its adjusted losses after each layer; contexts are drawn once for all models."""
    moments = [Moments(model.layers) for model in models]
    parameters = [model.compiled() for model in models]
    for draw in task.chunks(sequences, seed):
        for own, losses in zip(parameters, moments, strict=True):
            weights = engine().weights(own, draw.context.gram, every_layer=True)
            losses.add(half_square(weights, draw.oracle))
    return moments


def measure_shift(models: Models, sequences: int, seed: int = 1, on_part: OnPart = _unwatched) -> records.ShiftRecord:
    """The models of seven layers for `SEEDED_PRIOR` and all baselines under the default shifts."""
    task, predictors = Task(noise=SEEDED_PRIOR), dict[str, Predictor]()
    for cell, model in models_of(models, SEEDED_PRIOR).items():
        if (cell.layers, cell.heads, cell.registers) == (DEPTH, 1, 0):
            predictors[row_name(cell.kind, cell.layers)] = model
    predictors |= {row_name(name, None): baseline for name, baseline in table1_baselines(task).items()}
    specs = default_scenarios(task)
    jobs = [partial(shift_table, predictors, task, (spec,), sequences, seed) for spec in specs]
    scenarios = [
        records.ShiftScenario(spec, table.references[spec], dict(table.results[spec]))
        for spec, table in zip(specs, _in_parallel(jobs, on_part), strict=True)
    ]
    return records.ShiftRecord(SEEDED_PRIOR, sequences, tuple(predictors), tuple(scenarios))


def measure_weights(models: Models) -> records.WeightsRecord:
    """The models of `SHOWN` that are there."""
    by_name = {cell.name: model for cell, model in models.items()}
    shown = (records.ModelWeights(name, *canonical_heads(by_name[name])) for name in SHOWN if name in by_name)
    return records.WeightsRecord(tuple(shown))


def measure_training(cells: Sequence[Cell], runs: Path) -> records.TrainingRecord:
    """Finished runs of `SEEDED_PRIOR` and of the deepest models of the others; those without times are left out.

    So are models with registers.
    """
    first_seed = min((cell.seed for cell in cells), default=0)
    own = [cell for cell in cells if (cell.seed, cell.registers) == (first_seed, 0)]
    wanted = [cell for cell in own if cell.noise == SEEDED_PRIOR or cell.layers == DEPTH]
    curves = (_curve(cell, RunDirectory(runs / cell.name)) for cell in wanted)
    return records.TrainingRecord(tuple(curve for curve in curves if curve is not None))


def _curve(cell: Cell, directory: RunDirectory) -> records.TrainingCurve | None:
    result, seconds = directory.finished_result(), directory.read_seconds()
    if result is None or not seconds:
        return None
    points: dict[str, list[tuple[float, float]]] = {}
    try:
        for row in directory.read_history():
            if row["total"] in seconds:
                stage = row["stage"] if "stage" in row else row["leg"]  # its name before version 1
                points.setdefault(stage, []).append((seconds[row["total"]], _finite(row["smoothed"])))
        final = _finite(result["evaluation"]["adjusted_loss"])
    except (OSError, ValueError, KeyError, TypeError) as broken:
        raise InputError(f"The run in {directory.path} has a damaged history or result.") from broken
    stages = tuple(records.TrainingStage(name, *_thinned(own)) for name, own in points.items())
    start, last = directory.config().start, max(seconds.values())
    return records.TrainingCurve(cell.name, cell.kind, cell.layers, cell.noise, start, stages, final, last)


def _thinned(points: Sequence[tuple[float, float]]) -> Iterable[tuple[float, ...]]:
    """Times and losses of so many points as a line can show."""
    places = np.linspace(0, len(points) - 1, min(len(points), _MOST_POINTS)).round().astype(int)
    return zip(*(points[place] for place in np.unique(places)), strict=True)


def _finite(loss: float | None) -> float:
    """A loss as files of runs have it: null is infinity."""
    return math.inf if loss is None else float(loss)
