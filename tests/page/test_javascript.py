"""The page's forward pass, baselines and random numbers in Node, against Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from javascript import MATHS, run_javascript
from made_up import page_baselines
from ridgeformer.analysis.ablation import mark, switched_off
from ridgeformer.analysis.diagonal import inert
from ridgeformer.core.notation import Array
from ridgeformer.page.models import encode_model, encode_models, page_model_names
from ridgeformer.theory.implicit_model import implicit_models, layer_blocks
from ridgeformer.theory.step_size import effective_step_size
from support import VARIANTS, Examples, make_examples, relative_error, tame_model

TOLERANCE = 1e-6
"""What the page promises. Float64 on both sides gives 1e-11 and better; deep models amplify rounding."""

RUN = """
const model = ridgeformer.model.decodeModel(input.model);
const gram = ridgeformer.model.gramMatrix(input.X, input.y);
return ridgeformer.model.runModel(model, gram, new Set(input.off ?? []));
"""


def run_model(name: str, model: rf.LinearTransformer, X: Array, y: Array, off: list[str] | None = None) -> Any:
    """Every layer's reading, as the page computes it."""
    payload = {"model": encode_model(name, model), "X": X.tolist(), "y": y.tolist(), "off": off}
    return run_javascript(RUN, payload)


def weights_of(layers: Any) -> Array:
    return np.array([layer["weights"] for layer in layers])


def expected_weights(model: rf.LinearTransformer, examples: Examples) -> Array:
    """(layers, d) of the first context."""
    X, y = examples.X[:1], examples.y[:1]
    return np.concatenate([rf.implicit_weights(model, X, y, layers=k + 1) for k in range(model.layers)])


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize(("heads", "n", "dim"), [(1, 20, 10), (3, 7, 4), (2, 1, 1)])
def test_forward_pass_of_a_random_model_gives_the_weights_of_python(kind: str, heads: int, n: int, dim: int) -> None:
    examples = make_examples(1, n, dim, seed=3)
    model = tame_model(kind, 3, heads, dim, examples.gram, seed=heads)
    found = weights_of(run_model("random", model, examples.X[0], examples.y[0]))
    assert relative_error(found, expected_weights(model, examples)) < TOLERANCE


def test_forward_pass_of_every_model_of_the_page_gives_the_weights_of_python() -> None:
    examples = make_examples(1, 20, 10, seed=5)
    names = page_model_names()
    code = f"return input.models.map((model) => ((input) => {{ {RUN} }})({{ ...input, model }}));"
    payload = {"models": encode_models(names), "X": examples.X[0].tolist(), "y": examples.y[0].tolist()}
    for name, layers in zip(names, run_javascript(code, payload), strict=True):
        assert relative_error(weights_of(layers), expected_weights(rf.load(name), examples)) < TOLERANCE, name


def test_another_context_gives_other_weights() -> None:
    """Negative control of the comparisons here: the tolerance tells contexts apart."""
    first, second = make_examples(1, 20, 10, seed=5), make_examples(1, 20, 10, seed=6)
    model = rf.load("diag-4-uniform-5")
    found = weights_of(run_model("diag", model, first.X[0], first.y[0]))
    assert relative_error(found, expected_weights(model, second)) > 1e3 * TOLERANCE


@pytest.mark.parametrize("name", ["gdpp-5-uniform-3", "diag-7-uniform-5", "full-5-uniform-5"])
def test_step_alignment_rescaling_and_energy_are_those_of_the_theory(name: str) -> None:
    examples = make_examples(1, 20, 10, seed=8)
    model, context = rf.load(name), rf.Context.from_tokens(examples.X, examples.y)
    found = run_model(name, model, examples.X[0], examples.y[0])
    P, Q = model.astype(np.float64).attention_matrices()
    states = implicit_models(model, context)
    for place, size in enumerate(effective_step_size(model, context)):
        rescaling = 1 + layer_blocks(P[place], Q[place], states[place].statistics(context)).delta[0]
        expected = {"step": size.step[0], "alignment": size.alignment[0], "energy": size.energy[0]}
        for key, value in (expected | {"rescaling": rescaling}).items():
            assert found[place][key] == pytest.approx(value, rel=TOLERANCE, abs=1e-12), (place, key)


