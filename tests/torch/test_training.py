"""Training by torch: the package's contexts, its guard, its folders; resuming gives every bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.validation import RidgeformerError
from ridgeformer.training.train import TrainingDivergedError, TrainingInterruptedError
from support import refusal

torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
rt: Any = pytest.importorskip("ridgeformer.torch")
steps: Any = pytest.importorskip("ridgeformer.torch.steps")

TASK = rf.Task(3, 8, "uniform:2")
QUICK: dict[str, Any] = {"steps": 40, "batch": 8, "sequences": 30}


def softmax(seed: int = 0, **options: Any) -> Any:
    return rt.Architecture("softmax", layers=2, dim=3, **options).make(seed=seed)


def same_weights(first: Any, second: Any) -> bool:
    one, other = first.state_dict(), second.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- what is learned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task",
    [
        rf.Task(3, 8, features="kappa:10"),
        rf.Task(3, "5..9"),
        rf.Task(3, 8, weights="sparse:1"),
        rf.Task(3, 2),
    ],
    ids=["features", "range", "weights", "n < d"],
)
def test_any_task_can_be_trained_on(task: rf.Task) -> None:
    for module in (softmax(), rt.LinearTransformer("diag", layers=2, dim=3)):
        batches = steps.draw_batches(module, task, rt.TrainSettings(batch=16), 0)
        assert sum(len(batch.aim) for batch in batches) == 16
        result = rt.train(module, task, **{**QUICK, "steps": 3})
        assert np.isfinite(result.evaluation.adjusted_loss)


@pytest.mark.parametrize(("kind", "rate"), [("softmax", 1e-2), ("elu", 1e-2), ("linear", 1e-2), ("diag", 1e-2)])
def test_training_lowers_the_loss(kind: str, rate: float) -> None:
    module = rt.Architecture(kind, layers=2, dim=2).make()
    task = rf.Task(2, 8, "fixed:0.5")
    before = rf.evaluate(module, task, 500).adjusted_loss
    result = rt.train(module, task, steps=300, batch=32, rate=rate, sequences=500)
    assert result.model is module
    assert result.evaluation.adjusted_loss < 0.9 * before  # elu learns least; nothing learned would be 1


def test_causal_module_learns_at_every_prefix() -> None:
    module = softmax(causal=True)
    (batch,) = steps.draw_batches(module, TASK, rt.TrainSettings(batch=4), 0)
    assert batch.aim.shape == (4, 8 + 10)
    result = rt.train(module, TASK, **QUICK)
    assert np.isfinite(result.evaluation.adjusted_loss)


# --- runs on disk -----------------------------------------------------------------------------------------------------


def stop_at(step: int) -> Callable[[Any], None]:
    def callback(info: Any) -> None:
        if info.total == step:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("optimiser", sorted(steps.OPTIMISERS))
@pytest.mark.parametrize("kind", ["softmax", "diag"])
def test_resumed_run_gives_every_bit_of_an_uninterrupted_one(kind: str, optimiser: str, tmp_path: Path) -> None:
    def make() -> Any:
        return rt.Architecture(kind, layers=2, dim=3).make()

    options: dict[str, Any] = {**QUICK, "optimiser": optimiser}
    whole = rt.train(make(), TASK, out=tmp_path / "whole", **options)
    with pytest.raises(TrainingInterruptedError, match="ridgeformer train --resume"):
        rt.train(make(), TASK, out=tmp_path / "cut", callbacks=stop_at(17), **options)
    other = rt.Architecture(kind, layers=2, dim=3).make(seed=9)  # whatever weights the module has
    resumed = rt.train(other, TASK, out=tmp_path / "cut", resume=True, **options)
    assert same_weights(whole.model, resumed.model)
    assert resumed.history == whole.history
    for name in ("model.safetensors", "result.json", "history.jsonl", "config.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert same_weights(rt.load(tmp_path / "cut" / "model.safetensors"), whole.model)


def test_run_goes_on_from_its_folder_alone_and_after_a_damaged_checkpoint(tmp_path: Path) -> None:
    whole = rt.train(softmax(), TASK, **QUICK)
    with pytest.raises(TrainingInterruptedError):
        rt.train(softmax(), TASK, out=tmp_path, callbacks=stop_at(17), checkpoint_seconds=0, **QUICK)
    newest = sorted((tmp_path / "checkpoints").iterdir())[-1]
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)
    complaints: list[str] = []
    resumed = rt.resume_run(tmp_path, on_message=complaints.append, device="cpu")
    assert "damaged" in complaints[0]
    assert same_weights(resumed.model, whole.model)


def test_nothing_in_a_run_folder_is_a_pickle(tmp_path: Path) -> None:
    rt.train(softmax(), TASK, out=tmp_path, **QUICK)
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "lock":
            assert path.suffix in (".safetensors", ".json", ".jsonl")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["engine"] == "torch"
    assert config["module"]["kind"] == "softmax"


def test_folders_of_the_two_engines_are_told_apart(tmp_path: Path) -> None:
    rt.train(softmax(), TASK, out=tmp_path / "torch", **QUICK)
    ours = rf.TrainConfig(kind="diag", layers=1, dim=3, examples=8, recipe="paper", steps=3, batch=4, sequences=10)
    rf.train(ours, out=tmp_path / "ours")
    with refusal("already holds a run"):
        rf.train(ours, out=tmp_path / "torch")
    with refusal("already holds a run"):
        rt.train(softmax(), TASK, out=tmp_path / "ours", **QUICK)
    with refusal():
        rf.train(ours, out=tmp_path / "torch", resume=True)
    with refusal():
        rt.train(softmax(), TASK, out=tmp_path / "ours", resume=True, **QUICK)
    with refusal("other settings"):
        rt.train(softmax(), TASK, out=tmp_path / "torch", resume=True, **{**QUICK, "rate": 0.5})
    rt.train(softmax(), TASK, out=tmp_path / "ours", overwrite=True, **QUICK)


def test_module_of_somebody_else_is_trained_kept_and_resumed(tmp_path: Path) -> None:
    class Ridge(torch.nn.Module):  # type: ignore[misc, name-defined]
        """Ridge regression with a penalty that is learned."""

        def __init__(self) -> None:
            super().__init__()
            self.penalty = torch.nn.Parameter(torch.tensor(0.1))

        def forward(self, X: Any, y: Any, queries: Any) -> Any:
            scatter = X.mT @ X + self.penalty.exp() * torch.eye(X.shape[-1])
            weights = torch.linalg.solve(scatter, X.mT @ y[..., None])
            return (queries @ weights)[..., 0]

    whole = rt.train(Ridge(), TASK, **QUICK)
    with pytest.raises(TrainingInterruptedError):
        rt.train(Ridge(), TASK, out=tmp_path, callbacks=stop_at(17), **QUICK)
    with refusal("not of this package"):
        rt.resume_run(tmp_path)
    resumed = rt.train(Ridge(), TASK, out=tmp_path, resume=True, **QUICK)
    assert same_weights(resumed.model, whole.model)
    assert (tmp_path / "model.safetensors").exists()


# --- guard ------------------------------------------------------------------------------------------------------------


def test_steps_that_explode_are_skipped_and_the_run_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = steps.losses, iter(range(10_000))

    def faulty(*arguments: Any) -> Any:
        found = real(*arguments)
        return found * float("nan") if 10 <= next(calls) < 35 else found

    monkeypatch.setattr(steps, "losses", faulty)
    result = rt.train(softmax(), TASK, **{**QUICK, "steps": 60})
    assert result.skipped == 25
    assert result.rewinds == 1
    assert all(torch.isfinite(tensor).all() for tensor in result.model.state_dict().values())
    assert sum(row["rewound"] for row in result.history) == 1


def test_resumed_run_goes_back_to_the_same_safe_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Faults come after the interruption, so that the weights to go back to are those from the checkpoint."""
    real = steps.losses

    def faulty_from(first: int) -> None:
        calls = iter(range(10_000))
        faulty = range(first, first + 25)
        nan = float("nan")
        monkeypatch.setattr(steps, "losses", lambda *given: real(*given) * (nan if next(calls) in faulty else 1.0))

    faulty_from(25)
    whole = rt.train(softmax(), TASK, **{**QUICK, "steps": 60})
    assert whole.rewinds == 1
    faulty_from(25)
    with pytest.raises(TrainingInterruptedError):
        rt.train(softmax(), TASK, out=tmp_path, callbacks=stop_at(17), **{**QUICK, "steps": 60})
    faulty_from(25 - 17)
    resumed = rt.train(softmax(), TASK, out=tmp_path, resume=True, **{**QUICK, "steps": 60})
    assert resumed.rewinds == 1
    assert same_weights(resumed.model, whole.model)


