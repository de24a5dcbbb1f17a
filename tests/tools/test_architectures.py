"""docs/architectures.md: its tables and figures come from what was measured, and gaps are shown as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf

pytest.importorskip("torch", reason="needs torch: make test-torch installs it")

import architectures
import architectures_page as page
import train_architectures as training


def evaluation(loss: float | None) -> dict[str, Any]:
    return {"adjusted_loss": loss, "standard_error": 0.001 if loss else None}


KNOWN: dict[str, Any] = {
    "trained": {"softmax-1-uniform-5": {"family": "softmax", "layers": 1, "size": 242, "rate": 0.01, "steps": 4000}},
    "losses": {
        "uniform:5": {
            "1": {"linear": evaluation(0.9), "softmax": evaluation(2.0)},
            "2": {"linear": evaluation(0.3)},
            "references": {"Bayes limit": evaluation(0.04)},
        }
    },
    "profiles": {"uniform:5": {"levels": [0.0, 1.0], "evaluations": {"linear": [evaluation(0.5), evaluation(None)]}}},
    "lengths": {"lengths": [20, 100], "evaluations": {"linear / n": [evaluation(0.06), evaluation(1e9)]}},
    "shifts": {"kappa:10": {"linear": {"ratio": 2.5}, "softmax": {"ratio": None}}},
    "attacks": {"OLS": {"y": {"median": 3.25, "reached": 1.0}, "both": {"median": None, "reached": 0.0}}},
}


def test_page_is_written_from_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "architectures.md"
    copy.write_text(page.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", copy)
    monkeypatch.setattr(page, "FIGURES", tmp_path)
    page.write_page(KNOWN, None, [family.label for family in training.FAMILIES])
    text = copy.read_text(encoding="utf-8")
    for line in (
        "| softmax | 1 | 242 | 0.01 | 4,000 |",
        "| linear | 0.9 ± 0.001 | 0.3 ± 0.001 |",
        "| softmax | 2 ± 0.001 |  |",
        "| Bayes limit | 0.04 ± 0.001 |  |",
        "| linear | 0.5 | explodes |",
        "| linear / n | 0.06 | explodes |",
        "| softmax | explodes |",
        "| OLS | 3.25 | 100 % | – | 0 % |",
    ):
        assert line in text
    assert b"layers" in (tmp_path / "architectures-depth.svg").read_bytes()
    assert (tmp_path / "architectures-length.svg").exists()


def test_module_divided_by_n_is_the_same_at_the_length_of_training() -> None:
    linear = rf.torch.Architecture("linear", layers=2, dim=3).make(dtype="float64")
    drawn = rf.Task(3, 20).draw_tokens(4, seed=0)
    inputs = (drawn.X, drawn.y, drawn.query[:, None])
    found = architectures.divided(linear, 20).predict(*inputs)
    assert found == pytest.approx(linear.predict(*inputs), rel=1e-5)


def test_jobs_have_names_of_their_own_and_can_be_made() -> None:
    jobs = training.jobs()
    assert len({job.name for job in jobs}) == len(jobs)
    assert "softmax-4-uniform-5" in {job.name for job in jobs}
    assert all(job.architecture.layers == job.layers for job in jobs)


def test_job_is_trained_kept_and_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MODELS", tmp_path / "models")
    monkeypatch.setattr(training, "STEPS", 3)
    job = next(job for job in training.jobs() if job.name == "linear-1-uniform-5")
    assert "linear-1-uniform-5: adjusted loss" in training.train_job(job, tmp_path / "runs")
    assert rf.torch.load(tmp_path / "models" / "linear-1-uniform-5.safetensors").layers == 1
    monkeypatch.setattr(training, "train", None)
    training.train_job(job, tmp_path / "runs")


def test_shipped_modules_are_small_and_say_how_good_they_are() -> None:
    names = rf.torch.shipped_names()
    assert sum((training.MODELS / f"{name}.safetensors").stat().st_size for name in names) <= 2_000_000
    for name in names:
        module = rf.torch.load(name)
        assert 0 < module.info["evaluation"]["median"] < 10  # means of deep linear ones explode
        assert module.info["training"]["engine"] == "torch"
