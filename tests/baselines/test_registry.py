"""The list of baselines, and properties that hold for every one of them, searched for counter-examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.baselines import BASELINES, OLS, AdaRR, Bayes, ConstRR, IterativeAdaRR, Oracle, TunedRR
from ridgeformer.core.notation import Array
from support import Examples, make_examples, relative_error, rotation

PREDICTORS = (
    OLS(),
    Oracle(1.3),
    ConstRR(0.7),
    AdaRR(),
    TunedRR(1.3, 2.0),
    IterativeAdaRR(15),
    Bayes("uniform:3"),
    Bayes("uniform:0.5-2"),
    Bayes("categorical:0+1+3"),
)
# Float64 rounding times condition numbers of Σ; contexts beyond 1e6 are not drawn. Measured, the worst is 1e-11.
TIGHT = 1e-8

seeds = st.integers(0, 2**32 - 1)
predictors = st.sampled_from(PREDICTORS)


@st.composite
def contexts(draw: st.DrawFn) -> Examples:
    dim, n = draw(st.integers(1, 6)), draw(st.integers(1, 14))
    examples = make_examples(3, n, dim, draw(seeds))
    smallest = np.linalg.svd(examples.X, compute_uv=False)[:, -1].min()
    return examples if smallest > 1e-2 else make_examples(3, 20, dim, 0)


def weights(predictor: Any, X: Array, y: Array) -> Array:
    return predictor.weights(rf.Context.from_tokens(X, y))


def test_registry_has_every_baseline_with_what_tables_and_legends_need() -> None:
    assert list(BASELINES) == ["ols", "constrr", "adarr", "tunedrr", "iterative", "bayes", "oracle"]
    assert [name for name, baseline in BASELINES.items() if baseline.in_table1] == ["constrr", "adarr", "tunedrr"]
    assert [name for name, baseline in BASELINES.items() if baseline.limit] == ["bayes"]
    assert len({baseline.label for baseline in BASELINES.values()}) == len(BASELINES)
    assert all(baseline.summary.endswith(".") for baseline in BASELINES.values())
    assert BASELINES["bayes"].make(rf.Task(noise="uniform:3")) == Bayes("uniform:3")
    classes = {type(predictor) for predictor in PREDICTORS}
    tuned = {"constrr": ConstRR, "tunedrr": TunedRR}  # which take a second to make
    made = {name: tuned[name] if name in tuned else type(entry.make(rf.Task())) for name, entry in BASELINES.items()}
    assert set(made.values()) == classes


@given(predictors, contexts(), seeds)
def test_weights_under_rotation_rotate_along(predictor: Any, examples: Examples, seed: int) -> None:
    R = rotation(examples.X.shape[2], seed)
    plain = weights(predictor, examples.X, examples.y)
    assert relative_error(weights(predictor, examples.X @ R.T, examples.y), plain @ R.T) < TIGHT


@given(predictors, contexts(), seeds)
def test_weights_under_a_new_context_order_stay_the_same(predictor: Any, examples: Examples, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(examples.y.shape[1])
    shuffled = weights(predictor, examples.X[:, order], examples.y[:, order])
    assert relative_error(shuffled, weights(predictor, examples.X, examples.y)) < TIGHT


@given(predictors, contexts())
def test_weights_change_sign_with_the_targets(predictor: Any, examples: Examples) -> None:
    flipped = weights(predictor, examples.X, -examples.y)
    assert relative_error(flipped, -weights(predictor, examples.X, examples.y)) < TIGHT


@given(st.sampled_from([OLS(), ConstRR(0.7), Oracle(1.3)]), contexts(), st.floats(0.01, 100))
def test_weights_of_a_fixed_penalty_scale_with_the_targets(predictor: Any, examples: Examples, factor: float) -> None:
    scaled = weights(predictor, examples.X, factor * examples.y)
    assert relative_error(scaled, factor * weights(predictor, examples.X, examples.y)) < TIGHT


@given(contexts(), st.floats(0.01, 100))
def test_weights_of_adarr_with_everything_scaled_stay_the_same(examples: Examples, factor: float) -> None:
    """Examples in other units, x and y alike: σ̂² scales as Σ does. (The energy rule of n ≤ d does the same.)"""
    scaled = weights(AdaRR(), factor * examples.X, factor * examples.y)
    assert relative_error(scaled, weights(AdaRR(), examples.X, examples.y)) < TIGHT


@given(contexts(), st.floats(0.1, 10))
def test_weights_of_bayes_with_everything_scaled_need_a_scaled_prior(examples: Examples, factor: float) -> None:
    scaled = weights(Bayes(rf.Uniform(3 * factor)), factor * examples.X, factor * examples.y)
    assert relative_error(scaled, weights(Bayes("uniform:3"), examples.X, examples.y)) < TIGHT


@given(contexts(), seeds)
def test_weights_of_a_context_do_not_depend_on_its_batch(examples: Examples, seed: int) -> None:
    predictor = PREDICTORS[seed % len(PREDICTORS)]
    together = weights(predictor, examples.X, examples.y)
    alone = np.concatenate([weights(predictor, examples.X[i : i + 1], examples.y[i : i + 1]) for i in range(3)])
    assert relative_error(alone, together) < TIGHT


@given(contexts(), st.floats(0.01, 5), st.floats(1.01, 10))
def test_more_penalty_makes_shorter_weights(examples: Examples, penalty: float, factor: float) -> None:
    less, more = (weights(ConstRR(v), examples.X, examples.y) for v in (penalty, factor * penalty))
    assert (np.linalg.norm(more, axis=1) < np.linalg.norm(less, axis=1)).all()


@given(contexts())
def test_bayes_is_between_the_ridges_of_its_noise_levels(examples: Examples) -> None:
    """In length: it is an average of ridge regressions with penalties between the squared ends of the prior."""
    least, most = (np.linalg.norm(weights(Oracle(s), examples.X, examples.y), axis=1) for s in (2.0, 0.5))
    found = np.linalg.norm(weights(Bayes("uniform:0.5-2"), examples.X, examples.y), axis=1)
    assert ((least < found) & (found < most)).all()
