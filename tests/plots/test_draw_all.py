"""Drawing a whole results folder: files, formats, what is passed over and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_up_results import RECORDS, made_up, write_results
from ridgeformer.core.validation import InputError
from ridgeformer.plots import FIGURES, draw_all
from ridgeformer.plots.style import FORMATS, save_figure
from ridgeformer.reproduction.records import ProfilesRecord, TrainingRecord
from ridgeformer.reproduction.results import MissingRecordError, read_results
from ridgeformer.reproduction.table1 import Table1
from support import one_sentence

STARTS = {".pdf": b"%PDF", ".svg": b"<?xml", ".png": b"\x89PNG"}


def test_figures_are_written_in_every_format_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r"))
    seen: list[str] = []
    first = draw_all(results, tmp_path / "a", FORMATS, ["shift"], seen.append)
    second = draw_all(read_results(tmp_path / "r"), tmp_path / "b", FORMATS, ["shift"])
    assert seen == ["shift"] == [written.name for written in first]
    for one, other in zip(first, second, strict=True):
        assert [path.name for path in one.paths] == [f"figure-{one.name}.{suffix}" for suffix in FORMATS]
        for path, again in zip(one.paths, other.paths, strict=True):
            data = path.read_bytes()
            assert data.startswith(STARTS[path.suffix])
            assert data == again.read_bytes()
    assert len(list((tmp_path / "a").iterdir())) == len(FORMATS)


def test_control_different_records_give_different_files(tmp_path: Path) -> None:
    values = made_up("shift").as_json()
    values["scenarios"][0]["results"]["AdaRR"]["ratio"] = 1.01
    files = [
        draw_all(read_results(write_results(folder, **other)), folder / "out", ("svg",), ["shift"])[0].paths[0]
        for folder, other in ((tmp_path / "a", {}), (tmp_path / "b", {"shift": values}))
    ]
    assert files[0].read_bytes() != files[1].read_bytes()


def test_figures_without_a_record_are_passed_over_with_the_command_that_makes_it(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r", *(record for record in RECORDS if record != "shift")))
    written = {found.name: found for found in draw_all(results, tmp_path / "out", ("svg",))}
    assert list(written) == list(FIGURES)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["figure-shift.svg"]
    for name, found in written.items():
        assert (found.paths == ()) == (name != "shift")
        assert name == "shift" or "make it with: ridgeformer reproduce" in found.notes[0]


def test_figure_asked_for_by_name_must_have_its_record(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r", "training"))
    with pytest.raises(MissingRecordError, match=r"There is no training\.json"):
        draw_all(results, tmp_path / "out", ("svg",), ["training"])


def test_folder_with_no_record_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingRecordError, match=r"There is no table1\.json"):
        draw_all(read_results(tmp_path), tmp_path / "out", ("svg",))


def test_damaged_record_is_an_error_whatever_was_asked_for(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r"))
    (tmp_path / "r" / "table1.json").write_text("{")
    with pytest.raises(InputError, match="is cut off or is not JSON"):
        draw_all(results, tmp_path / "out", ("svg",))


@pytest.mark.parametrize(
    ("formats", "names", "sentence"),
    [
        (("gif",), None, "format must be one of"),
        (("svg",), ["8"], "figure must be one of"),
        (("svg",), ["trainin"], "Did you mean 'training'?"),
        ((), None, "Name at least one format"),
    ],
)
def test_unknown_formats_and_figures_are_one_sentence_before_anything_is_written(
    formats: tuple[str, ...], names: list[str] | None, sentence: str, tmp_path: Path
) -> None:
    results = read_results(write_results(tmp_path / "r"))
    with pytest.raises(InputError) as caught:
        draw_all(results, tmp_path / "out", formats, names)
    assert sentence in one_sentence(caught.value)
    assert not (tmp_path / "out").exists()


def test_file_in_the_way_of_the_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        draw_all(read_results(write_results(tmp_path / "r")), tmp_path / "file" / "out", ("svg",), ["shift"])
    assert str(tmp_path / "file" / "out") in one_sentence(caught.value)


# --- hostile but well-formed records ----------------------------------------------------------------------------------


def wild_table() -> dict[str, Any]:
    table: Table1 = made_up("table1")
    losses = (0.0, math.inf, 1e300, 1e-300)
    entries = tuple(
        replace(entry, adjusted_loss=losses[k % 4], standard_error=losses[(k + 1) % 4], bayes_ratio=losses[(k + 2) % 4])
        for k, entry in enumerate(table.entries)
    )
    return replace(table, entries=entries, sequences=10**15).as_json()


def wild_profiles() -> dict[str, Any]:
    record: ProfilesRecord = made_up("profiles")
    panels = [
        replace(p, series=tuple(replace(s, adjusted=(math.inf,) * len(p.levels)) for s in p.series))
        for p in record.panels
    ]
    return replace(record, panels=tuple(panels)).as_json()


def wild_training() -> dict[str, Any]:
    record: TrainingRecord = made_up("training")
    curves = (replace(record.curves[0], final_seconds=1e308, final=math.inf), *record.curves[1:])
    return TrainingRecord(curves).as_json()


def wild_names() -> dict[str, Any]:
    values: dict[str, Any] = made_up("weights").as_json()
    values["models"] = [values["models"][0] | {"name": r"$\frac{1}$ <script> %s \alpha $"}]
    return values


def wild_shift() -> dict[str, Any]:
    values: dict[str, Any] = made_up("shift").as_json()
    hostile = r"$x_{$ <b>"
    values["predictors"][0] = hostile
    for scenario in values["scenarios"]:
        scenario["results"][hostile] = scenario["results"].pop("GD++ 7") | {"ratio": 1e300, "ratio_error": None}
        scenario["spec"] = r"$\unknown$ {}{0}:1"
    return values


WILD = {
    "1": ("table1", wild_table),
    "bayes": ("table1", wild_table),
    "depth": ("table1", wild_table),
    "2": ("profiles", wild_profiles),
    "training": ("training", wild_training),
    "4": ("weights", wild_names),
    "shift": ("shift", wild_shift),
}


@pytest.mark.parametrize("name", WILD)
def test_wild_but_readable_records_are_drawn(name: str, tmp_path: Path) -> None:
    record, make = WILD[name]
    results = read_results(write_results(tmp_path / "r", **{record: make()}))
    (written,) = draw_all(results, tmp_path / "out", ("svg",), [name])
    text = written.paths[0].read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "<b>" not in text


def test_save_figure_refuses_an_unknown_format(tmp_path: Path) -> None:
    figure = FIGURES["4"](read_results(write_results(tmp_path))).figure
    with pytest.raises(InputError, match="format must be one of svg, png, pdf"):
        save_figure(figure, tmp_path, "x", ("gif",))
