"""``ridgeformer train --engine torch``: files, flags, resuming, refusals; and ``evaluate`` on what it leaves."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from running import Capture, Patch, read_json, refuses, start, succeeds, wait_for

WITH_TORCH = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
SMALL = ("--engine", "torch", "--layers", 2, "--dim", 3, "--examples", 6, "--batch", 8, "--sequences", 50)
FILES = ("config.json", "history.jsonl", "model.safetensors", "result.json")


def test_run_leaves_its_files_and_a_model_that_evaluate_reads(tmp_path: Path, capsys: Capture) -> None:
    out, file = tmp_path / "run", tmp_path / "r.json"
    wide = ("--width", 8, "--heads", 2, "--projections", "separate", "--mlp", 1, "--norm")
    options = ("--model", "softmax", *SMALL, *wide, "--device", "auto", "--steps", 30)
    text = succeeds(capsys, "train", *options, "--out", out, "--json", file, "--tensorboard", tmp_path / "board")
    assert "softmax, 2 layers, uniform:5" in text
    assert "Bayes limit" in text
    assert read_json(file)["module"]["width"] == 8
    assert read_json(file)["status"] == "finished"
    read = succeeds(capsys, "evaluate", out / "model.safetensors", "--layerwise", "--sequences", 20)
    assert "σ ~ uniform:5, d = 3, n = 6" in read
    refuses(capsys, "already holds a run", "train", *options, "--out", out)


def test_run_without_out_is_kept_in_a_new_folder(capsys: Capture) -> None:
    succeeds(capsys, "train", "--kind", "diag", *SMALL, "--steps", 5, "--noise", "categorical:1+3")
    assert Path("runs/diag-2-categorical-1+3/model.safetensors").exists()
    succeeds(capsys, "train", "--kind", "elu", *SMALL, "--steps", 3, "--features", "kappa:10", "--mixture", "base")
    assert Path("runs/elu-2-uniform-5/result.json").exists()


def test_interrupted_command_goes_on_to_the_same_files(tmp_path: Path, capsys: Capture) -> None:
    options = ("--kind", "softmax", *SMALL, "--steps", 400)
    succeeds(capsys, "train", *options, "--out", tmp_path / "whole")
    process = start("train", *options, "--out", tmp_path / "cut", OMP_NUM_THREADS="1")
    assert wait_for(
        lambda: (tmp_path / "cut" / "history.jsonl").exists() and (tmp_path / "cut/history.jsonl").read_text()
    )
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"ridgeformer train --resume {tmp_path / 'cut'}" in errors
    succeeds(capsys, "train", "--resume", tmp_path / "cut")
    for name in FILES:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_what_does_not_fit_is_refused(tmp_path: Path, capsys: Capture) -> None:
    refuses(capsys, "no device 'cuda'", "train", *SMALL, "--device", "cuda")
    refuses(capsys, "Did you mean 'softmax'", "train", "--kind", "sofmax", *SMALL)
    refuses(capsys, "name that folder", "train", *SMALL, "--overwrite")
    refuses(capsys, "--resume", "train", "--engine", "torch", "--resume", tmp_path, "--layers", 3)
    refuses(capsys, "no run to continue", "train", "--engine", "torch", "--resume", tmp_path)


def test_missing_torch_is_one_sentence(capsys: Capture, monkeypatch: Patch) -> None:
    for name in [name for name in sys.modules if name.startswith(("ridgeformer.torch", "ridgeformer.cli.train_torch"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    refuses(capsys, "pip install 'ridgeformer[torch]'", "train", *SMALL)
