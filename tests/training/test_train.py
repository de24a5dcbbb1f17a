"""`train`: runs resumed bit for bit after interruptions, guarded against damage and full disks; bad arguments."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import plans
from plans import ADAM, CONFIGS, GDPP, WARM, fingerprint, short_run, train_short, train_until
from ridgeformer import LinearTransformer, Uniform
from ridgeformer.core.model_file import load_model
from ridgeformer.core.notation import Array
from ridgeformer.training import StepInfo, TrainConfig, train
from ridgeformer.training import run_directory as run_directory_module
from ridgeformer.training.checkpoints import Checkpoint, load_checkpoint
from ridgeformer.training.optimisers import QuasiNewton
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.stages import Run, TrainState
from support import refused


class Whole(NamedTuple):
    """A run without interruption."""

    config: TrainConfig
    files: dict[str, str]
    totals: list[int]
    """After every step."""
    borders: list[int]
    """After every stage."""
    curvature: dict[int, QuasiNewton]
    """By total, inside pool stages."""


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Whole]:
    runs = {}
    for name, config in CONFIGS.items():
        folder = tmp_path_factory.mktemp("whole") / "run"
        train_short(config, folder)
        trail = plans.trail_of(short_run(config))
        runs[name] = Whole(
            config,
            fingerprint(folder),
            [info.total for _, info in trail],
            [info.total for state, info in trail if state.step == 0],
            {state.total: known for state, _ in trail if isinstance(known := state.curvature, QuasiNewton)},
        )
    return runs


def cut_run(config: TrainConfig, folder: Path, cuts: list[int]) -> None:
    """A run stopped after each of these totals, and resumed."""
    for number, cut in enumerate(cuts):
        train_until(cut, short_run(config), folder, resume=number > 0)
    train_short(config, folder, resume=True)


def forgetting(monkeypatch: pytest.MonkeyPatch, change: Callable[[TrainState], TrainState]) -> None:
    """Let checkpoints come back changed."""

    def forgetful(path: Path, run: Run) -> Checkpoint:
        checkpoint = load_checkpoint(path, run)
        return checkpoint._replace(state=change(checkpoint.state))

    monkeypatch.setattr(run_directory_module, "load_checkpoint", forgetful)


# --- what the runs consist of -----------------------------------------------------------------------------------------


def test_short_runs_have_every_kind_of_stage_and_state(whole_runs: dict[str, Whole]) -> None:
    pools, spectral = whole_runs["pools"], whole_runs["spectral"]
    for whole in whole_runs.values():
        assert len(whole.borders) == len(short_run(whole.config).stages)
        assert len(set(whole.files.values())) == 4
    assert len(pools.curvature) > 30
    assert len(spectral.curvature) > 20
    assert any(known.stalled for known in pools.curvature.values())
    assert any(b - a > 1 for a, b in zip(pools.totals, pools.totals[1:], strict=False))  # a stage that converged early
    assert max(len(known.steps) for known in pools.curvature.values()) > 10


# --- resuming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_run_cut_after_every_single_step_equals_an_uninterrupted_one(
    tmp_path: Path, name: str, whole_runs: dict[str, Whole]
) -> None:
    whole = whole_runs[name]
    cut_run(whole.config, tmp_path / "run", whole.totals)
    assert fingerprint(tmp_path / "run") == whole.files


@pytest.mark.parametrize("side", [-1, 0, 1])
@pytest.mark.parametrize("name", CONFIGS)
def test_run_cut_once_at_or_beside_the_end_of_any_stage_equals_an_uninterrupted_one(
    tmp_path: Path, name: str, side: int, whole_runs: dict[str, Whole]
) -> None:
    whole = whole_runs[name]
    for number, border in enumerate(whole.borders):
        place = whole.totals.index(border) + side
        if 0 <= place < len(whole.totals):
            cut_run(whole.config, tmp_path / str(number), [whole.totals[place]])
            assert fingerprint(tmp_path / str(number)) == whole.files


def test_run_of_one_spectral_stage_resumes_before_and_after_it(tmp_path: Path) -> None:
    """All of a GD++ run is one step; before it there is no checkpoint, after it only the measurement is left."""
    train_short(GDPP, tmp_path / "whole")
    RunDirectory(tmp_path / "before").create(GDPP, overwrite=False)
    train_short(GDPP, tmp_path / "before", resume=True)
    cut_run(GDPP, tmp_path / "after", [1])
    assert fingerprint(tmp_path / "before") == fingerprint(tmp_path / "whole")
    assert fingerprint(tmp_path / "after") == fingerprint(tmp_path / "whole")


def test_run_from_a_given_model_resumes_from_its_own_copy_of_it(tmp_path: Path) -> None:
    original = tmp_path / "given.safetensors"
    config = replace(WARM, start=str(original))
    LinearTransformer.init("gdpp", layers=1, dim=3, scale=0.05).save(original)
    infos: list[StepInfo] = []
    train_short(config, tmp_path / "whole", callbacks=infos.append)
    assert len({info.stage for info in infos}) == 3
    train_until(4, short_run(config), tmp_path / "cut")
    original.unlink()
    for total in (6, 10, 13, 20):
        train_until(total, short_run(config), tmp_path / "cut", resume=True)
    train_short(config, tmp_path / "cut", resume=True)
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")


def test_finished_run_resumed_again_changes_nothing(tmp_path: Path, whole_runs: dict[str, Whole]) -> None:
    whole = whole_runs["pools"]
    for resume in (False, True):
        train_short(whole.config, tmp_path / "run", resume=resume)
        assert fingerprint(tmp_path / "run") == whole.files


# --- negative controls: what the tests above compare does depend on every part of the state ---------------------------


# 35: within the main stage, after its first pool of hard contexts; 12: within the second start, worse than the first.
@pytest.mark.parametrize(
    ("lost", "cut"),
    [*((name, 35) for name in ("adam", "memory", "total", "vector", "step")), ("best_vector", 12), ("best_score", 12)],
)
def test_resume_without_part_of_the_state_is_not_the_same_run(
    tmp_path: Path, lost: str, cut: int, whole_runs: dict[str, Whole], monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = getattr(short_run(replace(ADAM, seed=1)).start(), lost)
    forgetting(monkeypatch, lambda state: replace(state, **{lost: blank}))
    cut_run(ADAM, tmp_path / "run", [cut])
    assert fingerprint(tmp_path / "run")["model.safetensors"] != whole_runs["Adam"].files["model.safetensors"]


CURVATURE: dict[str, Callable[[QuasiNewton], QuasiNewton | None]] = {
    "all of it": lambda known: None,
    "the pairs": lambda known: replace(known, steps=known.steps[:0], changes=known.changes[:0]),
    "the oldest pair": lambda known: replace(known, steps=known.steps[1:], changes=known.changes[1:]),
    "the order of the pairs": lambda known: replace(known, steps=known.steps[::-1], changes=known.changes[::-1]),
    "the steps": lambda known: replace(known, steps=known.changes),
    "the changes": lambda known: replace(known, changes=known.steps),
    "the gradient": lambda known: replace(known, gradient=np.zeros_like(known.gradient)),
    "the scale": lambda known: replace(known, scale=np.ones_like(known.scale)),
    "the value": lambda known: replace(known, value=float("-inf")),
    "precision": lambda known: replace(known, gradient=known.gradient.astype(np.float32).astype(np.float64)),
    "the count of stalled iterations": lambda known: replace(known, stalled=0),
}


CASES = [(name, lost) for name in ("pools", "spectral") for lost in CURVATURE]


@pytest.mark.parametrize(("name", "lost"), CASES[:-1])  # the spectral run ends its stage anyway when it stalls
def test_resume_without_part_of_the_curvature_is_not_the_same_run(
    tmp_path: Path, name: str, lost: str, whole_runs: dict[str, Whole], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stalled = whole_runs[name], lost == "the count of stalled iterations"
    cut = next(t for t, known in whole.curvature.items() if (known.stalled == 2 if stalled else len(known.steps) >= 4))

    def change(state: TrainState) -> TrainState:
        assert isinstance(state.curvature, QuasiNewton)
        return replace(state, curvature=CURVATURE[lost](state.curvature))

    forgetting(monkeypatch, change)
    cut_run(whole.config, tmp_path / "run", [cut])
    files = fingerprint(tmp_path / "run")
    if stalled:  # it goes on where the other one had converged
        assert files != whole.files
    else:
        assert files["model.safetensors"] != whole.files["model.safetensors"]


def test_resume_without_the_weights_a_sifted_pool_was_chosen_by_is_not_the_same_run(
    tmp_path: Path, whole_runs: dict[str, Whole], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = whole_runs["spectral"]
    forgetting(monkeypatch, lambda state: replace(state, safe_vector=state.vector))
    cut_run(whole.config, tmp_path / "run", [whole.totals[12]])
    assert whole.totals[12] in whole.curvature
    assert fingerprint(tmp_path / "run")["model.safetensors"] != whole.files["model.safetensors"]


# --- a real process, killed -------------------------------------------------------------------------------------------

SCRIPT = """
import json, sys, time
from pathlib import Path
from plans import train_short
from ridgeformer.training import TrainConfig
folder = Path(sys.argv[1])
config = TrainConfig.from_json(json.loads(sys.argv[2]))
train_short(config, folder, resume=(folder / "config.json").exists(), checkpoint_seconds=0.0,
            callbacks=[lambda info: time.sleep(0.02)])
