"""Measure every model of the zoo on ten million sequences, and the paper's grid also beyond the noise of its training.

python tools/measure_tails.py                      # an hour on two cores; goes on where it was stopped
python tools/write_docs.py tails                   # the summary in docs/reproduction.md

A deep model can fail on one sequence in a million, which the million it was measured on when it was trained may not
hold. This replaces ``info["evaluation"]`` in the files of the models by a measurement on ten times as many fresh
sequences. Of the models of the paper's grid and of those with registers, docs/results/tails.json gets more: how many
losses are above 10 and above 100, and mean losses at fixed noise levels from the largest one of the training on, beside
those of the GD++ model of the same depth and prior. Models that are measured already are left alone.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import tyro

from ridgeformer.cli.terminal import Progress
from ridgeformer.core.distributions import Fixed
from ridgeformer.core.mixture import Mixture
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import weights_digest
from ridgeformer.core.storage import plain, write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, RidgeformerError
from ridgeformer.evaluation import Evaluation, evaluate, trained_on
from ridgeformer.evaluation.scoring import loss_chunks, score
from ridgeformer.evaluation.statistics import Tally
from ridgeformer.reproduction.cells import SEEDED_PRIOR, grid_cells, zoo_name
from ridgeformer.reproduction.measuring import LEVELS, profile_levels
from ridgeformer.reproduction.records import Count, KindName, Layers, Levels, Number, Numbers, Record, Sequences, Text
from ridgeformer.reproduction.results import read_record
from ridgeformer.zoo import SUFFIX, load, zoo_folder

SEQUENCES = 10_000_000
LEVEL_SEQUENCES = 20_000
SEED = 161_803_398
"""Of sequences that no training and no table uses, and that nobody had looked at when the recipes were chosen. Once a
recipe is chosen by what they show, change it: models that were measured on other sequences are measured again."""
RECORD = Path(__file__).parents[1] / "docs" / "results" / "tails.json"
COMMAND = "python tools/measure_tails.py"
WORSE = 1.01
"""A model is worse than GD++ where its mean loss is more than this times that of GD++, on the same sequences."""
_LEFT_OUT = ("loss", "loss_error")  # mostly the oracle's: they say little about the model
_ROUNDING = 1e-12  # a loss below this is zero: without noise, deep models solve the problem


@dataclass(frozen=True)
class Tail:
    """Losses of a model on many fresh sequences of its own task."""

    mean: Number
    error: Number
    """Standard error of the mean."""
    largest: Number
    above_10: Count
    above_100: Count
    """Sequences with such a loss, also those whose loss is not finite."""


@dataclass(frozen=True)
class Beyond:
    """Mean losses from the largest noise level of the training on."""

    levels: Levels
    losses: Numbers
    gdpp: Numbers
    """Of the GD++ model of the same prior, with as many layers, or the most that there are."""

    @property
    def worse_from(self) -> tuple[float, float, float] | None:
        """The first level at which the model is worse than GD++, with both losses there; None if there is none."""
        points = zip(self.levels, self.losses, self.gdpp, strict=True)
        return next((point for point in points if point[1] > WORSE * point[2] + _ROUNDING), None)


@dataclass(frozen=True)
class ModelTail:
    """One model of the zoo."""

    name: Text
    kind: KindName
    layers: Layers
    digest: Text
    """Of the weights of the model, and of the GD++ model that it is compared with."""
    seed: Count
    """Of the sequences."""
    tail: Tail
    beyond: tuple[Beyond, ...] = ()
    """One, or none for a GD++ model and for a model of another task."""


@dataclass(frozen=True)
class TailsRecord(Record):
    """The models of the paper's grid, and those with registers."""

    record = "tails"
    sequences: Sequences
    level_sequences: Sequences
    models: tuple[ModelTail, ...]

    def save(self, path: Path) -> None:
        """Write it as JSON, with one line for each model."""
        values = self.as_json()
        lines = ",\n".join(json.dumps(model, ensure_ascii=False, allow_nan=False) for model in values.pop("models"))
        write_whole(path, f'{json.dumps(values)[:-1]}, "models": [\n{lines}\n]}}\n'.encode())


def measure_tail(
    model: LinearTransformer,
    task: Task,
    sequences: int = SEQUENCES,
    seed: int = SEED,
    on_chunk: Callable[[int], None] = lambda done: None,
) -> tuple[Evaluation, Tail]:
    """What `evaluate` finds on these sequences, and its tail."""
    if task.standard:
        chunks = loss_chunks(model, task, sequences, seed)
    else:
        chunks = (score(model, draw, lambda: iter(())) for draw in task.chunks(sequences, seed))
    tally, done, above_10, above_100 = Tally(sequences), 0, 0, 0
    for adjusted, losses in chunks:
        tally.add(adjusted, losses)
        above_10 += int(np.count_nonzero(adjusted > 10))
        above_100 += int(np.count_nonzero(adjusted > 100))
        on_chunk(done := done + len(adjusted))
    found = tally.evaluation()
    return found, Tail(found.adjusted_loss, found.standard_error, found.maximum, above_10, above_100)


def levels_beyond(noise: str) -> tuple[float, ...]:
    """From the largest level of a prior as far as the figures go."""
    largest = math.ceil(Task(noise=noise).prior.quadrature(64)[0].max())
    return tuple(level for level in (LEVELS if noise == SEEDED_PRIOR else profile_levels(noise)) if level >= largest)


