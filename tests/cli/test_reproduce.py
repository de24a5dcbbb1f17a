"""``ridgeformer reproduce``: a small part of Table 1 trained from scratch, interrupted, and what is refused."""

from __future__ import annotations

import csv
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
import ridgeformer.cli.reproduce as command
from clusters import cluster
from ridgeformer.cli.main import main
from ridgeformer.cli.report import report
from ridgeformer.cli.reproduce import reproduce
from ridgeformer.reproduction import baseline_check
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.table1 import Row, Table1
from ridgeformer.training import StepInfo
from running import Capture, Patch, leave_untuned, read_json, refuses, start, succeeds, wait_for

SMALL = (
    *("reproduce", "--train", "--models", "gdpp", "--columns", "uniform:5", "--no-report"),
    *("--seeds", 0, "--sequences", 2000),
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest part of Table 1."""
    out = tmp_path_factory.mktemp("reproduction") / "new"
    with pytest.raises(SystemExit) as left:
        main([*map(str, SMALL), "--layers", "1", "--out", str(out)])
    assert left.value.code == 0
    return out


def test_training_on_a_cluster_gives_the_same_models(small: Path, tmp_path: Path, capsys: Capture) -> None:
    with cluster(tmp_path / "cluster", 1) as running:
        out = tmp_path / "out"
        succeeds(capsys, *SMALL, "--layers", 1, "--out", out, "--cluster", running.address)
    model = Path("runs", "gdpp-1-uniform-5", "model.safetensors")
    assert (out / model).read_bytes() == (small / model).read_bytes()


def test_small_selection_is_trained_measured_and_written_in_four_forms(small: Path) -> None:
    assert {path.name for path in small.iterdir()} >= {"runs", "table1.json", "table1.csv", "table1.md", "table1.tex"}
    table = Table1.from_json(read_json(small / "table1.json"))
    assert table.rows == (Row("gdpp", 1), *map(Row, ("constrr", "adarr", "tunedrr", "bayes")))
    assert (table.columns, table.sequences) == (("uniform:5",), 2000)
    model = rf.load(small / "runs" / "gdpp-1-uniform-5" / "model.safetensors")
    expected = rf.evaluate(model, rf.Task(noise="uniform:5"), 2000, seed=1)
    entry = table.entry("gdpp", 1, "uniform:5")
    assert entry is not None
    assert entry.adjusted_loss == pytest.approx(expected.adjusted_loss, rel=1e-5)  # float32 contexts in `evaluate`
    rows = list(csv.DictReader((small / "table1.csv").read_text().splitlines()))
    assert [float(row["adjusted_loss"]) for row in rows] == [entry.adjusted_loss for entry in table.entries]
    assert "| GD++ 1 |" in (small / "table1.md").read_text(encoding="utf-8")
    assert r"\end{tabular}" in (small / "table1.tex").read_text(encoding="utf-8")


def test_second_run_keeps_the_models_and_gives_the_same_table(small: Path, capsys: Capture) -> None:
    before = {path: path.stat().st_mtime_ns for path in (small / "runs").rglob("*") if path.is_file()}
    record = (small / "table1.json").read_bytes()
    text = succeeds(capsys, *SMALL, "--layers", 1, "--out", small)
    assert "GD++ 1" in text
    assert f"Tables and records: {small}." in text
    assert {path: path.stat().st_mtime_ns for path in (small / "runs").rglob("*") if path.is_file()} == before
    assert (small / "table1.json").read_bytes() == record


def test_damaged_model_of_a_finished_run_is_one_sentence(small: Path, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "runs" / "gdpp-1-uniform-5"
    run.mkdir(parents=True)
    for path in (small / "runs" / run.name).iterdir():
        if path.is_file():
            (run / path.name).write_bytes(path.read_bytes()[: 40 if path.name == "model.safetensors" else None])
    refuses(capsys, f"ridgeformer: {run / 'model.safetensors'} ", *SMALL, "--layers", 1, "--out", tmp_path)


def test_folder_of_a_cell_with_something_else_is_refused_before_anything_is_trained(
    tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "gdpp-1-uniform-5").write_text("in the way")
    refuses(capsys, "gdpp-1-uniform-5 holds something other than this cell", *SMALL, "--layers", 2, "--out", tmp_path)
    assert not (tmp_path / "table1.json").exists()


@pytest.mark.parametrize(
    ("arguments", "count"), [({}, 161), ({"beyond": False}, 0), ({"layers": (4,)}, 0), ({"kinds": ("gdpp", "full")}, 0)]
)
def test_models_with_registers_are_beyond_the_paper(
    arguments: dict[str, Any], count: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    asked: list[Cell] = []

    def none(cells: Sequence[Cell]) -> None:
        asked.extend(cells)
        raise rf.InputError("There are no models.")

    monkeypatch.setattr(command, "_from_zoo", none)
    with pytest.raises(rf.InputError, match="no models"):
        reproduce(out=tmp_path, **arguments)
    assert sum(cell.registers > 0 for cell in asked) == count
    assert len(asked) == len({cell.name for cell in asked})


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_while_training_is_one_sentence_with_exit_code_130(tmp_path: Path) -> None:
    """The signal goes to the whole process group, as from a terminal: workers must not answer it with a traceback."""
    process = start(*SMALL, "--layers", 3, "--workers", 1, "--out", tmp_path, group=True)
    assert wait_for((tmp_path / "runs" / "gdpp-1-uniform-5" / "config.json").exists)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    runs = tmp_path / "runs"
    assert err.startswith(
        f"ridgeformer: Stopped; all cells are saved in {runs}, 0 of 3 finished. The same command continues"
    )
    assert err.count("\n") == 1
    assert wait_for(lambda: not group_lives(process.pid), 10)  # nobody is left


def group_lives(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def has_worker(parent: int) -> bool:
    return bool(Path(f"/proc/{parent}/task/{parent}/children").read_text().split())


def test_ctrl_c_while_workers_start_is_one_sentence_too(tmp_path: Path) -> None:
    process = start(*SMALL, "--layers", 1, "--out", tmp_path, group=True)
    assert wait_for(lambda: has_worker(process.pid))
    time.sleep(0.05)  # long enough for an interpreter to come up, far too short to import NumPy
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.count("\n") == 1


def test_live_training_that_was_stopped_goes_on_when_run_again(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    live = replace(command._LIVE, layers=1, steps=400, batch=16, recipe="paper", dim=3, examples=6, sequences=300)
    monkeypatch.setattr(command, "_LIVE", live)

    def stop(info: StepInfo) -> None:
        if info.total == 250:
            raise KeyboardInterrupt

    folder = tmp_path / "diag-1-uniform-5"
    with pytest.raises(rf.RidgeformerError, match="Stopped at step 250"):
        rf.train(live, out=folder, callbacks=[stop])
    command._train_live(tmp_path)
    assert "Continuing diag, 1 layers" in capsys.readouterr().out
    assert read_json(folder / "result.json")["steps"] == 400
    command._train_live(tmp_path)  # finished: it is trained again, for the user to see
    assert "Training diag, 1 layers" in capsys.readouterr().out


REFUSED = {
    "unknown column": (("--train", "--columns", "unifrom:5"), "Did you mean 'uniform:5'?"),
    "unknown kind": (("--train", "--kinds", "dig"), "Did you mean 'diag'?"),
    "nine layers": (("--train", "--layers", "9"), "layers must be between 1 and 8"),
    "no workers": (("--train", "--workers", "0"), "workers must be at least 1"),
    "workers without training": (("--workers", "2"), "leave out --workers"),
    "a cluster without training": (("--cluster", "slurm"), "leave out --cluster"),
    "one sequence": (("--train", "--sequences", "1"), "sequences must be at least 2"),
    "negative seed": (("--train", "--seeds", "-1"), "seed must be"),
    "baselines on one sequence": (("--baselines", "--sequences", "1"), "sequences must be at least 2"),
    "baselines and training": (("--train", "--baselines"), "leave out --train"),
    "baselines and a folder": (("--baselines", "--out", "there"), "leave out --out"),
    "baselines without report": (("--baselines", "--no-report"), "leave out --no-report"),
    "baselines into no folder": (("--baselines", "--json", "nowhere/b.json"), "no folder"),
    "json of models": (("--json", "r.json"), "leave out --json"),
    "a file for a folder": (("--train", "--out", "file"), "Cannot write file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence(name: str, tmp_path: Path, capsys: Capture) -> None:
    Path("file").write_text("")
    arguments, hint = REFUSED[name]
    refuses(capsys, hint, "reproduce", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_zoo_without_a_wanted_model_says_how_to_train_it(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(command, "zoo_names", lambda: ())
    with pytest.raises(rf.InputError, match=r"The zoo has no gdpp-1-uniform-5; train it with: ridgeformer reproduce"):
        reproduce(kinds=("gdpp",), layers=(1,), columns=("uniform:5",), seeds=(0,), out=tmp_path)


def test_baselines_print_both_tables_and_write_json(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    leave_untuned(monkeypatch)
    monkeypatch.setattr(baseline_check, "iterations_needed", lambda task: 7)
    monkeypatch.setenv("COLUMNS", "80")
    text = succeeds(capsys, "reproduce", "--baselines", "--sequences", 60, "--json", tmp_path / "b.json")
    assert "Baselines of Table 1 on 60 sequences" in text
    assert "The Bayes limit on 30 sequences" in text
    cells = read_json(tmp_path / "b.json")["cells"]
    assert len(cells) == 30
    assert all(f"{cell['measured']:.5f}" in text for cell in cells)


def test_zoo_is_measured_beside_a_model_trained_live_and_the_page_is_written(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    trained: list[tuple[object, ...]] = []
    monkeypatch.setattr(command, "run_training", lambda *settings, **more: trained.append(settings))
    monkeypatch.setattr(command, "write_report", lambda out: report(out, formats=("svg",), figures=("2", "shift")))
    few = {"kinds": ("gdpp",), "layers": (7,), "columns": ("uniform:5",), "seeds": (0,)}
    reproduce(**few, out=tmp_path, sequences=500)  # type: ignore[arg-type]
    assert [place for _, place in trained] == [tmp_path / "live" / "diag-4-uniform-5"]
    assert Table1.from_json(read_json(tmp_path / "table1.json")).entry("gdpp", 7, "uniform:5")
    assert {path.stem for path in tmp_path.glob("*.json")} >= {"table1", "claims", "profiles", "readouts", "shift"}
    page = tmp_path / "report" / "index.html"
    assert f"Page: {page}" in capsys.readouterr().out.replace("\n", "")
    assert page.exists()
