"""``ridgeformer train``: files, flags, refusals, what is shown, and Ctrl-C in a real process."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer.cli.train import TrainingDisplay
from ridgeformer.training import StepInfo
from ridgeformer.training.config import TrainConfig
from running import Capture, Patch, read_json, refuses, start, succeeds, wait_for

SMALL = ("--kind", "diag", "--layers", 2, "--dim", 3, "--examples", 6, "--recipe", "paper", "--batch", 16)
QUICK = (*SMALL, "--steps", 30, "--sequences", 300)
# Half a second, so that a signal after the first hundred steps arrives in the midst of it.
LONG = (*SMALL, "--steps", 3000, "--sequences", 300)
FILES = ("config.json", "history.jsonl", "model.safetensors", "result.json")


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_run_with_everything_leaves_its_files_json_and_tensorboard_log(tmp_path: Path, capsys: Capture) -> None:
    out, file, board = tmp_path / "run", tmp_path / "r.json", tmp_path / "board"
    text = succeeds(capsys, "train", *QUICK, "--out", out, "--json", file, "--tensorboard", board, "--threads", 1)
    model = rf.load(out / "model.safetensors")
    result, asked = read_json(out / "result.json"), read_json(out / "config.json")
    del asked["sha256"], result["sha256"]
    assert read_json(file) == {"config": asked, **result}
    assert (asked["layers"], asked["steps"], asked["dim"]) == (2, 30, 3)
    assert model.info["training"] == asked
    again = rf.train(TrainConfig.from_json(asked), threads=2)
    assert again.evaluation.adjusted_loss == result["evaluation"]["adjusted_loss"]
    assert f"{again.evaluation.adjusted_loss:.4g}" in text
    assert f"Files: {out / 'model.safetensors'}, " in text
    assert f"ridgeformer evaluate {out / 'model.safetensors'} --baselines --profile" in text
    (log,) = board.iterdir()
    assert b"smoothed" in log.read_bytes()
    as_it_says = succeeds(capsys, "evaluate", out / "model.safetensors", "--sequences", 100)
    assert "σ ~ uniform:5, d = 3, n = 6" in as_it_says


def test_run_without_out_is_kept_in_a_new_folder_each_time(capsys: Capture) -> None:
    Path("runs").mkdir()
    Path("runs/diag-2-uniform-5").write_text("in the way")
    for number in (2, 3):
        folder = Path(f"runs/diag-2-uniform-5-{number}")
        assert f"Files: {folder / 'model.safetensors'}, " in succeeds(capsys, "train", *QUICK)
        assert rf.load(folder / "model.safetensors").layers == 2
    succeeds(capsys, "train", *QUICK, "--seed", 4, "--noise", "categorical:1+3")
    assert Path("runs/diag-2-categorical-1+3-seed-4/result.json").exists()


def test_run_into_a_folder_that_holds_one_is_refused_unless_told_to_overwrite(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "run"
    succeeds(capsys, "train", *QUICK, "--out", out)
    before = contents(out)
    text = refuses(capsys, f"ridgeformer train --resume {out}", "train", *QUICK, "--seed", 1, "--out", out)
    assert "--overwrite" in text
    assert contents(out) == before
    succeeds(capsys, "train", *QUICK, "--seed", 1, "--out", out, "--overwrite")
    assert read_json(out / "config.json")["seed"] == 1
    assert contents(out)["model.safetensors"] != before["model.safetensors"]


@pytest.mark.parametrize("form", [["--config", "c.json"], ["--config=c.json"]])
def test_config_file_is_what_flags_start_from_and_former_names_still_work(
    form: list[str], monkeypatch: Patch, capsys: Capture
) -> None:
    asked: list[TrainConfig] = []

    monkeypatch.setattr("ridgeformer.cli.train.run_training", lambda config, *more: asked.append(config))
    Path("c.json").write_text('{"model": "diag", "layers": 1, "dim": 3, "context": 6, "recipe": "paper", "batch": 4}')
    succeeds(capsys, "train", *form, "--layers", 3, "--sequences", 50)
    succeeds(capsys, "train", "--model=gdpp", "--context", 7)
    expected = TrainConfig("diag", 3, dim=3, examples=6, recipe="paper", batch=4, sequences=50)
    assert asked == [expected, TrainConfig("gdpp", examples=7)]


REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "unknown name in a config": (("--config", "bad.json"), "Did you mean 'layers'?"),
    "config that is not there": (("--config", "none.json"), "There is no file 'none.json'"),
    "config that is no JSON": (("--config", "broken.json"), "broken.json is not JSON"),
    "unknown kind": (("--kind", "ful"), "Did you mean 'full'?"),
    "unknown recipe": (("--recipe", "papre"), "Did you mean 'paper'?"),
    "unknown noise": (("--noise", "unifrom:5"), "noise prior"),
    "own noise that is not there": (("--noise", "no_such_module:Prior(1)"), "Cannot import no_such_module"),
    "no layers": (("--layers", 0), "layers must be"),
    "start that is not there": (("--start", "nowhere.safetensors"), "nowhere.safetensors"),
    "nothing to resume": (("--resume", "nowhere"), "holds no run to continue"),
    "resume and out": (("--resume", "a", "--out", "b"), "leave out --out"),
    "resume and overwrite": (("--resume", "a", "--overwrite"), "leave out --overwrite"),
    "resume and a setting": (("--resume", "a", "--layers=7"), "leave out --layers"),
    "resume and a config": (("--resume", "a", "--config", "fine.json"), "leave out --config"),
    "overwrite without out": (("--overwrite",), "--overwrite replaces the run in --out"),
    "a file for a folder": (("--out", "bad.json"), "Cannot write bad.json"),
    "json nowhere": (("--json", "nowhere/r.json"), "no folder"),
    "json that is a folder": (("--json", "."), "not an ordinary file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence_and_leaves_no_files(name: str, tmp_path: Path, capsys: Capture) -> None:
    files = {"bad.json": '{"layer": 3}', "broken.json": "{", "fine.json": '{"layers": 3}'}
    for file, text in files.items():
        Path(file).write_text(text)
    arguments, hint = REFUSED[name]
    refuses(capsys, hint, "train", *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_run_whose_model_explodes_on_fresh_sequences_finishes(tmp_path: Path, capsys: Capture) -> None:
    succeeds(capsys, "train", *QUICK, "--layers", 8, "--rate", 1, "--sequences", 500, "--out", tmp_path / "run")
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_losses_are_shown_adjusted_beside_the_bayes_limit_and_the_papers_cell(recipe: str) -> None:
    config = TrainConfig("diag", 4, recipe=recipe)
    display = TrainingDisplay(config)
    # The sampled objective has the oracle's loss in it: a model at the Bayes limit has a loss of about 1.6.
    loss = display.bayes.loss if recipe == "paper" else display.bayes.adjusted_loss
    stage = "as printed" if recipe == "paper" else "start 1"
    numbers: dict[str, Any] = {"step": 1, "total": 1, "rate": 0.1, "skipped": False, "rewound": False}
    text = display.text(StepInfo(stage=stage, loss=loss + 0.01, smoothed=loss, **numbers))
    shown = [float(number) for number in re.findall(r"(?:loss|smoothed|limit|paper) ([\d.]+)", text)]
    limit = display.bayes.adjusted_loss
    assert shown == pytest.approx([limit + 0.01, limit, limit, 0.059], rel=0.01)


def test_prior_of_ones_own_is_trained_on_and_must_be_passed_again_to_resume(capsys: Capture) -> None:
    Path("my_priors.py").write_text(
        "from ridgeformer import Categorical\nclass Mine(Categorical):\n    spec = 'mine of all:1/2'\n"
    )
    noise = ("--noise", "my_priors:Mine((1.0, 2.0))")
    succeeds(capsys, "train", *QUICK, *noise)
    folder = Path("runs/diag-2-mine-of-all-1-2")
    assert read_json(folder / "config.json")["prior"] == "my_priors:Mine"
    refuses(capsys, "pass it again", "train", "--resume", folder)
    succeeds(capsys, "train", "--resume", folder, *noise)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def interrupted(folder: Path, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """A long run in ``folder`` that gets a signal once it has begun its history."""
    process = start("train", *LONG, "--out", folder)
    history = folder / "history.jsonl"
    assert wait_for(lambda: process.poll() is not None or (history.exists() and history.stat().st_size > 0))
    assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def test_interrupt_names_the_command_that_goes_on_and_that_ends_like_an_uninterrupted_run(
    tmp_path: Path, capsys: Capture
) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    done = interrupted(out, signal.SIGINT)
    assert done.returncode == 130
    last = done.stderr.splitlines()[-1]
    stopped = re.fullmatch(r"ridgeformer: Stopped at step (\d+); continue with: ridgeformer (.*)", last)
    assert stopped is not None
    assert 0 < int(stopped[1]) < 3000
    assert (out / "checkpoints" / f"step-{int(stopped[1]):09d}.safetensors").exists()
    assert "Traceback" not in done.stderr
    assert not (out / "result.json").exists()
    succeeds(capsys, *stopped[2].split())
    succeeds(capsys, "train", *LONG, "--out", whole)
    assert contents(out) == contents(whole)


def test_sigterm_saves_like_an_interrupt(tmp_path: Path) -> None:
    done = interrupted(tmp_path / "run", signal.SIGTERM)
    assert done.returncode == 130
    assert re.search(r"\nridgeformer: Stopped at step \d+; continue with: .*\n$", "\n" + done.stderr)
    assert list((tmp_path / "run" / "checkpoints").iterdir())