def gdpp_name(model: LinearTransformer, models: Mapping[str, LinearTransformer]) -> str | None:
    """The GD++ model that a model is compared with; None for a GD++ model, and if there is none of the same task."""
    task = trained_on(model)
    if model.kind == "gdpp" or isinstance(task, Mixture):
        return None
    names = (zoo_name("gdpp", layers, task.prior.spec) for layers in range(model.layers, 0, -1))
    return next((name for name in names if name in models and trained_on(models[name]) == task), None)


def measure_tails(
    folder: Path | None = None,
    out: Path = RECORD,
    sequences: int = SEQUENCES,
    level_sequences: int = LEVEL_SEQUENCES,
    seed: int = SEED,
) -> int:
    """Measure the models in a folder; how many were measured now.

    Args:
        folder: The models; by default those of the package.
        out: The record to add to.
        sequences: How many fresh sequences of the model's own task.
        level_sequences: How many sequences at each noise level.
        seed: Of the sequences.
    """
    shelf = zoo_folder() if folder is None else folder
    record = read_record(TailsRecord, out, COMMAND) if out.exists() else TailsRecord(sequences, level_sequences, ())
    if (record.sequences, record.level_sequences) != (sequences, level_sequences):
        raise InputError(f"{out} was measured on other numbers of sequences; name another file with --out.")
    models = {file.name.removesuffix(SUFFIX): load(file) for file in sorted(shelf.glob(f"*{SUFFIX}"))}
    done = {one.name: one for one in record.models if one.name in models}

    @cache
    def at_levels(name: str) -> tuple[float, ...]:
        model = models[name]
        task = trained_on(model)
        levels = levels_beyond(task.prior.spec)
        return tuple(
            evaluate(model, replace(task, noise=Fixed(level)), level_sequences, seed).adjusted_loss for level in levels
        )

    grid = {cell.name for cell in grid_cells()}
    todo = []
    for name, model in models.items():
        job = _Job(name, model, gdpp_name(model, models), name in grid or "-registers-" in name)
        known = (done[name].digest, done[name].seed) if name in done else None
        if (job.recorded and known != (job.digest(models), seed)) or not job.is_measured(sequences, seed):
            todo.append(job)
    # Those of the paper's grid come first, deep before shallow; other seeds, which no table shows, last.
    todo.sort(key=lambda job: ("-seed-" in job.name, job.name not in grid, job.model.layers < 3))
    with Progress(sum(job.work(sequences, seed) for job in todo)) as progress:
        for number, one in enumerate(todo, 1):
            text, file = f"{number}/{len(todo)} {one.name}", shelf / f"{one.name}{SUFFIX}"
            show = progress.stage(text, sequences, one.work(sequences, seed) / sequences)
            model = models[one.name] = load(file)  # again: it may have been replaced meanwhile
            job = replace(one, model=model)
            tail = job.known_tail(sequences, seed)
            if tail is None:
                found, tail = measure_tail(model, trained_on(model), sequences, seed, show)
                if not job.is_measured(sequences, seed):
                    values = {key: value for key, value in plain(found).items() if key not in _LEFT_OUT}
                    info = {**model.info, "evaluation": values | {"seed": seed}}
                    replace(model, info=info).save(file)
            if job.recorded:
                beyond: tuple[Beyond, ...] = ()
                if job.gdpp is not None:
                    levels = levels_beyond(trained_on(model).prior.spec)
                    beyond = (Beyond(levels, at_levels(job.name), at_levels(job.gdpp)),)
                done[job.name] = ModelTail(job.name, model.kind, model.layers, job.digest(models), seed, tail, beyond)
                replace(record, models=tuple(done[name] for name in sorted(done))).save(out)
            sys.stdout.write(f"{text}: largest {tail.largest:.3g}\n")
            sys.stdout.flush()
    return len(todo)


@dataclass(frozen=True)
class _Job:
    """A model to measure."""

    name: str
    model: LinearTransformer
    gdpp: str | None
    recorded: bool
    """Whether the record has it."""

    def is_measured(self, sequences: int, seed: int) -> bool:
        """Whether the model was measured on these sequences, or on more than these, as its file says."""
        known = dict(self.model.info["evaluation"])
        return (known.get("sequences", 0), known.get("seed") == seed) >= (sequences, True)

    def digest(self, models: Mapping[str, LinearTransformer]) -> str:
        """See `ModelTail.digest`."""
        both = (self.model, *([] if self.gdpp is None else [models[self.gdpp]]))
        return "+".join(weights_digest(model)[:16] for model in both)

    def known_tail(self, sequences: int, seed: int) -> Tail | None:
        """The tail as the file says, if it was measured on these sequences and there is no loss to count."""
        known = dict(self.model.info["evaluation"])
        if (known.get("sequences"), known.get("seed")) != (sequences, seed):
            return None
        if known["maximum"] is None or known["maximum"] > 10:
            return None
        return Tail(known["adjusted_loss"], known["standard_error"], known["maximum"], 0, 0)

    def work(self, sequences: int, seed: int) -> float:
        """How long it takes, in any unit, for the time left."""
        if self.known_tail(sequences, seed) is not None:
            return 1.0
        full, slow = self.model.kind == "full", not trained_on(self.model).standard
        return (5.0 + self.model.layers) * (1.5 if full else 1.0) * (20.0 if slow else 1.0)


if __name__ == "__main__":
    try:
        tyro.cli(measure_tails)
    except RidgeformerError as failed:
        sys.exit(str(failed))
