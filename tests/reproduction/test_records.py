"""Records on disk: written and read back to the same values, old names, and files that cannot be trusted."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from made_up_results import RECORDS, made_up, write_results
from ridgeformer.core.validation import InputError
from ridgeformer.reproduction import results as results_module
from ridgeformer.reproduction.records import ModelWeights, TrainingRecord
from ridgeformer.reproduction.results import RECORDS as ALL_RECORDS
from ridgeformer.reproduction.results import MissingRecordError, read_results
from support import one_sentence, refusal

DOCS = Path(rf.__file__).parents[2] / "docs" / "results"
LISTS = ("entries", "panels", "models", "curves", "scenarios")


@pytest.mark.parametrize("record", RECORDS)
def test_records_are_read_back_as_they_were_written(record: str, tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path))
    expected = made_up(record)
    assert getattr(results, record).as_json() == expected.as_json()
    if record != "weights":  # arrays do not compare
        assert getattr(results, record) == expected


INDENT = {"table1": 1, "claims": 2}


@pytest.mark.parametrize("record", ALL_RECORDS)
def test_records_of_this_project_are_read_and_written_again_byte_for_byte(record: str) -> None:
    values = getattr(read_results(DOCS), record).as_json()
    text = json.dumps(values, indent=INDENT.get(record), ensure_ascii=record == "table1", allow_nan=False) + "\n"
    expected = (DOCS / f"{record}.json").read_text(encoding="utf-8")
    assert text == expected.replace('"legs": [', '"stages": [')


def test_stages_are_read_under_their_former_name() -> None:
    record = made_up("training")
    old = json.loads(json.dumps(record.as_json()).replace('"stages"', '"legs"'))
    assert "legs" in old["curves"][0]
    assert TrainingRecord.from_json(old) == record


def test_names_that_a_record_does_not_have_are_passed_over(tmp_path: Path) -> None:
    values = smallest("shift") | {"colour": None}
    values["scenarios"][0]["results"]["AdaRR"]["later"] = [1, {"x": None}]
    (tmp_path / "shift.json").write_text(json.dumps(values))
    assert read_results(tmp_path).shift.predictors == made_up("shift").predictors


def test_numbers_that_are_not_finite_are_null_on_disk_and_infinite_when_read() -> None:
    record = made_up("readouts")
    first = replace(record.models[0], adjusted=(math.nan,), standard_error=(math.inf,))
    values = replace(record, models=(first,)).as_json()
    assert values["models"][0]["adjusted"] == [None]
    found = type(record).from_json(json.loads(json.dumps(values, allow_nan=False)))
    assert found.models[0].adjusted == found.models[0].standard_error == (math.inf,)


def smallest(record: str) -> dict[str, Any]:
    """A record with one item in every list of objects, as JSON."""
    values: dict[str, Any] = made_up(record).as_json()
    for name in LISTS:
        if name in values:
            values[name] = values[name][:1]
            if "series" in values[name][0]:
                values[name][0]["series"] = values[name][0]["series"][:1]
    return values


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything in a JSON value, of long lists only to their first two items."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


def changed(values: dict[str, Any], path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    out = copy.deepcopy(values)
    inner = out
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = new
    return out


BAD: tuple[Any, ...] = ("x" * 1000, "\n", "$", [], [[]], {}, True, -1, 1.5, 10**400, 10**16, None)


@pytest.mark.parametrize("record", RECORDS)
def test_whatever_stands_in_a_record_is_read_or_refused_with_a_sentence(record: str, tmp_path: Path) -> None:
    values = smallest(record)
    file, tried, refused = tmp_path / f"{record}.json", 0, list[InputError]()
    for path in places(values):
        for new in BAD:
            file.write_text(json.dumps(changed(values, path, new)))
            tried += 1
            try:
                getattr(read_results(tmp_path), record)
            except InputError as wrong:
                refused.append(wrong)
    assert all(str(file) in one_sentence(wrong) for wrong in refused)
    assert len(refused) > tried / 3
    file.write_text(json.dumps(values))  # the control: as it was it is read
    assert getattr(read_results(tmp_path), record).as_json() == values


WRONG: dict[str, tuple[str, str, Any, str]] = {
    "text for a number": ("table1", "entries 0 layers", "two", r"Expected `int \| null`, got `str` - at {place}"),
    "no layer": ("readouts", "models 0 layers", 0, ">= 1 - at {place}"),
    "no such prior": ("profiles", "panels 0 noise", "unifrom:5", "- at {place}"),
    "no such method": ("table1", "entries 0 method", "lasso", "regex '.*gdpp.*' - at {place}"),
    "a baseline with layers": ("training", "curves 0 method", "adarr", "- at {place}"),
    "too few losses": (
        "profiles",
        "panels 0 series 0 adjusted",
        [1.0],
        r"5 items of adjusted, got 1 - at `\$.panels\[0\]`",
    ),
    "too few layers": ("readouts", "models 0 profile", [], r"1 items of profile, got 0 - at `\$.models\[0\]`"),
    "too few levels": ("readouts", "models 0 profile 0", [1.0], "Expected 21 items of profile, got 1"),
    "a loss without a time": ("training", "curves 0 stages 0 seconds", [1.0], r"at `\$.curves\[0\].stages\[0\]`"),
    "a line break": ("weights", "models 0 name", "a\nb", "- at {place}"),
    "ragged weights": ("weights", "models 0 P 0", [], r"shape \(layers, heads, p, p\).* - at `\$.models\[0\].P`"),
    "text for a weight": ("weights", "models 0 P 0 0 0 0", "1.5", r"shape \(layers, heads, p, p\)"),
    "a huge weight": ("weights", "models 0 Q 0 0 0 0", 1e31, r"none beyond 1e\+30 - at `\$.models\[0\].Q`"),
    "no result": ("shift", "predictors 0", "LASSO", "Expected a result of LASSO under none, got none"),
    "a negative loss": ("shift", "scenarios 0 results AdaRR loss", -0.5, "loss of AdaRR >= 0, got -0.5"),
    "a negative error": ("shift", "scenarios 0 results AdaRR ratio_error", -1, "ratio_error of AdaRR >= 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place(name: str, tmp_path: Path) -> None:
    record, words, value, message = WRONG[name]
    path = tuple(int(word) if word.isdigit() else word for word in words.split())
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    file = tmp_path / f"{record}.json"
    file.write_text(json.dumps(changed(smallest(record), path, value)))
    with pytest.raises(InputError, match=message.replace("{place}", re.escape(f"`${place}`"))) as caught:
        getattr(read_results(tmp_path), record)
    assert one_sentence(caught.value).startswith(f"{file}: ")


@pytest.mark.parametrize("record", RECORDS)
def test_field_that_is_missing_is_named(record: str, tmp_path: Path) -> None:
    values = smallest(record)
    name = next(name for name in LISTS if name in values)
    del values[name]
    (tmp_path / f"{record}.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=f"missing required field `{name}`"):
        getattr(read_results(tmp_path), record)


def test_excess_over_the_reference_may_be_negative(tmp_path: Path) -> None:
    values = changed(smallest("shift"), ("scenarios", 0, "results", "AdaRR", "excess"), -0.5)
    (tmp_path / "shift.json").write_text(json.dumps(values))
    assert read_results(tmp_path).shift.scenarios[0].results["AdaRR"].excess == -0.5


def test_weights_of_two_shapes_are_refused_where_they_are_made_too() -> None:
    first = made_up("weights").models[0]
    with pytest.raises(InputError, match="P and Q of one shape"):
        ModelWeights("full", first.P, first.Q[:1])


FILES = {
    "empty": b"",
    "cut off": b'{"record": "shift", "predictors": [',
    "not text": b"\xff\xfe\x00",
    "NaN": b'{"record": "shift", "sequences": NaN}',
    "infinity": b'{"record": "shift", "sequences": -Infinity}',
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "another record": b'{"record": "training", "curves": []}',
    "digits": b'{"record": "shift", "sequences": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("name", FILES)
def test_file_that_is_no_record_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "shift.json").write_bytes(FILES[name])
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "shift.json"))) as caught:
        _ = read_results(tmp_path).shift
    assert is_short(caught.value)
    assert not isinstance(caught.value, MissingRecordError)


def is_short(error: Exception) -> bool:
    """One line, which may end with a command to copy."""
    return "\n" not in str(error) and len(str(error)) < 400


def test_file_that_is_too_large_or_a_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_module, "_MOST_BYTES", 1000)
    write_results(tmp_path)
    with refusal("is larger than"):
        _ = read_results(tmp_path).shift
    (tmp_path / "shift.json").unlink()
    (tmp_path / "shift.json").mkdir()
    with refusal("Cannot read"):
        _ = read_results(tmp_path).shift


@pytest.mark.parametrize("folder", ["nowhere", "a" * 5000, "null\0byte"])
def test_folder_that_is_not_there_is_one_sentence_with_the_command(folder: str) -> None:
    with pytest.raises(MissingRecordError, match="ridgeformer reproduce --out ") as caught:
        read_results(folder)
    assert is_short(caught.value)
