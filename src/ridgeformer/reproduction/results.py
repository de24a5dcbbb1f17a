"""A results folder, read back: what `ridgeformer reproduce` wrote, each record when it is first asked for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from ridgeformer.core.storage import MissingFileError, read_whole
from ridgeformer.core.validation import InputError, shortened
from ridgeformer.reproduction.claims import ClaimsRecord
from ridgeformer.reproduction.records import (
    ProfilesRecord,
    ReadoutsRecord,
    Record,
    ShiftRecord,
    TrainingRecord,
    WeightsRecord,
)
from ridgeformer.reproduction.table1 import Table1

RECORDS = ("table1", "claims", "profiles", "readouts", "weights", "training", "shift")
"""The names of all records."""

_Record = TypeVar("_Record", bound=Record)
_MOST_BYTES = 50_000_000  # of a record; the largest of the whole grid has a hundredth of that


class MissingRecordError(InputError):
    """A record is not there, or holds nothing of what was asked for; the message says what makes it."""


def read_results(folder: str | Path) -> Results:
    """The records of a folder. That it is there is checked now, what is in it when it is used."""
    path = Path(folder)
    try:
        there = path.is_dir()
    except (OSError, ValueError):  # too long for a name, or a null byte
        there = False
    if not there:
        raise MissingRecordError(
            f"There is no folder {shortened(str(folder))} with results; make it with: {making_command('table1', path)}"
        )
    return Results(path)


def making_command(record: str, folder: Path) -> str:
    """What makes a record; that of training needs runs, the others only models."""
    train, text = " --train" if record == "training" else "", shlex.quote(str(folder))
    return f"ridgeformer reproduce{train} --out {text if len(text) <= 100 else f'{text[:100]}…'}"


def read_record(kind: type[_Record], path: Path, command: str) -> _Record:
    """A record from a file of strict JSON and bounded size; ``command`` is what makes it again."""
    try:
        values = msgspec.json.decode(read_whole(path, _MOST_BYTES))
    except MissingFileError as missing:
        raise MissingRecordError(f"There is no {path.name} in {path.parent}; make it with: {command}") from missing
    except (ValueError, RecursionError) as broken:  # not text, not JSON, or nested too deeply
        raise InputError(f"{path} is cut off or is not JSON; make it again with: {command}") from broken
    if not isinstance(values, dict) or values.get("record") != kind.record:
        raise InputError(f"{path}: this is not a record of {kind.record}.")
    try:
        return kind.from_json(values)
    except InputError as wrong:
        raise InputError(f"{path}: {wrong}") from wrong


def _read_once(kind: type[_Record]) -> cached_property[_Record]:
    """A property of `Results`: its record of this kind."""

    def read(results: Results) -> _Record:
        command = making_command(kind.record, results.folder)
        return read_record(kind, results.folder / f"{kind.record}.json", command)

    return cached_property(read)


@dataclass(frozen=True)
class Results:
    """Records by name. One that is missing, or is not what it must be, is an `InputError` when it is asked for."""

    folder: Path

    table1 = _read_once(Table1)
    """Losses of all models and baselines."""
    claims = _read_once(ClaimsRecord)
    """The paper's claims, judged."""
    profiles = _read_once(ProfilesRecord)
    """Losses at fixed noise levels."""
    readouts = _read_once(ReadoutsRecord)
    """Losses after each layer."""
    weights = _read_once(WeightsRecord)
    """Weights of FULL models."""
    training = _read_once(TrainingRecord)
    """Losses against training time."""
    shift = _read_once(ShiftRecord)
    """Losses off the training distribution."""

    def nothing(self, record: str, wanted: str) -> MissingRecordError:
        """The error of a record that is there and holds nothing of what is ``wanted``."""
        command = making_command(record, self.folder)
        return MissingRecordError(f"{self.folder / record}.json has no {wanted}; make it again with: {command}")