@pytest.mark.parametrize("name", ["gdpp-4-uniform-5", "diag-4-uniform-5", "full-3-uniform-5"])
@pytest.mark.parametrize(("block", "layer"), [("yx", 2), ("xx", None), ("yy", 3), ("xy", None)])
def test_switching_a_block_off_is_the_model_without_it(name: str, block: str, layer: int | None) -> None:
    examples = make_examples(1, 20, 10, seed=9)
    model = rf.load(name)
    off = mark(model.layers, [block], layer)
    keys = [f"{place + 1}{block}" for place in range(model.layers) if layer in (None, place + 1)]
    found = weights_of(run_model(name, model, examples.X[0], examples.y[0], keys))[-1]
    expected = rf.implicit_weights(switched_off(model, off), examples.X, examples.y)[0]
    assert relative_error(found, expected) < TOLERANCE
    if not (model.kind == "gdpp" and block in ("xy", "yy")):  # gdpp has none to switch off
        assert relative_error(found, expected_weights(model, examples)[-1]) > 1e3 * TOLERANCE


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_inert_blocks_are_those_of_python(layers: int) -> None:
    found = run_javascript("return [...ridgeformer.model.inertBlocks(input)];", layers)
    names = np.array([[f"{layer + 1}{block}" for block in ("xx", "xy", "yx", "yy")] for layer in range(layers)])
    assert sorted(found) == sorted(names[inert(layers)])


PRIORS = ("uniform:5", "uniform:1", "uniform:1-3", "uniform:0", "categorical:1+3", "categorical:1+3+5", "fixed:2")


@pytest.mark.parametrize("sigma", [0.0, 0.3, 2.0, 7.0])
@pytest.mark.parametrize("n", [1, 4, 10, 11, 20, 60])
def test_baselines_are_those_of_python(n: int, sigma: float) -> None:
    rng = np.random.default_rng([n, int(10 * sigma)])
    X, w = rng.standard_normal((n, 10)), rng.standard_normal(10)
    y = X @ w + sigma * rng.standard_normal(n)
    code = """
    const gram = ridgeformer.model.gramMatrix(input.X, input.y);
    const known = { dim: 10, examples: input.y.length, sigma: input.sigma };
    return input.priors.map((noise) => ridgeformer.baselines.allBaselines(gram, { ...known, noise }));
    """
    found = run_javascript(code, {"X": X.tolist(), "y": y.tolist(), "sigma": sigma, "priors": PRIORS})
    context = rf.Context.from_tokens(X[None], y[None])
    for spec, weights in zip(PRIORS, found, strict=True):
        for name, predictor in page_baselines(sigma, spec).items():
            assert relative_error(np.array(weights[name]), predictor.weights(context)[0]) < TOLERANCE, (spec, name)


def test_no_bayes_answer_is_made_up_for_a_prior_that_cannot_be_read() -> None:
    specs = [None, "", "uniform:", "uniform:5-1", "cauchy:1", "categorical:1+x", "fixed:-1", "<b>uniform:5</b>"]
    assert run_javascript("return input.map(ridgeformer.baselines.parsePrior);", specs) == [None] * len(specs)


def test_eigenvectors_are_orthonormal_and_rebuild_the_matrix() -> None:
    rng = np.random.default_rng(4)
    half = rng.standard_normal((12, 5))
    matrix = half @ half.T  # seven eigenvalues are zero
    found = run_javascript("return ridgeformer.linearAlgebra.symmetricEigen(input.flat(), 12);", matrix.tolist())
    values, vectors = np.array(found["values"]), np.array(found["vectors"]).T
    assert (np.diff(values) >= 0).all()
    assert relative_error(vectors @ np.diag(values) @ vectors.T, matrix) < 1e-13
    assert relative_error(vectors.T @ vectors, np.eye(12)) < 1e-13


DRAW = """
const sizes = { dim: 10, examples: 60, queries: 200 };
return input.map((seed) => ridgeformer.random.drawSequence(seed, sizes));
"""


