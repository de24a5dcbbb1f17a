"""A results folder, read back: what `ridgeformer reproduce` wrote, each record when it is first asked for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

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


@dataclass(frozen=True)
class Results:
    """Records by name. One that is missing, or is not what it must be, is an `InputError` when it is asked for."""

    folder: Path

    @cached_property
    def table1(self) -> Table1:
        """Losses of all models and baselines."""
        return self._read(Table1)

    @cached_property
    def claims(self) -> ClaimsRecord:
        """The paper's claims, judged."""
        return self._read(ClaimsRecord)

    @cached_property
    def profiles(self) -> ProfilesRecord:
        """Losses at fixed noise levels."""
        return self._read(ProfilesRecord)

    @cached_property
    def readouts(self) -> ReadoutsRecord:
        """Losses after each layer."""
        return self._read(ReadoutsRecord)

    @cached_property
    def weights(self) -> WeightsRecord:
        """Weights of FULL models."""
        return self._read(WeightsRecord)

    @cached_property
    def training(self) -> TrainingRecord:
        """Losses against training time."""
        return self._read(TrainingRecord)

    @cached_property
    def shift(self) -> ShiftRecord:
        """Losses off the training distribution."""
        return self._read(ShiftRecord)

    def nothing(self, record: str, wanted: str) -> MissingRecordError:
        """The error of a record that is there and holds nothing of what is ``wanted``."""
        command = making_command(record, self.folder)
        return MissingRecordError(f"{self.folder / record}.json has no {wanted}; make it again with: {command}")

    def _read(self, kind: type[_Record]) -> _Record:
        return read_record(kind, self.folder / f"{kind.record}.json", making_command(kind.record, self.folder))


def read_record(kind: type[_Record], path: Path, command: str) -> _Record:
    """A record from a file of strict JSON and bounded size; ``command`` is what makes it again."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise InputError(f"{path} is larger than {_MOST_BYTES // 1_000_000} MB, which no record is.")
        values = msgspec.json.decode(data)
    except FileNotFoundError as missing:
        raise MissingRecordError(f"There is no {path.name} in {path.parent}; make it with: {command}") from missing
    except OSError as failed:
        raise InputError(f"Cannot read {path}: {failed.strerror or failed}.") from failed
    except (ValueError, RecursionError) as broken:  # not text, not JSON, or nested too deeply
        raise InputError(f"{path} is cut off or is not JSON; make it again with: {command}") from broken
    if not isinstance(values, dict) or values.get("record") != kind.record:
        raise InputError(f"{path}: this is not a record of {kind.record}.")
    try:
        return kind.from_json(values)
    except InputError as wrong:
        raise InputError(f"{path}: {wrong}") from wrong
