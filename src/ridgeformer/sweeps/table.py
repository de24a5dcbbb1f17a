"""One table of all finished runs in a folder: settings, losses, further measurements, and training time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ridgeformer.core.storage import read_whole, strict_json, write_whole
from ridgeformer.core.validation import InputError, one_of, shortened
from ridgeformer.sweeps.cell_work import ATTEMPTS, read_measures, read_rows
from ridgeformer.training.config import FORMER_NAMES, TrainConfig
from ridgeformer.training.run_directory import RunDirectory

LOSS = "adjusted_loss"
SETTINGS = tuple(field.name for field in fields(TrainConfig))
"""Columns that are settings of a cell; the others are results."""
_MEASURED = (LOSS, "standard_error")  # of further measurements; all of the own one is in the table
_USUAL = TrainConfig()
_MOST_BYTES = 1 << 20
FORMATS = ("csv", "json", "parquet")


def collect(folder: str | Path, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Collect the finished runs of a folder into one table.

    Parameters
    ----------
    folder: where every run has a directory, such as the ``out`` of `sweep`.
    names: the directories to look at, in this order; by default all, by name.

    Returns a dict for each finished run, all with the same keys; a number that is missing is None. The keys are the
    name, all settings, ``adjusted_loss`` and the rest of the evaluation, ``steps``, ``skipped`` and ``rewinds``,
    ``attempts`` (how often a worker started or resumed it), ``seconds`` of training, and the further measurements of a
    study, such as ``adjusted_loss noise fixed:3``. Raises `InputError` if there is no finished run.

    >>> import ridgeformer as rf, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     config = rf.TrainConfig(kind="gdpp", layers=1, dim=3, examples=6, sequences=1000)
    ...     result = rf.train(config, out=f"{folder}/first")
    ...     (row,) = collect(folder)
    >>> row["name"], row["layers"], row["adjusted_loss"] == result.evaluation.adjusted_loss
    ('first', 1, True)
    """
    path = Path(folder)
    if names is None:
        if not path.is_dir():
            raise InputError(f"There is no folder {shortened(str(folder))} with runs.")
        names = sorted(own.parent.name for own in path.glob("*/config.json"))
    rows = [row for name in names if (row := _row(RunDirectory(path / name))) is not None]
    if not rows:
        raise InputError(f"There are no finished runs in {shortened(str(folder))}.")
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in columns} for row in rows]


def _row(directory: RunDirectory) -> dict[str, Any] | None:
    result = directory.finished_result()
    if result is None:
        return None
    try:
        values = strict_json(read_whole(directory.path / "config.json", _MOST_BYTES))
        settings = {FORMER_NAMES.get(name, name): value for name, value in values.items()}
    except (InputError, ValueError, RecursionError, AttributeError):  # of another process that is at work
        return None
    if "kind" not in settings:  # a module of PyTorch, trained by another engine
        return None
    ordered = {name: settings.get(name, getattr(_USUAL, name)) for name in SETTINGS}
    evaluation = result.get("evaluation")
    row = {"name": directory.path.name, **ordered, **(evaluation if isinstance(evaluation, dict) else {})}
    row |= {name: result.get(name) for name in ("steps", "skipped", "rewinds")}
    attempts = read_rows(directory.path / ATTEMPTS)
    row["attempts"] = sum("from_step" in attempt for attempt in attempts)
    row["seconds"] = max(directory.read_seconds().values(), default=None)
    for label, measured in sorted(read_measures(directory).items()):
        row |= {f"{name} {label}": measured[name] for name in (*_MEASURED, "loss", "ratio") if name in measured}
    return row


def write_table(rows: Sequence[dict[str, Any]], folder: Path, formats: Sequence[str] | None = None) -> list[Path]:
    """Write a table into files.

    Parameters
    ----------
    rows: from `collect`.
    folder: where to write table.csv, table.json and table.parquet.
    formats: which of "csv", "json" and "parquet"; by default all, Parquet only if pyarrow is installed.

    Returns the paths of the files. Raises `InputError` for another format, or if pyarrow is needed and missing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path] = write_table([{"name": "first", "adjusted_loss": 0.25}], Path(folder), ["csv"])
    ...     print(path.read_text())
    name,adjusted_loss
    first,0.25
    <BLANKLINE>
    """
    chosen = [one_of("formats", name, FORMATS) for name in (FORMATS if formats is None else formats)]
    paths = []
    for name in chosen:
        data = _PARTS[name](rows)
        if data is None and formats is not None:
            raise InputError("Parquet files need: pip install pyarrow.")
        if data is not None:
            paths.append(folder / f"table.{name}")
            write_whole(paths[-1], data)
    return paths


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue().encode()


def _json(rows: Sequence[dict[str, Any]]) -> bytes:
    return (json.dumps(list(rows), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _parquet(rows: Sequence[dict[str, Any]]) -> bytes | None:
    """Parquet, where a column with one float has floats only; None without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return None
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        some_float = any(isinstance(value, float) for value in values)
        columns[name] = [float(value) if some_float and value is not None else value for value in values]
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


_PARTS = {"csv": _csv, "json": _json, "parquet": _parquet}
