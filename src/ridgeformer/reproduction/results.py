"""A results folder, read back: what `ridgeformer reproduce` wrote, each record when it is first asked for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ridgeformer.core.validation import shortened
from ridgeformer.core.validation import InputError
from ridgeformer.reproduction.claims import ClaimsRecord
from ridgeformer.reproduction.records.fields import Fields
from ridgeformer.reproduction.records.profiles import ProfilesRecord
from ridgeformer.reproduction.records.readouts import ReadoutsRecord
from ridgeformer.reproduction.records.shift import ShiftRecord
from ridgeformer.reproduction.records.training import TrainingRecord
from ridgeformer.reproduction.records.weights import WeightsRecord
from ridgeformer.reproduction.table1 import METHOD_NAMES, Table1

RECORDS = ("table1", "claims", "profiles", "readouts", "weights", "training", "shift")
"""The names of all records."""

_Record = TypeVar("_Record")
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
    train = " --train" if record == "training" else ""
    return f"ridgeformer reproduce{train} --out {shortened_path(folder)}"


def shortened_path(folder: Path) -> str:
    """A folder as one would type it."""
    text = shlex.quote(str(folder))
    return text if len(text) <= 100 else f"{text[:100]}…"


@dataclass(frozen=True)
class Results:
    """Records by name. One that is missing, or is not what it must be, is an `InputError` when it is asked for."""

    folder: Path

    @cached_property
    def table1(self) -> Table1:
        """Losses of all models and baselines."""
        return self._record("table1", _read_table1)

    @cached_property
    def claims(self) -> ClaimsRecord:
        """The paper's claims, judged."""
        return self._record("claims", ClaimsRecord.from_json)

    @cached_property
    def profiles(self) -> ProfilesRecord:
        """Losses at fixed noise levels."""
        return self._record("profiles", ProfilesRecord.from_json)

    @cached_property
    def readouts(self) -> ReadoutsRecord:
        """Losses after each layer."""
        return self._record("readouts", ReadoutsRecord.from_json)

    @cached_property
    def weights(self) -> WeightsRecord:
        """Weights of FULL models."""
        return self._record("weights", WeightsRecord.from_json)

    @cached_property
    def training(self) -> TrainingRecord:
        """Losses against training time."""
        return self._record("training", TrainingRecord.from_json)

    @cached_property
    def shift(self) -> ShiftRecord:
        """Losses off the training distribution."""
        return self._record("shift", ShiftRecord.from_json)

    def nothing(self, record: str, wanted: str) -> MissingRecordError:
        """The error of a record that is there and holds nothing of what is ``wanted``."""
        command = making_command(record, self.folder)
        return MissingRecordError(f"{self.folder / record}.json has no {wanted}; make it again with: {command}")

    def _record(self, name: str, read: Callable[[Any], _Record]) -> _Record:
        path = self.folder / f"{name}.json"
        values = _read_json(path, making_command(name, self.folder))
        try:
            if not isinstance(values, dict) or values.get("record") != name:
                raise InputError(f"this is not a record of {name}.")
            return read(values)
        except InputError as wrong:
            raise InputError(f"{path}: {wrong}") from wrong


def _read_json(path: Path, command: str) -> Any:
    """Strict JSON of bounded size: neither NaN nor Infinity, which JSON has not."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise InputError(f"{path} is larger than {_MOST_BYTES // 1_000_000} MB, which no record is.")
        return json.loads(data, parse_constant=refuse)
    except FileNotFoundError as missing:
        raise MissingRecordError(f"There is no {path.name} in {path.parent}; make it with: {command}") from missing
    except OSError as failed:
        raise InputError(f"Cannot read {path}: {failed.strerror or failed}.") from failed
    except (ValueError, RecursionError) as broken:  # not text, not JSON, or nested too deeply
        raise InputError(f"{path} is cut off or is not JSON; make it again with: {command}") from broken


def _read_table1(values: Any) -> Table1:
    """Table 1, with every field of every entry checked."""
    fields = Fields(values, "table1")
    fields.whole("sequences", 1)
    fields.whole("seed")
    for entry in fields.objects("entries"):
        entry.choice("method", METHOD_NAMES)
        entry.noise()
        entry.layers_or_none()
        entry.whole("diverged")
        for name in ("adjusted_loss", "standard_error", "median", "p99", "maximum", "printed", "bayes_ratio"):
            entry.number(name)
        if "heads" in entry:
            entry.heads()
    try:
        return Table1.from_json(values)
    except TypeError as unknown:  # a field that an entry has not
        raise InputError("table1 has entries of the wrong form.") from unknown
