"""A results folder, read back: what `ridgeformer reproduce` wrote, each record when it is first asked for."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from ridgeformer.core.storage import MissingFileError, read_whole
from ridgeformer.core.validation import InputError, shortened
from ridgeformer.reproduction import records
from ridgeformer.reproduction.claims import ClaimsRecord
from ridgeformer.reproduction.table1 import Table1

RECORDS = ("table1", "claims", "profiles", "readouts", "weights", "training", "shift")
"""The names of all records."""

_Record = TypeVar("_Record", bound=records.Record)
_MOST_BYTES = 50_000_000  # of a record; the largest of the whole grid has a hundredth of that


class MissingRecordError(InputError):
    """A record is missing, or has nothing of what was asked for; the message says which command makes it."""


def read_results(folder: str | Path) -> Results:
    """The records of a folder. This checks that the folder exists; records are checked when they are used."""
    path = Path(folder)
    if not os.path.isdir(path):  # unlike `Path.is_dir`, also of a name that is too long
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
    """Records by name. A record that is missing or damaged raises an `InputError` when it is asked for."""

    folder: Path

    table1 = _read_once(Table1)
    claims = _read_once(ClaimsRecord)
    profiles = _read_once(records.ProfilesRecord)
    readouts = _read_once(records.ReadoutsRecord)
    weights = _read_once(records.WeightsRecord)
    training = _read_once(records.TrainingRecord)
    shift = _read_once(records.ShiftRecord)

    def nothing(self, record: str, wanted: str) -> MissingRecordError:
        """The error for a record that exists but has nothing of what is ``wanted``."""
        command = making_command(record, self.folder)
        return MissingRecordError(f"{self.folder / record}.json has no {wanted}; make it again with: {command}")