def test_sequences_are_the_same_for_the_same_seed_and_differ_between_seeds_and_streams() -> None:
    first, again, other = run_javascript(DRAW, [7, 7, 8])
    assert first == again
    drawn = [np.ravel(one[key]) for one in (first, other) for key in ("weights", "X", "noise", "queries")]
    starts = np.array([numbers[:10] for numbers in drawn])
    apart = np.abs(starts[:, None] - starts[None]).max(axis=2) + np.eye(len(starts))
    assert apart.min() > 0.1


def test_weights_of_a_seed_are_those_that_links_have_always_shared() -> None:
    """Against xoshiro128** and Box and Muller's method written down once more: streams are part of every link."""
    words = np.array(_xoshiro(1, 1, 10), np.float64)
    radius, angle = np.sqrt(-2 * np.log((words[::2] + 0.5) / 2**32)), 2 * np.pi * words[1::2] / 2**32
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
    assert run_javascript(DRAW, [1])[0]["weights"] == pytest.approx(expected, abs=1e-12)


def test_normal_numbers_have_the_moments_of_the_normal_distribution() -> None:
    code = "const next = ridgeformer.random.normals(3, 1); return Array.from({ length: 100000 }, () => next());"
    numbers = np.array(run_javascript(code))
    # Six standard errors: x, x², x³ and x⁴ of normal numbers have the variances 1, 2, 15 and 96.
    errors = np.abs([numbers.mean(), numbers.var() - 1, (numbers**3).mean(), (numbers**4).mean() - 3])
    assert (errors < 6 * np.sqrt(np.array([1, 2, 15, 96]) / 1e5)).all()
    assert np.abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 6 / np.sqrt(1e5)


CONTEXT = """
const sequence = ridgeformer.random.drawSequence(5, { dim: 10, examples: 60, queries: 2 });
return input.map((settings) => ridgeformer.random.makeContext(sequence, settings));
"""


def test_context_scales_its_noise_with_the_level_keeps_its_first_examples_and_has_one_outlier() -> None:
    settings = [(0, 20, 0), (1, 20, 0), (3, 20, 0), (3, 21, 0), (3, 20, 12.5)]
    payload = [{"sigma": sigma, "examples": n, "outlier": outlier} for sigma, n, outlier in settings]
    clean, one, three, more, spoiled = run_javascript(CONTEXT, payload)
    assert clean["X"] == one["X"] == three["X"] == more["X"][:20] == spoiled["X"]
    y = [np.array(context["y"]) for context in (clean, one, three)]
    assert relative_error(y[2] - y[0], 3 * (y[1] - y[0])) < 1e-12
    assert more["y"][:20] == three["y"]
    assert spoiled["y"] == [three["y"][0] + 12.5, *three["y"][1:]]


SETTINGS = (*MATHS, "explorer_settings.js", "explorer_result.js")


def test_settings_return_from_the_address_as_they_were() -> None:
    state = {"model": "diag-4-uniform-5", "sigma": "3.35", "examples": "33", "seed": "42", "outlier": "7.5"}
    state |= {"off": "xy,2yy", "query": "17", "layer": "2", "points": "examples", "against": "oracle", "average": "no"}
    code = """
    const { fromState, toState } = ridgeformer.explorer.settings;
    const settings = fromState(input.state, input.models);
    return { back: toState(settings, input.models[0]), off: [...settings.off].sort() };
    """
    found = run_javascript(code, {"state": state, "models": encode_models(["diag-4-uniform-5"])}, SETTINGS)
    assert found["back"] == state
    assert found["off"] == ["1xy", "2xy", "2yy", "3xy", "4xy"]


def test_settings_of_a_nonsense_address_are_the_usual_ones() -> None:
    state = {"model": "<img src=x>", "sigma": "NaN", "examples": "-3", "seed": "1e99", "outlier": "x"}
    state |= {"off": "9xx,zz,,", "query": "0", "layer": "99", "points": "all", "against": "", "average": "no"}
    code = """
    const { off, ...rest } = ridgeformer.explorer.settings.fromState(input.state, input.models);
    return { ...rest, off: [...off] };
    """
    found = run_javascript(code, {"state": state, "models": encode_models(["diag-4-uniform-5"])}, SETTINGS)
    usual = {"model": "diag-4-uniform-5", "sigma": 2, "examples": 1, "seed": 2**32 - 1, "outlier": 0, "off": []}
    assert found == usual | {"query": 1, "layer": None, "points": "queries", "against": "w", "average": False}


