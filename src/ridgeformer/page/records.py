"""Result records as the page carries them: read from a folder, checked, and cut down to what the page shows.

A record is a file that anybody may have written. What the page's scripts rely on is written down once, as `SHAPES`, and
what does not fit is refused with a sentence; what is not named there is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeformer.checks import shortened
from ridgeformer.errors import InputError

REQUIRED = "table1"
_LARGEST_FILE = 50_000_000  # bytes; the largest record of the whole grid is a hundredth of that
_DIGITS = 6  # kept of every number: one more than the page shows anywhere, and a third of the bytes


@dataclass(frozen=True)
class Optional:
    """A value that may be null or missing."""

    shape: Any


NUMBER, WHOLE, TEXT, TRUTH = "a number", "a whole number", "a text", "true or false"
_LOSS = Optional(NUMBER)  # null stands for infinity
_LOSSES = [_LOSS]

SHAPES: dict[str, Any] = {
    "table1": {
        "sequences": WHOLE,
        "seed": WHOLE,
        "entries": [
            {
                "method": TEXT,
                "layers": Optional(WHOLE),
                "heads": Optional(WHOLE),
                "noise": TEXT,
                "adjusted_loss": _LOSS,
                "standard_error": _LOSS,
                "median": _LOSS,
                "p99": _LOSS,
                "maximum": _LOSS,
                "printed": Optional(NUMBER),
                "bayes_ratio": Optional(NUMBER),
                "verdict": Optional(TEXT),
            }
        ],
    },
    "claims": {"claims": [{"statement": TEXT, "verdict": TEXT, "numbers": TEXT}]},
    "profiles": {
        "sequences": WHOLE,
        "seed": WHOLE,
        "panels": [
            {
                "noise": TEXT,
                "levels": [NUMBER],
                "series": [
                    {
                        "method": TEXT,
                        "layers": Optional(WHOLE),
                        "adjusted": _LOSSES,
                        "standard_error": _LOSSES,
                        "unadjusted": _LOSSES,
                    }
                ],
            }
        ],
    },
    "readouts": {
        "noise": TEXT,
        "sequences": WHOLE,
        "levels": [NUMBER],
        "level_sequences": WHOLE,
        "models": [{"method": TEXT, "layers": WHOLE, "seed": WHOLE, "adjusted": _LOSSES, "profile": [_LOSSES]}],
    },
    "weights": {"models": [{"name": TEXT, "P": [[[[NUMBER]]]], "Q": [[[[NUMBER]]]]}]},
    "training": {
        "curves": [
            {
                "name": TEXT,
                "method": TEXT,
                "layers": WHOLE,
                "noise": TEXT,
                "start": Optional(TEXT),
                "legs": [{"name": TEXT, "seconds": _LOSSES, "loss": _LOSSES}],
                "final": _LOSS,
                "final_seconds": _LOSS,
            }
        ]
    },
    "shift": {
        "noise": TEXT,
        "sequences": WHOLE,
        "predictors": [TEXT],
        "scenarios": [
            {
                "spec": TEXT,
                "reference": _LOSS,
                "results": {
                    TEXT: {
                        "loss": _LOSS,
                        "ratio": Optional(NUMBER),
                        "ratio_error": Optional(NUMBER),
                        "top_share": Optional(NUMBER),
                        "survives": TRUTH,
                    }
                },
            }
        ],
    },
}
"""By record. A list holds one shape for all of its items; a dict whose key is `TEXT` maps any names to one shape."""


def command(record: str, folder: Path) -> str:
    """What makes a record; curves over training time need runs, the others only models."""
    train = "--train " if record == "training" else ""
    return f"ridgeformer reproduce {train}--out {folder.name or '.'}"


def read_record(folder: Path, record: str) -> dict[str, Any] | None:
    """One record of a results folder, or None if it is not there."""
    path = folder / f"{record}.json"
    try:
        if not path.exists():
            return None
        if path.stat().st_size > _LARGEST_FILE:
            raise InputError(f"{path} has more than {_LARGEST_FILE} bytes, which no record has.")
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as failed:
        raise InputError(f"Cannot read {path}: {failed.strerror or failed}.") from failed
    except (ValueError, RecursionError) as broken:
        raise InputError(f"{path} is not JSON; make it again with: {command(record, folder)}") from broken
    if not isinstance(values, dict) or values.get("record") != record:
        raise InputError(f"{path} is not a record of {record}; make it again with: {command(record, folder)}")
    try:
        checked: dict[str, Any] = _checked(values, SHAPES[record], record)
    except InputError as wrong:
        raise InputError(f"{path}: {wrong}") from wrong
    return checked


def _checked(value: Any, shape: Any, place: str) -> Any:
    """``value`` cut down to ``shape``, numbers to `_DIGITS`; NaN and infinity become null where null may be."""
    if isinstance(shape, Optional):
        absent = value is None or (isinstance(value, float) and not math.isfinite(value))
        return None if absent else _checked(value, shape.shape, place)
    if isinstance(shape, list):
        _expect(isinstance(value, list), place, "a list", value)
        return [_checked(item, shape[0], f"{place}[{k}]") for k, item in enumerate(value)]
    if isinstance(shape, dict):
        _expect(isinstance(value, dict), place, "an object", value)
        return _checked_object(value, shape, place)
    if shape == TEXT:
        _expect(isinstance(value, str), place, shape, value)
        return value
    if shape == TRUTH:
        _expect(isinstance(value, bool), place, shape, value)
        return value
    kinds = int if shape == WHOLE else int | float
    finite = isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < float("inf")
    _expect(finite, place, shape, value)
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def _checked_object(value: Mapping[str, Any], shape: Mapping[str, Any], place: str) -> dict[str, Any]:
    if TEXT in shape:
        return {str(name): _checked(item, shape[TEXT], f"{place}.{name}") for name, item in value.items()}
    return {name: _checked(value.get(name), part, f"{place}.{name}") for name, part in shape.items()}


def _expect(holds: bool, place: str, wanted: str, value: Any) -> None:
    if not holds:
        raise InputError(f"{shortened(place, 120)} must be {wanted}, not {shortened(value, 60)}.")
