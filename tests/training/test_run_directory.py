"""Run directories: what is refused, what other processes see, and checkpoints that give back every bit."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from plans import ADAM, CONFIGS, POOLS, fingerprint, short_run, train_short, train_until

from ridgeformer import LinearTransformer, TrainConfig
from ridgeformer.training import train
from ridgeformer.training.run_directory import RunDirectory, load_checkpoint, save_checkpoint
from support import refused


def test_train_into_an_existing_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train_short(POOLS, folder)
    before = fingerprint(folder)
    refused("already holds a run", train_short, replace(POOLS, seed=1), folder)
    assert fingerprint(folder) == before
    train_short(replace(POOLS, seed=1), folder, overwrite=True)
    assert fingerprint(folder) != before


def test_second_process_on_a_run_directory_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with RunDirectory(folder).locked():
        code = (
            "import sys\nfrom ridgeformer import InputError\nfrom ridgeformer.training import TrainConfig, train\n"
            "try:\n    train(TrainConfig(), out=sys.argv[1])\n"
            "except InputError as refused:\n    sys.exit(str(refused))\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Another process is working on the run" in done.stderr


def test_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    refused("Cannot write", train_short, POOLS, tmp_path / "file" / "run")


def test_resume_where_no_run_is_says_so(tmp_path: Path) -> None:
    refused("holds no run", RunDirectory(tmp_path).config)


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoint_gives_back_every_bit_of_the_state(tmp_path: Path, name: str) -> None:
    def parts(value: object) -> dict[str, object]:
        if is_dataclass(value):
            return {f"{f.name}.{k}": v for f in fields(value) for k, v in parts(getattr(value, f.name)).items()}
        return {str(i): v for i, v in enumerate(value)} if isinstance(value, tuple) else {"": value}

    run = short_run(CONFIGS[name])
    state, names = run.start(), set()
    while not run.finished(state):
        save_checkpoint(state, tmp_path / "one.safetensors", 17)
        again, length = load_checkpoint(tmp_path / "one.safetensors")
        assert length == 17
        before, after = parts(state), parts(again)
        assert before.keys() == after.keys()
        for field, value in before.items():
            np.testing.assert_array_equal(after[field], value, err_msg=field)  # NaN equals NaN here
            assert np.asarray(after[field]).dtype == np.asarray(value).dtype
        names |= set(before)
        state, _ = run.step(state)
    assert ("curvature.steps." in names) == (name != "Adam")
    assert ("memory.0" in names) == (name == "Adam")


# --- what is not the same run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [{"seed": 1}, {"batch": 16}, {"layers": 3}])
def test_resume_with_another_config_is_refused(tmp_path: Path, other: dict[str, int]) -> None:
    train_until(20, short_run(POOLS), tmp_path / "run")
    changed = replace(POOLS, **other)  # type: ignore[arg-type]
    refused("other settings", train_short, changed, tmp_path / "run", resume=True)


def test_resume_after_the_recipe_changed_is_refused(tmp_path: Path) -> None:
    run = short_run(ADAM)
    train_until(40, run, tmp_path / "run")  # within the main stage
    shorter = [replace(stage, steps=min(stage.steps, 10)) for stage in run.stages]  # as a newer version might
    refused("another version of the recipe", train, short_run(ADAM, shorter), out=tmp_path / "run", resume=True)


def test_resume_of_a_run_of_an_older_version_is_refused(tmp_path: Path) -> None:
    """Its checkpoints have a plan of their own, and "leg" for stage."""
    train_until(10, short_run(ADAM), tmp_path / "run")
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    data = path.read_bytes().replace(b'\\"stage\\"', b'\\"leg\\"  ').replace(b'\\"kind\\"', b'\\"dink\\"')
    path.write_bytes(data.replace(short_run(ADAM).plan.encode(), b"0123456789abcdef"))
    refused("another version of the recipe", train_short, ADAM, tmp_path / "run", resume=True)


def test_paper_recipe_from_a_given_model_starts_there() -> None:
    names = {"recipe": "paper", "steps": 1, "batch": 8, "sequences": 10, "start": "a name"}
    config = TrainConfig(kind="full", layers=1, dim=3, examples=8, **names)  # type: ignore[arg-type]
    given = LinearTransformer.init("full", layers=1, dim=3, scale=0.3, seed=9)
    trained = train(config, given=given).model
    np.testing.assert_allclose(trained.flatten(), given.flatten(), atol=1e-3)  # one step of size 1e-4


# --- timing.jsonl: how long training took, over interruptions --------------------------------------------------------

PAPER = TrainConfig(kind="diag", layers=1, dim=3, examples=6, recipe="paper", steps=400, batch=8, sequences=100)


def test_every_row_of_the_history_has_a_time_and_a_resumed_run_counts_on_from_where_it_was(tmp_path: Path) -> None:
    train_until(250, PAPER, tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    file = directory.timing
    file.write_text(file.read_text().replace('"total": 200, "seconds": ', '"total": 200, "seconds": 1000'))
    train(PAPER, out=tmp_path / "run", resume=True)
    seconds = directory.read_seconds()
    assert list(seconds) == [row["total"] for row in directory.read_history()] == [100, 200, 300, 400]
    assert 0 <= seconds[100] < 1000 <= seconds[200] <= seconds[300] <= seconds[400]


def test_a_torn_line_is_left_out_and_a_missing_file_is_no_times(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.read_seconds() == {}
    directory.timing.write_text('{"total": 1, "seconds": 2.5}\n[]\n{"total": 2, "sec')
    assert directory.read_seconds() == {1: 2.5}


def test_overwriting_a_run_forgets_its_times(tmp_path: Path) -> None:
    train(PAPER, out=tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    directory.timing.write_text('{"total": 77, "seconds": 1.0}\n')
    train(PAPER, out=tmp_path / "run", overwrite=True)
    assert list(directory.read_seconds()) == [100, 200, 300, 400]
