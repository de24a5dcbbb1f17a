"""``ridgeformer reproduce``: a small part of Table 1 trained from scratch, interrupted, and what is refused."""

from __future__ import annotations

import csv
import os
import signal
import time
from pathlib import Path

import baseline_page
import pytest
from running import read_json, refuses, ridgeformer, start, succeeds, wait_for

import ridgeformer as rf
from ridgeformer.baselines import ConstRR, TunedRR
from ridgeformer.cli.reproduce import reproduce
from ridgeformer.reproduction.table1 import Table1

SMALL = (
    *("reproduce", "--train", "--models", "gdpp", "--columns", "uniform:5", "--no-report"),
    *("--seeds", 0, "--sequences", 2000),
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The smallest part of Table 1, and what was printed."""
    out = tmp_path_factory.mktemp("reproduction") / "new"
    return out, succeeds(*SMALL, "--layers", 1, "--out", out)


def test_small_selection_is_trained_measured_and_written_in_four_forms(small: tuple[Path, str]) -> None:
    out, text = small
    assert {path.name for path in out.iterdir()} >= {"runs", "table1.json", "table1.csv", "table1.md", "table1.tex"}
    table = Table1.from_json(read_json(out / "table1.json"))
    assert table.rows == (("gdpp", 1, 1), *((name, None, 1) for name in ("constrr", "adarr", "tunedrr", "bayes")))
    assert (table.columns, table.sequences) == (("uniform:5",), 2000)
    model = rf.load(out / "runs" / "gdpp-1-uniform-5" / "model.safetensors")
    expected = rf.evaluate(model, rf.Task(noise="uniform:5"), 2000, seed=1)
    found = table.entry("gdpp", 1, "uniform:5")
    assert found is not None
    assert found.adjusted_loss == pytest.approx(expected.adjusted_loss, rel=1e-5)  # float32 contexts in `evaluate`
    rows = list(csv.DictReader((out / "table1.csv").read_text().splitlines()))
    assert [float(row["adjusted_loss"]) for row in rows] == [entry.adjusted_loss for entry in table.entries]
    assert "| GD++ 1 |" in (out / "table1.md").read_text(encoding="utf-8")
    assert r"\end{tabular}" in (out / "table1.tex").read_text(encoding="utf-8")
    assert "Of 1 trained models" in text
    assert f"Written: {out / 'table1.json'}, " in text


def test_second_run_keeps_the_models_and_gives_the_same_table(small: tuple[Path, str]) -> None:
    out, text = small
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*") if path.is_file()}
    record = (out / "table1.json").read_bytes()
    assert succeeds(*SMALL, "--layers", 1, "--out", out) == text
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*") if path.is_file()} == before
    assert (out / "table1.json").read_bytes() == record


def test_damaged_model_of_a_finished_run_is_one_sentence(small: tuple[Path, str], tmp_path: Path) -> None:
    run = tmp_path / "runs" / "gdpp-1-uniform-5"
    run.mkdir(parents=True)
    for path in (small[0] / "runs" / run.name).iterdir():
        if path.is_file():
            (run / path.name).write_bytes(path.read_bytes()[: 40 if path.name == "model.safetensors" else None])
    done = ridgeformer(*SMALL, "--layers", 1, "--out", tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"ridgeformer: {run / 'model.safetensors'} ")
    assert "Traceback" not in done.stderr


def test_cells_that_fail_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "gdpp-1-uniform-5").write_text("in the way")
    done = ridgeformer(*SMALL, "--layers", 2, "--out", tmp_path)
    assert done.returncode == 2
    first, last = done.stderr.splitlines()
    assert first.startswith("ridgeformer: gdpp-1-uniform-5: Cannot write ")
    assert last == "ridgeformer: 2 of 2 models were not trained: gdpp-1-uniform-5, gdpp-2-uniform-5."
    assert not (tmp_path / "table1.json").exists()


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
    assert err == f"ridgeformer: Stopped; all finished models are in {runs}. The same command goes on from there.\n"
    with pytest.raises(ProcessLookupError):  # nobody is left in the group
        os.killpg(process.pid, 0)


def has_worker(parent: int) -> bool:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return any("ridgeformer.reproduction.worker" in Path(f"/proc/{child}/cmdline").read_text() for child in children)


def test_ctrl_c_while_workers_start_is_one_sentence_too(tmp_path: Path) -> None:
    process = start(*SMALL, "--layers", 1, "--out", tmp_path, group=True)
    assert wait_for(lambda: has_worker(process.pid))
    time.sleep(0.05)  # long enough for an interpreter to come up, far too short to import NumPy
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.count("\n") == 1


REFUSED = {
    "unknown column": (("--columns", "unifrom:5"), "Did you mean 'uniform:5'?"),
    "unknown model": (("--models", "dig"), "Did you mean 'diag'?"),
    "nine layers": (("--layers", "9"), "layers must be between 1 and 8"),
    "no workers": (("--workers", "0"), "workers must be at least 1"),
    "one sequence": (("--sequences", "1"), "sequences must be at least 2"),
    "baselines on one sequence": (("--baselines", "--sequences", "1"), "sequences must be at least 2"),
    "a file for a folder": (("--out", "file"), "Cannot write file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    arguments, hint = REFUSED[name]
    refuses(capsys, hint, "reproduce", "--train", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_zoo_without_a_wanted_model_says_how_to_train_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeformer.zoo.zoo_names", lambda: ())
    with pytest.raises(rf.InputError, match=r"The zoo has no gdpp-1-uniform-5; train it with: ridgeformer reproduce"):
        reproduce(models=("gdpp",), layers=(1,), columns=("uniform:5",), seeds=(0,), out=tmp_path)


def test_selection_without_seed_0_shows_its_models(small: tuple[Path, str], tmp_path: Path) -> None:
    text = succeeds(*SMALL[:-4], "--seeds", 1, "--sequences", 500, "--layers", 1, "--out", tmp_path)
    assert "GD++ 1" in text


def test_baselines_print_both_tables_and_write_json_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ConstRR, "tuned", lambda task: ConstRR(2.0))  # tuning takes seconds for each of ten priors
    monkeypatch.setattr(TunedRR, "tuned", lambda task: TunedRR(1.0, 9.0))
    monkeypatch.setattr(baseline_page, "iterations_needed", lambda task: 7)
    page, file = tmp_path / "page.md", tmp_path / "b.json"
    marks = [f"<!-- {end} {name} -->" for name in ("baseline cells", "Bayes limits") for end in ("begin", "end")]
    page.write_text("\n".join(["first", *marks, "last"]))
    assert reproduce(baselines=True, sequences=60, json=file, markdown=page) == 0
    text = capsys.readouterr().out
    assert "Baselines of Table 1 on 60 sequences" in text
    assert "The Bayes limit on 30 sequences" in text
    assert len(read_json(file)["cells"]) == 30
    found = page.read_text(encoding="utf-8")
    assert found.startswith("first\n<!-- begin baseline cells -->\n\nOn 60 sequences:")
    assert found.endswith("<!-- end Bayes limits -->\nlast")


def test_zoo_is_measured_beside_a_model_trained_live_and_the_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[tuple[object, ...]] = []
    monkeypatch.setattr("ridgeformer.cli.reproduce.run_training", lambda *settings, **more: trained.append(settings))
    few = {"models": ("gdpp",), "layers": (7,), "columns": ("uniform:5",), "seeds": (0,)}
    assert reproduce(**few, out=tmp_path, sequences=500) == 0  # type: ignore[arg-type]
    assert [place for _, place in trained] == [tmp_path / "live" / "diag-4-uniform-5"]
    assert Table1.from_json(read_json(tmp_path / "table1.json")).entry("gdpp", 7, "uniform:5")
    assert {path.stem for path in tmp_path.glob("*.json")} >= {"table1", "claims", "profiles", "readouts", "shift"}
    page = tmp_path / "report" / "index.html"
    assert f"Page: {page}" in capsys.readouterr().out.replace("\n", "")
    assert page.exists()
