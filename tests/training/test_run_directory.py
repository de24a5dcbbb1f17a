"""Run directories: what is refused, what other processes see, and checkpoints that give back every bit."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import plans
import pytest
from plans import ADAM, CONFIGS, POOLS, StopAfter, fingerprint

from ridgeformer import InputError, LinearTransformer
from ridgeformer.training import TrainConfig, TrainingInterruptedError, recipes, train
from ridgeformer.training import steps as steps_module
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.state import load_checkpoint, save_checkpoint
from ridgeformer.training.steps import Trainer


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    plans.install(monkeypatch.setattr)


def test_train_into_an_existing_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(POOLS, out=folder)
    before = fingerprint(folder)
    with pytest.raises(InputError, match="already holds a run"):
        train(replace(POOLS, seed=1), out=folder)
    assert fingerprint(folder) == before
    train(replace(POOLS, seed=1), out=folder, overwrite=True)
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


def test_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="Cannot write"):
        train(POOLS, out=tmp_path / "file" / "run")


def test_resume_where_no_run_is_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        RunDirectory(tmp_path).config()


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoint_gives_back_every_bit_of_the_state(tmp_path: Path, name: str) -> None:
    def parts(value: object) -> dict[str, object]:
        if is_dataclass(value):
            return {f"{f.name}.{k}": v for f in fields(value) for k, v in parts(getattr(value, f.name)).items()}
        return {str(i): v for i, v in enumerate(value)} if isinstance(value, tuple) else {"": value}

    trainer = Trainer(CONFIGS[name])
    state, seen = trainer.start(), set()
    while not trainer.finished(state):
        save_checkpoint(state, tmp_path / "one.safetensors", 17)
        again, length = load_checkpoint(tmp_path / "one.safetensors")
        assert length == 17
        before, after = parts(state), parts(again)
        assert before.keys() == after.keys()
        for field, value in before.items():
            np.testing.assert_array_equal(after[field], value, err_msg=field)  # NaN equals NaN here
            assert np.asarray(after[field]).dtype == np.asarray(value).dtype
        seen |= set(before)
        state, _ = trainer.step(state)
    assert ("curvature.steps." in seen) == (name != "Adam")
    assert ("memory.0" in seen) == (name == "Adam")


# --- what is not the same run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [{"seed": 1}, {"batch": 16}, {"layers": 3}])
def test_resume_with_another_config_is_refused(tmp_path: Path, other: dict[str, int]) -> None:
    with pytest.raises(TrainingInterruptedError):
        train(POOLS, out=tmp_path / "run", callbacks=[StopAfter(20)])
    with pytest.raises(InputError, match="other settings"):
        train(replace(POOLS, **other), out=tmp_path / "run", resume=True)  # type: ignore[arg-type]


def test_resume_after_the_recipe_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrainingInterruptedError):
        train(ADAM, out=tmp_path / "run", callbacks=[StopAfter(40)])  # within the main leg
    shorter = tuple(replace(leg, steps=min(leg.steps, 10)) for leg in plans.plan_of(ADAM))  # as a newer version might
    monkeypatch.setattr(steps_module, "legs", lambda config: shorter)
    with pytest.raises(InputError, match="another version of the recipe"):
        train(ADAM, out=tmp_path / "run", resume=True)


def test_paper_recipe_from_a_given_model_starts_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "legs", recipes.legs)
    names = {"recipe": "paper", "steps": 1, "batch": 8, "sequences": 10, "start": "a name"}
    config = TrainConfig(kind="full", layers=1, dim=3, examples=8, **names)  # type: ignore[arg-type]
    given = LinearTransformer.init("full", layers=1, dim=3, scale=0.3, seed=9)
    found = train(config, given=given).model
    np.testing.assert_allclose(found.flatten(), given.flatten(), atol=1e-3)  # one step of size 1e-4
