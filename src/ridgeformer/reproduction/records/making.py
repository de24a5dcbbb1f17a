"""All records of a results folder, made in one go."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ridgeformer.core.validation import whole_number
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.records.parallel import OnPart
from ridgeformer.reproduction.records.profiles import measure_profiles
from ridgeformer.reproduction.records.readouts import measure_readouts
from ridgeformer.reproduction.records.shift import measure_shift
from ridgeformer.reproduction.records.training import measure_training
from ridgeformer.reproduction.records.weights import measure_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.storage import write_whole

OnStage = Callable[[str, int], Callable[[int], None]]
"""Called with a name and the stage's share of `RECORD_PARTS`; what it returns is called with how many are done."""
_PROFILE_PARTS, _READOUT_PARTS, _SHIFT_PARTS = 650, 270, 80  # as they share the time
RECORD_PARTS = _PROFILE_PARTS + _READOUT_PARTS + _SHIFT_PARTS
_MOST = 200_000  # sequences to take these shares of: lines are then finer than a pen draws
_FEWEST = 2  # sequences that have a standard error


class _Record(Protocol):
    def as_json(self) -> dict[str, Any]: ...


def _unwatched(name: str, parts: int) -> Callable[[int], None]:
    return lambda done: None


def make_records(
    models: Mapping[Cell, LinearTransformer],
    runs: Path | None,
    out: Path,
    sequences: int = 100_000,
    seed: int = 1,
    on_stage: OnStage = _unwatched,
) -> tuple[Path, ...]:
    """Measure what figures and page need and write it into ``out``; the files that were written.

    ``runs``, if there are any, holds the run directories of the models; without it the record of training is left as it
    is. ``sequences`` is what Table 1 is measured on: read-outs get a fifth of it, shifts a tenth, noise levels a
    twentieth each, since there are many of them; and none gets more than of 200 000.
    """
    sequences = whole_number("sequences", sequences, 2)
    fifth, tenth, twentieth = (max(_FEWEST, min(sequences, _MOST) // part) for part in (5, 10, 20))

    def stage(name: str, parts: int) -> OnPart:
        show = on_stage(name, parts)
        return lambda done, jobs: show(parts * done // jobs)

    records: list[_Record] = [
        measure_profiles(models, twentieth, seed, stage("noise levels", _PROFILE_PARTS)),
        measure_readouts(models, fifth, twentieth, seed, stage("read-outs after each layer", _READOUT_PARTS)),
        measure_shift(models, tenth, seed, stage("shifts", _SHIFT_PARTS)),
        measure_weights(models),
    ]
    if runs is not None and runs.is_dir():
        records.append(measure_training(list(models), runs))
    return tuple(_write(record.as_json(), out) for record in records)


def _write(values: Mapping[str, Any], out: Path) -> Path:
    path = out / f"{values['record']}.json"
    write_whole(path, (json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return path
