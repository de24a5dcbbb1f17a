"""The guard: steps that explode are skipped, then rewound, and a run that cannot recover says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.training import TrainConfig, TrainingDivergedError, train
from ridgeformer.training.steps import StepInfo, Trainer
from ridgeformer.types import Array

CONFIG = TrainConfig(model="full", layers=2, dim=3, context=8, steps=300, batch=32, sequences=500, noise="uniform:2")

FAULTS: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "loss is NaN": lambda losses, gradient: (np.full_like(losses, np.nan), gradient),
    "loss is infinite": lambda losses, gradient: (np.full_like(losses, np.inf), gradient),
    "loss explodes": lambda losses, gradient: (losses * 1e9, gradient),
    "gradient is NaN": lambda losses, gradient: (losses, np.full_like(gradient, np.nan)),
    "gradient has one infinity": lambda losses, gradient: (losses, np.r_[np.inf, gradient[1:]]),
}


def run(config: TrainConfig, faults: dict[int, str]) -> tuple[Trainer, list[StepInfo], Array]:
    """All steps of a run with faults injected at these steps."""

    def tamper(total: int, losses: Array, gradient: Array) -> tuple[Array, Array]:
        return FAULTS[faults[total]](losses, gradient) if total in faults else (losses, gradient)

    trainer = Trainer(config, tamper=tamper)
    state, infos = trainer.start(), []
    while not trainer.finished(state) and not trainer.diverged(state):
        state, info = trainer.step(state)
        infos.append(info)
        assert np.isfinite(state.vector).all()
    assert state.skipped == sum(info.skipped for info in infos)
    assert state.rewinds == sum(info.rewound for info in infos)
    return trainer, infos, trainer.model(state).flatten()


def test_single_faults_at_two_hundred_points_are_skipped_and_counted() -> None:
    # Steps 20 … 219, so that the running loss that explosions are measured against exists; kinds in turn.
    kinds = list(FAULTS)
    faults = {20 + number: kinds[number // 2 % len(kinds)] for number in range(200) if number % 2 == 0}
    faults |= {300 + number: kinds[number // 2 % len(kinds)] for number in range(60) if number % 2 == 0}
    rest = {total for total in range(20, 360) if total not in faults}
    _, infos, vector = run(CONFIG, faults)
    assert {info.total - 1 for info in infos if info.skipped} == set(faults)
    assert not any(info.rewound for info in infos)
    assert rest
    assert np.isfinite(vector).all()


@pytest.mark.parametrize("kind", list(FAULTS))
@pytest.mark.parametrize("at", [15, 40, 41, 77, 123, 150, 199, 200, 250, 299])
def test_fault_of_any_kind_at_any_step_does_not_reach_the_weights(kind: str, at: int) -> None:
    config = replace(CONFIG, batch=8)
    _, infos, vector = run(config, {at: kind})
    assert [info.total - 1 for info in infos if info.skipped] == [at]
    assert np.isfinite(vector).all()


def test_faults_in_a_row_make_the_run_go_back_and_halve_its_step() -> None:
    _, infos, _ = run(CONFIG, dict.fromkeys(range(120, 140), "gradient is NaN"))
    (back,) = [info for info in infos if info.rewound]
    assert back.total == 140  # after twenty bad steps
    after = next(info for info in infos if info.total == 141)
    before = next(info for info in infos if info.total == 120)
    assert after.rate < 0.6 * before.rate


def test_run_that_never_recovers_ends_as_diverged_with_finite_weights(tmp_path: Path) -> None:
    def tamper(total: int, losses: Array, gradient: Array) -> tuple[Array, Array]:
        return (losses, gradient * np.nan) if total >= 50 else (losses, gradient)

    with pytest.raises(TrainingDivergedError, match="Training diverged"):
        train(CONFIG, out=tmp_path / "run", tamper=tamper)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "diverged"
    assert result["rewinds"] == 9
    kept = rf.load(tmp_path / "run" / "model.safetensors")
    assert np.isfinite(kept.flatten()).all()
    assert np.abs(kept.flatten()).max() > 0
    skipped = [json.loads(line)["skipped"] for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert sum(skipped) == result["skipped"] >= 9 * 20  # twenty bad steps before each return


def test_training_learns_and_calls_back_after_every_step() -> None:
    seen: list[StepInfo] = []
    config = TrainConfig(model="diag", layers=1, dim=2, context=6, steps=200, batch=256, sequences=5000)
    result = train(config, callbacks=[seen.append])
    assert [info.total for info in seen] == list(range(1, result.steps + 1))
    zero = rf.LinearTransformer.init("diag", layers=1, dim=2, scale=0.0)
    # One layer of gradient descent is far better than predicting zero; by how much depends on the task.
    assert result.evaluation.adjusted_loss < 0.7 * rf.evaluate(zero, config.task, 5000).adjusted_loss


def test_training_does_not_depend_on_the_number_of_threads() -> None:
    config = replace(CONFIG, steps=30, batch=400)
    one, two = (train(config, threads=threads).model.flatten() for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("model", ["gdpp", "diag", "full"])
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_every_recipe_runs_on_other_sizes_and_heads(model: str, recipe: str) -> None:
    config = TrainConfig(
        model=model,
        recipe=recipe,
        layers=2,
        heads=2,
        dim=4,
        context=3,
        noise="fixed:1",
        steps=4,
        batch=32,
        sequences=50,
    )
    assert np.isfinite(train(config).evaluation.adjusted_loss)