"""


@pytest.mark.parametrize(("name", "stages"), [("pools", [0, 2, 4]), ("larger", [1])])
def test_run_killed_by_sigkill_in_several_stages_resumes_to_the_same_files(
    tmp_path: Path, name: str, stages: list[int], whole_runs: dict[str, Whole]
) -> None:
    whole, folder = whole_runs[name], tmp_path / "run"
    command = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(whole.config.as_json())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    begins = [0, *whole.borders]
    for stage in stages:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        aim = whole.totals[min(whole.totals.index(begins[stage]) + 3 if stage else 2, len(whole.totals) - 2)]
        while process.poll() is None and newest_checkpoint(folder) < aim:
            time.sleep(0.002)
        assert process.poll() is None
        time.sleep(0.013 * stage)  # anywhere in a step, or in a checkpoint that is being written
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert begins[stage] < newest_checkpoint(folder) < whole.totals[-1]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert fingerprint(folder) == whole.files


def newest_checkpoint(folder: Path) -> int:
    names = [path.stem for path in folder.glob("checkpoints/step-*.safetensors")]
    return max((int(name.removeprefix("step-")) for name in names), default=0)


# --- damage, disks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "drop curvature"])
@pytest.mark.parametrize("name", CONFIGS)
def test_resume_with_damaged_newest_checkpoint_goes_back_to_the_one_before_and_says_so(
    tmp_path: Path, damage: str, name: str, whole_runs: dict[str, Whole]
) -> None:
    whole, folder = whole_runs[name], tmp_path / "run"
    cut = max(whole.curvature, default=40) - 3 if name == "pools" else whole.totals[len(whole.totals) // 2]
    train_until(cut, short_run(whole.config), folder, checkpoint_seconds=0.0)
    newest = sorted((folder / "checkpoints").glob("*.safetensors"))[-1]
    data = newest.read_bytes()
    spoiled = {
        "truncate": data[: len(data) // 2],
        "flip": b"\xff" * 16 + data[16:],
        "empty": b"",
        "drop curvature": data.replace(b"curvature_scale", b"curvature_scalf"),
    }[damage]
    if spoiled == data:
        pytest.skip("no curvature in an Adam stage")
    newest.write_bytes(spoiled)
    messages: list[str] = []
    train_short(whole.config, folder, resume=True, on_message=messages.append)
    assert len(messages) == 1
    assert newest.name in messages[0]
    assert fingerprint(folder) == whole.files


def test_resume_with_every_checkpoint_damaged_starts_again_and_says_so(
    tmp_path: Path, whole_runs: dict[str, Whole]
) -> None:
    whole, folder = whole_runs["pools"], tmp_path / "run"
    train_until(20, short_run(whole.config), folder, checkpoint_seconds=0.0)
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(b"nonsense")
    messages: list[str] = []
    train_short(whole.config, folder, resume=True, on_message=messages.append)
    assert [message.endswith("the start of the run.") for message in messages] == [False, False, True]
    assert fingerprint(folder) == whole.files


@pytest.mark.parametrize("name", CONFIGS)
def test_full_disk_is_one_clear_error_and_keeps_earlier_checkpoints(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, whole_runs: dict[str, Whole]
) -> None:
    whole, folder = whole_runs[name], tmp_path / "run"
    train_until(whole.totals[5], short_run(whole.config), folder)

    def disk_full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", disk_full)
        refused("No space left on device", train_short, whole.config, folder, resume=True, checkpoint_seconds=0.0)
    train_short(whole.config, folder, resume=True)
    assert fingerprint(folder) == whole.files


# --- arguments that do not fit ----------------------------------------------------------------------------------------

TINY = TrainConfig(kind="diag", layers=1, dim=2, examples=5, recipe="paper", steps=4, batch=4, sequences=20)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"config": {"layers": 1}}, "TrainConfig"),
        ({"config": "full-7"}, "TrainConfig"),
        ({"callbacks": 5}, "callbacks must be"),
        ({"callbacks": "print"}, "callbacks must be"),
        ({"callbacks": [print, None]}, "callbacks must be"),
        ({"out": ""}, "folder"),
        ({"out": "a\0b"}, "folder"),
        ({"out": 5}, "folder"),
        ({"resume": True}, "name the folder"),
        ({"resume": True, "overwrite": True, "out": "run"}, "leave out overwrite"),
        ({"checkpoint_seconds": "often"}, "checkpoint_seconds"),
        ({"config": replace(TINY, start="diag-1-uniform-5"), "given": "model"}, "given must be"),
        ({"threads": "all"}, "threads"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_argument_that_does_not_fit_is_one_sentence_and_leaves_no_files(
    tmp_path: Path, arguments: dict[str, object], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(match, train, **({"config": TINY} | arguments))
    assert not list(tmp_path.iterdir())


def test_callbacks_may_be_one_function_or_several() -> None:
    one: list[StepInfo] = []
    two: list[StepInfo] = []
    train(TINY, callbacks=one.append)
    train(TINY, callbacks=(one.append, two.append))
    assert (len(one), len(two)) == (8, 4)


# --- priors that are not the package's --------------------------------------------------------------------------------


class Halves:
    """σ is 0 or ``level``, half of the time each; its spec is that of another prior of the package."""

    def __init__(self, level: float = 2.0, spec: str = "uniform:2") -> None:
        self.level, self.spec = level, spec

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self.level * rng.integers(2, size=size)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.array([0.0, self.level]), np.array([0.5, 0.5])


NAME = f"{__name__}:Halves"


def test_prior_of_ones_own_is_trained_with_and_named_in_files(tmp_path: Path) -> None:
    config = replace(TINY, noise=Halves())
    result = train(config, out=tmp_path / "run")
    assert not np.array_equal(result.model.flatten(), train(replace(TINY, noise="uniform:2")).model.flatten())
    categorical = train(replace(TINY, noise="categorical:0+2"))  # draws the same levels, from the same stream
    np.testing.assert_array_equal(result.model.flatten(), categorical.model.flatten())
    written = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (written["noise"], written["prior"]) == ("uniform:2", NAME)
    info = load_model(tmp_path / "run" / "model.safetensors").info
    for part in ("task", "training"):
        assert (info[part]["noise"], info[part]["prior"]) == ("uniform:2", NAME)
    assert "prior" not in categorical.model.info["training"]


def test_run_with_a_prior_of_ones_own_resumes_with_it_and_with_nothing_else(tmp_path: Path) -> None:
    own, folder = replace(TINY, noise=Halves()), tmp_path / "run"
    train_until(2, own, folder)
    for other in ("uniform:2", Halves(spec="halves:2"), Uniform(2.0)):
        refused(f"{NAME}.*pass it again", train, replace(TINY, noise=other), out=folder, resume=True)
    refused("pass it again", RunDirectory(folder).config)
    again = train(replace(TINY, noise=Halves()), out=folder, resume=True)
    np.testing.assert_array_equal(again.model.flatten(), train(own).model.flatten())


def test_run_with_a_prior_of_the_package_is_not_resumed_with_another_of_its_spec(tmp_path: Path) -> None:
    train_until(2, replace(TINY, noise="uniform:2"), tmp_path / "run")
    refused("other settings", train, replace(TINY, noise=Halves()), out=tmp_path / "run", resume=True)
