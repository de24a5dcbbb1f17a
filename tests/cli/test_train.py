"""``ridgeformer train``: files, flags, refusals, and Ctrl-C in a real process."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from running import complaint, read_json, refuses, ridgeformer, start, succeeds, wait_for

import ridgeformer as rf
from ridgeformer.cli.train import config_from_arguments
from ridgeformer.training.config import TrainConfig

SMALL = ("--model", "diag", "--layers", 2, "--dim", 3, "--context", 6, "--recipe", "paper", "--batch", 16)
QUICK = (*SMALL, "--steps", 30, "--sequences", 300)
# About a second, so that a signal after the first hundred steps arrives in the midst of it.
LONG = (*SMALL, "--steps", 6000, "--sequences", 300)
FILES = ("config.json", "history.jsonl", "model.safetensors", "result.json")


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_run_with_everything_leaves_its_files_json_and_tensorboard_log(tmp_path: Path) -> None:
    out, file, board = tmp_path / "run", tmp_path / "r.json", tmp_path / "board"
    text = succeeds("train", *QUICK, "--out", out, "--json", file, "--tensorboard", board, "--threads", 1)
    model = rf.load(out / "model.safetensors")
    result, asked = read_json(out / "result.json"), read_json(out / "config.json")
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


def test_model_just_trained_can_be_evaluated_as_it_says(tmp_path: Path) -> None:
    succeeds("train", *QUICK, "--out", tmp_path / "run")
    assert "σ ~ uniform:5, d = 3, n = 6" in succeeds("evaluate", tmp_path / "run/model.safetensors", "--sequences", 100)


def test_run_into_a_folder_that_holds_one_is_refused_unless_told_to_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "run"
    succeeds("train", *QUICK, "--out", out)
    before = contents(out)
    text = complaint("train", *QUICK, "--seed", 1, "--out", out)
    assert f"ridgeformer train --resume {out}" in text
    assert "--overwrite" in text
    assert contents(out) == before
    succeeds("train", *QUICK, "--seed", 1, "--out", out, "--overwrite")
    assert read_json(out / "config.json")["seed"] == 1
    assert contents(out)["model.safetensors"] != before["model.safetensors"]


def test_config_file_is_what_flags_start_from(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"model": "diag", "layers": 1, "dim": 3, "context": 6, "recipe": "paper", "steps": 5, "batch": 4}')
    succeeds("train", "--config", file, "--layers", 3, "--sequences", 50, "--out", tmp_path / "run")
    found = read_json(tmp_path / "run" / "config.json")
    assert (found["model"], found["layers"], found["steps"], found["sequences"]) == ("diag", 3, 5, 50)


@pytest.mark.parametrize("form", [["--config", "c.json"], ["--config=c.json"]])
def test_config_flag_is_read_in_both_of_its_forms(
    form: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text('{"layers": 3}')
    assert config_from_arguments(["train", *form]) == TrainConfig(layers=3)
    assert config_from_arguments(["train", "--layers", "2"]) == TrainConfig()
    assert config_from_arguments(["train", "--config"]) == TrainConfig()


REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "unknown name in a config": (("--config", "bad.json"), "Did you mean 'layers'?"),
    "config that is not there": (("--config", "none.json"), "Cannot read none.json"),
    "config that is no JSON": (("--config", "broken.json"), "broken.json is not JSON"),
    "unknown model": (("--model", "ful"), "Did you mean 'full'?"),
    "unknown recipe": (("--recipe", "papre"), "Did you mean 'paper'?"),
    "unknown noise": (("--noise", "unifrom:5"), "noise prior"),
    "no layers": (("--layers", 0), "layers must be"),
    "start that is not there": (("--start", "nowhere.safetensors"), "nowhere.safetensors"),
    "nothing to resume": (("--resume", "nowhere"), "holds no run to go on with"),
    "resume and out": (("--resume", "a", "--out", "b"), "leave out --out"),
    "resume and overwrite": (("--resume", "a", "--overwrite"), "leave out --out and --overwrite"),
    "a file for a folder": (("--out", "bad.json"), "Cannot write bad.json"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence_and_leaves_no_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text('{"layer": 3}')
    Path("broken.json").write_text("{")
    arguments, hint = REFUSED[name]
    refuses(capsys, hint, "train", *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "broken.json"]


def test_json_into_a_folder_that_is_not_there_is_refused_before_training(tmp_path: Path) -> None:
    done = ridgeformer("train", *QUICK, "--json", tmp_path / "nowhere" / "r.json")
    assert done.returncode == 2
    assert "step" not in done.stderr


def test_run_whose_model_explodes_on_fresh_sequences_finishes(tmp_path: Path) -> None:
    flags = ("--model", "diag", "--layers", 8, "--dim", 3, "--context", 6, "--recipe", "paper", "--batch", 16)
    done = ridgeformer("train", *flags, "--rate", 1, "--steps", 30, "--sequences", 500, "--out", tmp_path / "run")
    assert "plain JSON" not in done.stderr
    assert (tmp_path / "run" / "result.json").exists()


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def interrupted(folder: Path) -> subprocess.CompletedProcess[str]:
    """A long run in ``folder`` that gets a SIGINT once it has begun its history."""
    process = start("train", *LONG, "--out", folder)
    history = folder / "history.jsonl"
    assert wait_for(lambda: process.poll() is not None or (history.exists() and history.stat().st_size > 0))
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def test_interrupt_names_the_command_that_goes_on_and_that_ends_like_an_uninterrupted_run(tmp_path: Path) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    done = interrupted(out)
    assert done.returncode == 130
    last = done.stderr.splitlines()[-1]
    found = re.fullmatch(r"ridgeformer: Stopped at step (\d+); go on with: ridgeformer (.*)", last)
    assert found is not None
    assert 0 < int(found[1]) < 6000
    assert (out / "checkpoints" / f"step-{int(found[1]):09d}.safetensors").exists()
    assert "Traceback" not in done.stderr
    assert not (out / "result.json").exists()
    succeeds(*found[2].split())
    succeeds("train", *LONG, "--out", whole)
    assert contents(out) == contents(whole)


def test_interrupt_without_a_folder_says_so_and_nothing_else() -> None:
    process = start("train", *SMALL, "--steps", 20_000, "--sequences", 300)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("step ")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "ridgeformer: interrupted."
    assert "Traceback" not in err