def test_every_choice_on_offer_is_a_model_that_exists() -> None:
    """From every model, every value of every field leads to a model with that value."""
    code = """
    const { choices, withChoice } = ridgeformer.explorer.settings;
    const wrong = [];
    for (const model of input) {
      for (const [field, values] of Object.entries(choices(input, model))) {
        if (!values.includes(model[field])) wrong.push([model.name, field, "not offered"]);
        for (const value of values) {
          if (withChoice(input, model, field, value)[field] !== value) wrong.push([model.name, field, value]);
        }
      }
    }
    return wrong;
    """
    assert run_javascript(code, encode_models(page_model_names()), SETTINGS) == []


def test_mean_errors_are_means_over_the_sequences_that_follow() -> None:
    code = """
    const { results, settings } = ridgeformer.explorer;
    const start = settings.fromState({ seed: "3", sigma: "4" }, input);
    const model = ridgeformer.model.decodeModel(input[0]);
    const alone = (seed) => ({ ...start, seed, average: false });
    const one = (seed) => results.errors(alone(seed), model, results.compute(alone(seed), model));
    const mean = results.errors(start, model, results.compute(start, model));
    return { mean, singles: Array.from({ length: settings.AVERAGED }, (_, k) => one(3 + k)) };
    """
    found = run_javascript(code, encode_models(["diag-4-uniform-5"]), SETTINGS)
    singles = found["singles"]
    for name in ("ols", "adarr", "oracle", "bayes"):
        expected = np.mean([one["baselines"][name] for one in singles])
        assert found["mean"]["baselines"][name] == pytest.approx(expected, rel=1e-12)
    assert found["mean"]["layers"] == pytest.approx(np.mean([one["layers"] for one in singles], axis=0), rel=1e-12)


def test_explorer_opens_with_the_mean_of_64_sequences_and_no_model_clearly_ahead_of_the_oracle() -> None:
    """By chance a good model may be ahead on 64 sequences, but then by less than a hundredth."""
    code = """
    const { results, settings } = ridgeformer.explorer;
    return input.map((encoded) => {
      const usual = settings.fromState({ model: encoded.name }, input);
      const model = ridgeformer.model.decodeModel(encoded);
      const errors = results.errors(usual, model, results.compute(usual, model));
      return [usual.average, settings.AVERAGED, Math.min(...errors.layers) / errors.baselines.oracle];
    });
    """
    names = ["diag-4-uniform-5", "full-7-uniform-5", "full-12-heads-2-uniform-5", "gdpp-7-uniform-3"]
    found = run_javascript(code, encode_models(names), SETTINGS)
    assert all(average is True and count == 64 and ratio > 0.99 for average, count, ratio in found), found


def test_encoded_model_leaves_out_what_its_file_says_in_a_wrong_form() -> None:
    model = rf.LinearTransformer.init("diag", layers=2, dim=3)
    info = {"task": ["x"], "training": {"seed": True}, "evaluation": {"adjusted_loss": "<script>"}}
    odd = rf.LinearTransformer("diag", 3, model.parameters, info)
    encoded = encode_model("odd", odd)
    assert [encoded[key] for key in ("noise", "examples", "seed", "loss")] == [None] * 4


def _xoshiro(seed: int, stream: int, count: int) -> list[int]:
    """xoshiro128** by its paper (Blackman and Vigna 2021), with Python's integers."""
    mask = 0xFFFFFFFF

    def rotated(x: int, k: int) -> int:
        return (x << k | x >> (32 - k)) & mask

    key = (seed * 0x9E3779B9 ^ stream * 0x85EBCA6B) & mask
    state = []
    for _ in range(4):  # the finaliser of MurmurHash3 on a Weyl sequence: SplitMix32
        key = (key + 0x9E3779B9) & mask
        z = key
        z = (z ^ z >> 16) * 0x85EBCA6B & mask
        z = (z ^ z >> 13) * 0xC2B2AE35 & mask
        state.append(z ^ z >> 16)
    drawn = []
    for _ in range(count):
        drawn.append(rotated(state[1] * 5 & mask, 7) * 9 & mask)
        shifted = state[1] << 9 & mask
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = rotated(state[3], 11)
    return drawn