def test_run_that_explodes_for_ever_ends_with_safe_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = steps.losses
    monkeypatch.setattr(steps, "losses", lambda *arguments: real(*arguments) * float("inf"))
    module = softmax()
    with pytest.raises(TrainingDivergedError, match="smaller rate"):
        rt.train(module, TASK, out=tmp_path, **{**QUICK, "steps": 1000})
    assert same_weights(module, softmax())
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "diverged"


# --- settings ---------------------------------------------------------------------------------------------------------


def test_mixed_precision_and_compilation_are_options() -> None:
    mixed = rt.train(softmax(), TASK, precision="bfloat16", **QUICK)
    assert mixed.model.dtype == torch.float32
    assert np.isfinite(mixed.evaluation.adjusted_loss)
    wide = rt.train(softmax(), TASK, precision="float64", **QUICK)
    assert wide.model.dtype == torch.float64


def test_bfloat16_on_a_machine_that_cannot_use_it_is_an_error_of_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> Any:
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(steps, "losses", fails)
    with pytest.raises(RidgeformerError, match="cannot use bfloat16 on this machine"):
        rt.train(softmax(), TASK, precision="bfloat16", **QUICK)
    with pytest.raises(RuntimeError, match="primitive"):  # then it has another cause
        rt.train(softmax(), TASK, **QUICK)


