"""Fresh contexts, sorted by their noise."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import Sample
from ridgeformer.analysis.noise_bands import noise_bands, typical
from support import make_examples, one_sentence, tame_model


@pytest.mark.parametrize(
    ("noise", "labels"),
    [
        ("uniform:5", ["0–1", "1–2", "2–3", "3–4", "4–5"]),
        ("categorical:1+3", ["1", "3"]),
        ("fixed:0", ["0"]),
    ],
)
def test_every_context_is_in_one_band(noise: str, labels: list[str]) -> None:
    prior = rf.parse_noise(noise)
    sigma = prior.sample(np.random.default_rng(0), 400)
    bands = noise_bands(sigma, prior)
    assert [band.label for band in bands] == labels
    assert sorted(np.concatenate([band.members for band in bands])) == list(range(400))
    assert all(((sigma[band.members] >= band.low) & (sigma[band.members] <= band.high)).all() for band in bands)


def test_typical_contexts_leave_out_explosions() -> None:
    losses = np.r_[np.ones(1999), np.inf]
    assert typical(losses).sum() == 1999
    assert not typical(np.full(3, np.inf)).any()


def test_sample_is_what_evaluate_draws() -> None:
    model = tame_model("diag", 2, 1, 4, make_examples(8, 12, 4, seed=3).gram)
    sample = Sample.draw(rf.Task(4, 12, "uniform:2"), 500, seed=7)
    expected = rf.evaluate(model, rf.Task(4, 12, "uniform:2"), 500, seed=7)
    assert sample.losses(sample.layer_weights(model)[-1]).mean() == pytest.approx(expected.adjusted_loss, rel=1e-12)


def test_sample_of_what_is_no_task_or_too_large_for_memory_is_refused() -> None:
    with pytest.raises(rf.InputError, match="task must be a Task") as caught:
        Sample.draw("uniform:5")  # type: ignore[arg-type]
    one_sentence(caught.value)
    with pytest.raises(rf.InputError, match="at most") as caught:
        Sample.draw(rf.Task(), 10**9)
    one_sentence(caught.value)
