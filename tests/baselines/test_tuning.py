"""Tuned parameters: the best of their family, independent of everything but the task, and kept on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ridgeformer as rf
import ridgeformer.kernels.engine
from ridgeformer.baselines import AdaRR, ConstRR, TunedRR, tuning
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose
from ridgeformer.evaluation import compare
from support import run_python

CONTEXTS = 4000  # instead of 200 000: enough to tell good parameters from bad, and soon done
TASK = rf.Task(4, 8, "uniform:2")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, on disk and in the process."""
    monkeypatch.setenv("RIDGEFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "_CONTEXTS", CONTEXTS)
    monkeypatch.setattr(tuning, "_known", {})
    return tmp_path / "cache"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process would know: nothing."""
    monkeypatch.setattr(tuning, "_known", {})


def kept_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def tuning_loss(task: rf.Task, predictor: ConstRR | TunedRR | AdaRR) -> float:
    """Mean adjusted loss on the very contexts that tuning uses."""
    losses = [
        0.5 * ((predictor.weights(draw.context) - draw.oracle) ** 2).sum(axis=1)
        for draw in task.chunks(CONTEXTS, tuning.SEED, Purpose.TUNE)
    ]
    return float(np.concatenate(losses).mean())


TASKS = [
    TASK,
    rf.Task(4, 8, "categorical:1+3"),
    rf.Task(4, 8, "categorical:0+0.1+30"),
    rf.Task(4, 5, "uniform:5"),
    rf.Task(4, 4, "uniform:2"),
    rf.Task(6, 3, "uniform:2"),
    rf.Task(2, 300, "uniform:5"),
    rf.Task(4, 8, "fixed:1.5"),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.dim},{task.examples},{task.prior.spec}")
def test_tuned_parameters_are_the_best_of_their_family(task: rf.Task) -> None:
    constant, capped = ConstRR.tuned(task), TunedRR.tuned(task)
    best = tuning_loss(task, constant)
    others = np.geomspace(1e-3, 1e3, 25) if task.prior.spec != "fixed:1.5" else np.array([2.2, 2.3])
    # A thousandth for a grid that happens to hold a value as good.
    assert all(tuning_loss(task, ConstRR(float(v))) >= 0.999 * best for v in [0.0, *others])
    best_capped = tuning_loss(task, capped)
    assert best_capped <= 1.0001 * best  # a fixed level: one part in 1e4 of next to nothing
    assert best_capped <= tuning_loss(task, AdaRR())
    for factor in (0.8, 1.25):  # the neighbours, along both axes and across
        for c, cap in ((factor, 1.0), (1.0, factor), (factor, 1 / factor)):
            # With a single residual, ConstRR is best, and c ends at the edge of its range.
            slack = 0.995 if task.examples == task.dim + 1 else 1
            assert tuning_loss(task, TunedRR(c * capped.c, cap * capped.cap)) >= slack * best_capped


def test_tuned_constant_for_a_fixed_level_is_its_square() -> None:
    assert ConstRR.tuned(rf.Task(4, 8, "fixed:1.5")).v == pytest.approx(2.25, rel=1e-4)


@pytest.mark.parametrize("task", [rf.Task(4, 8, "uniform:0"), rf.Task(4, 2, "fixed:0"), rf.Task(4, 8, "fixed:1e-160")])
def test_tuned_without_noise_has_no_penalty(task: rf.Task) -> None:
    assert ConstRR.tuned(task) == ConstRR(0.0)
    assert TunedRR.tuned(task) == TunedRR(1.0, 0.0)
    found = compare({"ConstRR": ConstRR.tuned(task), "TunedRR": TunedRR.tuned(task)}, task, sequences=1000)
    assert all(evaluation.maximum < 1e-18 for evaluation in found.evaluations.values())


def test_tuned_parameters_do_not_depend_on_evaluations(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    first = TunedRR.tuned(TASK)
    for seed in (tuning.SEED, 1):
        rf.evaluate(first, TASK, sequences=100, seed=seed)
    forget(monkeypatch)
    monkeypatch.setenv("RIDGEFORMER_CACHE_DIR", str(cache_folder / "another"))
    assert TunedRR.tuned(TASK) == first
    tuned_on = TASK.draw_contexts(5, seed=tuning.SEED, purpose=Purpose.TUNE)
    judged_on = TASK.draw_contexts(5, seed=tuning.SEED, purpose=Purpose.EVALUATE)
    assert not np.isclose(tuned_on.context.gram, judged_on.context.gram).any()


def test_tuning_happens_once_per_task(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ConstRR.tuned(TASK), TunedRR.tuned(TASK)
    monkeypatch.setattr(tuning, "tune", None)  # would fail
    assert (ConstRR.tuned(TASK), TunedRR.tuned(rf.Task(4, 8, rf.Uniform(2)))) == found
    forget(monkeypatch)
    assert (ConstRR.tuned(TASK), TunedRR.tuned(TASK)) == found  # from disk, to the last bit


def test_kept_parameters_are_read_by_another_process(cache_folder: Path) -> None:
    ConstRR.tuned(TASK)
    (path,) = kept_files(cache_folder)
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "values": [123.0, 4.0, None]}))  # so that only this file can be the source
    code = """
import ridgeformer as rf
from ridgeformer.baselines import ConstRR, TunedRR
task = rf.Task(4, 8, "uniform:2")
print(ConstRR.tuned(task).v, TunedRR.tuned(task).c, TunedRR.tuned(task).cap)
"""
    assert run_python(code, RIDGEFORMER_CACHE_DIR=str(cache_folder)).split() == ["123.0", "4.0", "inf"]


def test_kept_parameters_are_told_apart_by_all_that_decides_them(
    monkeypatch: pytest.MonkeyPatch, cache_folder: Path
) -> None:
    for task in (TASK, rf.Task(4, 9, "uniform:2"), rf.Task(3, 8, "uniform:2"), rf.Task(4, 8, "uniform:2.0001")):
        ConstRR.tuned(task)
    assert len(kept_files(cache_folder)) == 4
    monkeypatch.setattr(tuning, "VERSION", tuning.VERSION + 1)
    forget(monkeypatch)
    ConstRR.tuned(TASK)
    assert len(kept_files(cache_folder)) == 5


BAD_VALUES = [
    "[1, 2]",
    '[1, 2, "three"]',
    "[-1, 1, 1]",
    "[NaN, 1, 1]",
    "[1, Infinity, 1]",
    "[1, 1, 1" + "0" * 10**5 + "]",
]
DAMAGED = [f'{{"key": "KEY", "values": {values}}}'.encode() for values in BAD_VALUES]
DAMAGED += [b"", b"{", b"\xff\xfe\x00", b"[]", b"7", b'{"key": "another", "values": [1, 1, 1]}', b"[" * 9000]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_files_are_tuned_again_and_replaced(
    monkeypatch: pytest.MonkeyPatch, cache_folder: Path, content: bytes
) -> None:
    found = TunedRR.tuned(TASK)
    (path,) = kept_files(cache_folder)
    good = path.read_bytes()
    path.write_bytes(content.replace(b"KEY", json.loads(good)["key"].encode()))
    forget(monkeypatch)
    assert TunedRR.tuned(TASK) == found
    assert path.read_bytes() == good


def test_unusable_cache_folder_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache_folder: Path) -> None:
    found = TunedRR.tuned(TASK)
    (path,) = kept_files(cache_folder)
    path.unlink()
    path.mkdir()  # a folder at the place of the file
    forget(monkeypatch)
    assert TunedRR.tuned(TASK) == found
    assert list(path.parent.iterdir()) == [path]  # no leavings of a write that failed
    (tmp_path / "file").write_text("in the way")
    for folder in (str(tmp_path / "file"), "/proc/nowhere", str(tmp_path / ("x" * 300))):
        monkeypatch.setenv("RIDGEFORMER_CACHE_DIR", folder)
        forget(monkeypatch)
        assert TunedRR.tuned(TASK) == found


def test_cache_lives_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RIDGEFORMER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    ConstRR.tuned(TASK)
    assert len(kept_files(tmp_path / "xdg" / "ridgeformer")) == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    forget(monkeypatch)
    ConstRR.tuned(TASK)
    assert len(kept_files(tmp_path / "home" / ".cache" / "ridgeformer")) == 1


@dataclass
class Coin:
    """A user's prior, which cannot be hashed, with a spec that is taken or means nothing."""

    spec: str

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return 2.0 * rng.integers(2, size=size)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.array([0.0, 2.0]), np.array([0.5, 0.5])


class LoudUniform(rf.Uniform):
    """A user's prior with the spec of another, which can be hashed."""

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return super().sample(rng, size) ** 2


@pytest.mark.parametrize("prior", [Coin("coin"), Coin("uniform:2"), LoudUniform(2)], ids=["own", "taken", "subclass"])
def test_priors_of_the_user_are_tuned_but_not_kept(prior: rf.NoisePrior, cache_folder: Path) -> None:
    task = rf.Task(4, 8, prior)
    found = ConstRR.tuned(task)
    assert found == ConstRR.tuned(task)
    assert found != ConstRR.tuned(TASK)
    assert len(kept_files(cache_folder)) == 1  # of TASK
