"""Runs on disk: resumed bit for bit after interruptions, guarded against damage, full disks and each other."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeformer import InputError
from ridgeformer.training import TrainConfig, TrainingInterruptedError, train
from ridgeformer.training import run_directory as run_directory_module
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.state import TrainState, load_checkpoint
from ridgeformer.training.steps import StepInfo

# Three starts of 10 steps, then 60 and 12 steps with mining, in about a second.
CONFIG = TrainConfig(model="full", layers=2, dim=3, context=8, steps=60, batch=64, sequences=500, noise="uniform:2")


class StopAt:
    """A callback that presses Ctrl-C after a step."""

    def __init__(self, total: int) -> None:
        self.total = total

    def __call__(self, info: StepInfo) -> None:
        if info.total == self.total:
            raise KeyboardInterrupt


def fingerprint(folder: Path) -> dict[str, str]:
    """SHA-256 of the weights, the optimiser's last state, the history and the result."""
    last = sorted((folder / "checkpoints").glob("*.safetensors"))[-1]
    files = [folder / "history.jsonl", folder / "result.json", folder / "model.safetensors", last]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(CONFIG, out=folder)
    return fingerprint(folder)


@pytest.mark.parametrize("cuts", [[1], [5, 6], [10], [30], [31], [59], [60], [61], [90], [101], [7, 33, 64, 95]])
def test_run_interrupted_and_resumed_equals_an_uninterrupted_one(
    tmp_path: Path, cuts: list[int], uninterrupted: dict[str, str]
) -> None:
    folder = tmp_path / "run"
    for number, cut in enumerate(cuts):
        with pytest.raises(TrainingInterruptedError, match="ridgeformer train --resume"):
            train(CONFIG, out=folder, resume=number > 0, callbacks=[StopAt(cut)])
    train(CONFIG, out=folder, resume=True)
    assert fingerprint(folder) == uninterrupted


@pytest.mark.parametrize("lost", ["adam", "memory", "total"])
def test_resume_without_part_of_the_state_is_not_the_same_run(
    tmp_path: Path, lost: str, uninterrupted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: what the other tests compare does depend on every part of the state."""
    folder = tmp_path / "run"
    with pytest.raises(TrainingInterruptedError):
        train(CONFIG, out=folder, callbacks=[StopAt(60)])  # within the main leg, after its first pool

    def forgetful(path: Path) -> tuple[TrainState, int]:
        state, length = load_checkpoint(path)
        blank = TrainState.start(state.vector)
        return replace(state, **{lost: getattr(blank, lost)}), length

    monkeypatch.setattr(run_directory_module, "load_checkpoint", forgetful)
    train(CONFIG, out=folder, resume=True)
    assert fingerprint(folder)["model.safetensors"] != uninterrupted["model.safetensors"]


def test_run_killed_by_sigkill_at_several_moments_resumes_to_the_same_files(
    tmp_path: Path, uninterrupted: dict[str, str]
) -> None:
    folder = tmp_path / "run"
    script = (
        "import json, sys, time\n"
        "from pathlib import Path\n"
        "from ridgeformer.training import TrainConfig, train\n"
        "folder = Path(sys.argv[1])\n"
        "config = TrainConfig.from_json(json.loads(sys.argv[2]))\n"
        "train(config, out=folder, resume=(folder / 'config.json').exists(), checkpoint_seconds=0.0,\n"
        "      callbacks=[lambda info: time.sleep(0.02)])\n"
    )
    command = [sys.executable, "-c", script, str(folder), json.dumps(CONFIG.as_json())]
    kills = 0
    for _ in range(40):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        # Let it come at least one checkpoint further, then kill it wherever it is.
        newest = max(folder.glob("checkpoints/*"), default=None)
        while process.poll() is None and time.monotonic() < deadline:
            if max(folder.glob("checkpoints/*"), default=None) != newest and kills < 3:
                time.sleep(0.05 * kills)
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.005)
        process.wait()
        if process.returncode == 0:
            break
    assert kills == 3
    assert fingerprint(folder) == uninterrupted


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_resume_with_damaged_newest_checkpoint_goes_back_to_the_one_before_and_says_so(
    tmp_path: Path, damage: str, uninterrupted: dict[str, str]
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(TrainingInterruptedError):
        train(CONFIG, out=folder, callbacks=[StopAt(40)], checkpoint_seconds=0.0)
    newest = sorted((folder / "checkpoints").glob("*.safetensors"))[-1]
    data = newest.read_bytes()
    newest.write_bytes({"truncate": data[: len(data) // 2], "flip": b"\xff" * 16 + data[16:], "empty": b""}[damage])
    messages: list[str] = []
    train(CONFIG, out=folder, resume=True, on_message=messages.append)
    assert len(messages) == 1
    assert newest.name in messages[0]
    assert fingerprint(folder) == uninterrupted


def test_train_into_an_existing_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(CONFIG, out=folder)
    before = fingerprint(folder)
    with pytest.raises(InputError, match="already holds a run"):
        train(replace(CONFIG, seed=1), out=folder)
    assert fingerprint(folder) == before
    train(replace(CONFIG, seed=1), out=folder, overwrite=True)
    assert fingerprint(folder) != before


def test_second_process_on_a_run_directory_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with RunDirectory(folder).locked():
        code = (
            "import sys\nfrom ridgeformer import InputError\nfrom ridgeformer.training import TrainConfig, train\n"
            "try:\n    train(TrainConfig(), out=sys.argv[1])\n"
            "except InputError as refused:\n    sys.exit(str(refused))\n"
        )
        found = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "Another process is working on the run" in found.stderr


def test_full_disk_is_one_clear_error_and_keeps_earlier_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: dict[str, str]
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(TrainingInterruptedError):
        train(CONFIG, out=folder, callbacks=[StopAt(20)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _disk_full)
        with pytest.raises(InputError, match="No space left on device"):
            train(CONFIG, out=folder, resume=True, checkpoint_seconds=0.0)
    train(CONFIG, out=folder, resume=True)
    assert fingerprint(folder) == uninterrupted


def _disk_full(handle: int) -> None:
    raise OSError(28, "No space left on device")


def test_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="Cannot write"):
        train(CONFIG, out=tmp_path / "file" / "run")


def test_resume_where_no_run_is_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        RunDirectory(tmp_path).config()