def test_compile_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    def stand_in(module: Any) -> Any:
        compiled.append(module)
        return module

    monkeypatch.setattr(torch, "compile", stand_in)
    rt.train(softmax(), TASK, compile=True, **QUICK)
    assert len(compiled) == 1


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    rt.train(softmax(), TASK, threads=2, **QUICK)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("Did you mean 'steps'", lambda: rt.train(softmax(), TASK, step=3)),
        ("rate", lambda: rt.train(softmax(), TASK, rate=0)),
        ("Did you mean 'adam'", lambda: rt.train(softmax(), TASK, optimiser="adm")),
        ("precision", lambda: rt.train(softmax(), TASK, precision="int8")),
        ("features", lambda: rt.train(softmax(), rf.Task(4, 8))),
        ("Module", lambda: rt.train("softmax", TASK)),
        ("must be a Task", lambda: rt.train(softmax(), 5)),
        ("resume=True", lambda: rt.train(softmax(), TASK, resume=True)),
        ("callbacks", lambda: rt.train(softmax(), TASK, callbacks=[3])),
        ("no device", lambda: rt.train(softmax(), TASK, device="cuda")),
        ("meta", lambda: rt.train(rt.Architecture("elu", dim=3).make(device="meta"), TASK)),
        ("Pass a Task", lambda: rt.train(torch.nn.Linear(2, 2), "uniform:5")),
        ("queries", lambda: rt.TrainSettings(queries=21)),
        ("compile", lambda: rt.TrainSettings(compile="yes")),
    ],
)
def test_what_does_not_fit_is_refused_with_one_sentence(message: str, call: Callable[[], Any]) -> None:
    with refusal(message):
        call()
