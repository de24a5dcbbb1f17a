"""The parts of docs/reproduction.md about the paper's protocol and rare large losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
import tails_page
from measure_tails import SEED, Beyond, ModelTail, Tail, TailsRecord
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.zoo import load
from tails_page import read_protocol, tails_text
from write_docs import main

PAGE = "before <!-- begin protocol --><!-- end protocol --> <!-- begin tails --><!-- end tails --> after"


def made_up_run(folder: Path, kind: str, layers: int, finished: bool = True) -> None:
    directory = RunDirectory(folder / f"{kind}-{layers}-uniform:5")
    directory.create(TrainConfig(kind=kind, layers=layers, recipe="paper", sequences=1000), overwrite=False)
    if finished:
        evaluation = {"adjusted_loss": 0.25, "standard_error": 0.002, "sequences": 100_000}
        result = {"status": "finished", "evaluation": evaluation, "steps": 200_000, "skipped": 5, "rewinds": 3}
        directory.finish(load(f"{kind}-{layers}-uniform-5"), result)


def test_protocol_has_a_row_for_each_finished_run_and_is_written_again_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, page, record = tmp_path / "runs", tmp_path / "page.md", tmp_path / "protocol.json"
    page.write_text(PAGE, encoding="utf-8")
    made_up_run(runs, "full", 2, finished=False)
    to_files = ["--record", str(record), "--page", str(page)]
    assert main(["protocol", str(runs), *to_files]) == 2
    assert "no finished runs" in capsys.readouterr().err
    made_up_run(runs, "diag", 2)
    (runs / "log").write_text("not a run")
    diverged = RunDirectory(runs / "diag-7-uniform:5")
    diverged.create(TrainConfig(kind="diag", layers=7, recipe="paper"), overwrite=False)
    diverged.finish(load("diag-7-uniform-5"), {"status": "diverged", "steps": 900, "skipped": 80, "rewinds": 8})
    RunDirectory(runs / "fast").create(TrainConfig(kind="diag", layers=2), overwrite=False)
    RunDirectory(runs / "fast").finish(load("diag-2-uniform-5"), {"status": "finished"})
    assert main(["protocol", str(runs), "--tail-sequences", "2000", *to_files]) == 0
    text = page.read_text(encoding="utf-8")
    tail = rf.evaluate(load("diag-2-uniform-5"), "uniform:5", 2000, seed=SEED)
    assert "Losses on 100,000 sequences" in text
    assert f"| DIAG 2 | U5 | 200,000 | 0.250 ± 0.002 | 0.242 | 0.242 | {tail.maximum:.3g} | " in text
    assert text.count("\n| ") == 3
    assert "exploded however small their steps were: diag-7-uniform:5." in text
    assert text.partition("| DIAG 2")[2].splitlines()[0].endswith(" | 3 |")

    def refuse(*_: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(tails_page, "measure_tail", refuse)
    for again in ([], [str(runs), "--tail-sequences", "2000"]):
        page.write_text(PAGE, encoding="utf-8")
        assert main(["protocol", *again, *to_files]) == 0
        assert page.read_text(encoding="utf-8") == text
    assert [(run.kind, run.rewinds) for run in read_protocol(record).runs] == [("diag", 3)]


def made_up_model(name: str, largest: float, beyond: tuple[Beyond, ...] = ()) -> ModelTail:
    kind, layers, *_ = name.split("-")
    tail = Tail(0.1, 0.01, largest, 12_345 if largest > 10 else 0, 2 if largest > 100 else 0)
    return ModelTail(name, kind, int(layers), "digest", SEED, tail, beyond)


def test_tails_are_counted_by_depth_and_the_bad_ones_are_named(tmp_path: Path) -> None:
    fine, worse = (Beyond((5.0, 5.5), losses, (0.8, 1.2)) for losses in ((0.1, 0.2), (0.1, float("inf"))))
    models = (
        made_up_model("gdpp-1-uniform-5", 15.0),
        made_up_model("diag-1-uniform-5", 16.0),
        made_up_model("diag-2-uniform-5", 170.0),
        made_up_model("diag-2-uniform-6", 280.0, (worse,)),
        made_up_model("full-7-uniform-5", 10.0, (fine,)),
        made_up_model("full-7-uniform-6", 50.0, (fine,)),
        made_up_model("full-7-uniform-7", float("inf"), (worse,)),
        made_up_model("diag-7-registers-1-uniform-5", 2.5, (fine,)),
        made_up_model("diag-12-registers-2-uniform-5", 11.0, (fine,)),
    )
    record, page = tmp_path / "tails.json", tmp_path / "page.md"
    TailsRecord(10_000_000, 20_000, models).save(record)
    page.write_text(PAGE, encoding="utf-8")
    assert main(["tails", "--record", str(record), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "9 models, each on 10,000,000 fresh sequences" in text
    for row in ("| 1 | 2 | 0 | 2 | 0 |", "| 2 | 2 | 0 | 0 | 2 |", "| 7 | 3 | 1 | 1 | 1 |", "| 7 | 1 | 1 | 0 | 0 |"):
        assert row in text
    assert "2 of 3 models with three layers or more have a loss above 10. These are:" in text
    bad = [line for line in text.splitlines() if line.startswith("| `")]
    assert bad == [
        "| `full-7-uniform-7` | 0.1 | ∞ | 12,345 | 2 |",
        "| `full-7-uniform-6` | 0.1 | 50 | 12,345 | 0 |",
        "| `full-7-uniform-7` | 5.5 | ∞ | 1.2 |",
        "| `diag-12-registers-2-uniform-5` | 0.1 | 11 | 12,345 | 0 |",
    ]
    closest = [line for line in text.splitlines() if line.startswith("| U5 | `")]
    assert len(closest) == 1
    assert closest[0].startswith("| U5 | `diag-12-registers-2-uniform-5` | 240 | 1.0")
    assert closest[0].endswith("× | 11 | 12,345 | 0 |")
    assert "* DIAG, one layer: 1 models, largest losses from 16 to 16, " in text
    assert "two layers: 2 models, largest losses from 170 to 280, at most 12,345 above 10 and 2 above 100." in text
    assert "1 of them is worse" in text


def test_nothing_bad_is_said_in_a_sentence() -> None:
    fine = (Beyond((5.0,), (0.1,), (0.8,)),)
    text = tails_text(TailsRecord(1000, 100, (made_up_model("full-7-uniform-5", 3.0, fine),)))
    assert "None of the 1 models with three layers or more has a loss above 10." in text
    assert "None of them is worse there than the GD++ model" in text
