"""Numerical checks of every result of the paper's theory, which `ridgeformer explain --check` prints.

Equalities are tried on random weights of many shapes, constructions on many problems. Where a printed formula has an
error, a separate check shows that it is wrong by far more than rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.forward import gram_weights
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.random import Purpose, check_seed, token_rng
from ridgeformer.core.validation import instance, one_of, whole_number
from ridgeformer.theory import implicit_model, momentum, nonlinear_limit, registers, second_order, step_size, two_layer
from ridgeformer.theory.numerics import (
    ROUNDING,
    Tokens,
    is_diagonal,
    random_model,
    random_tokens,
    relative_difference,
    residual_energy,
)

RESULTS = ("Theorem 4.1", "Lemma 4.4", "Theorem 4.2", "Theorem 5.1", "Theorem 5.2", "Section 5.3")
VISIBLE = 1e-3
"""The least effect of a wrong term in its worst case: far above rounding, far below the tokens themselves."""
_LONG = 25
"""How many times `examples_needed` contexts have for Theorem 4.2. The expected cosine is then 0.1/5, and its spread at
d = 1 is as large as itself: 0.1 is five standard deviations away."""
_BOUND = nonlinear_limit.PRINTED_BOUND
_MEASURABLE = 1e-4  # rounding in the eigenvalues of a context, κ · 1e-16, is below 1e-6 of it for κ up to 1e5
# At d = 1 the mean square over 400 contexts is known to sqrt(2/400) = 7 %, the root to 3.5 %: a fifth of log 1.2.
_CONTEXTS, _MANY = 400, 1000

# fmt: off
# (name, relation, bound, statement), in the order of the paper; "≥" where something must visibly differ.
STATEMENTS: tuple[tuple[str, str, float, str], ...] = (
    ("Theorem 4.1, Lemma 4.3", "≤", ROUNDING,
     "Context and query tokens after every layer are M x + y u and a y − <w, x>, by the recursion."),
    ("Theorem 4.1, registers", "≤", ROUNDING,
     "With registers every layer keeps 1 + r weight vectors, m = A y − <w, x> each, by the recursion."),
    ("Lemma 4.3, slip", "≥", VISIBLE, "With the printed + b wᵀ in M' in place of − b wᵀ the tokens differ."),
    ("Lemma 4.4", "≤", ROUNDING, "u' = (I − Λ) u + Γ g and w' = (1 + s) w − Π g − Φ u; w* = OLS."),
    ("Lemma 4.4, n < d", "≤", ROUNDING, "u' = (I − Λ) u + Γ g and w' = (1 + s) w − Π g − Φ u; w* of least norm."),
    ("Lemma 4.4, slip", "≥", VISIBLE, "With the printed M + a u w*ᵀ in Γ and Π in place of M + u w*ᵀ, u and w differ."),
    ("Theorem 4.2", "≤", _BOUND,
     "Outputs of random models have a cosine of at most 0.1 with x(1)² once n ≥ 2500 (d + 4)."),
    ("Theorem 4.2, any model", "≤", _BOUND,
     "No linear transformer at all reaches a cosine of 0.1 in these contexts."),
    ("Theorem 4.2, size", "≤", float(np.log(1.2)), "The largest cosine that can be reached is sqrt((d + 4)/n)."),
    ("Theorem 4.2, condition", "≥", _BOUND,
     "n ≫ d is needed: in contexts of the paper's size, d = 10 and n = 20, far larger cosines can be reached."),
    ("Theorem 5.1", "≤", 1.0, "The constructed GD++ model reaches ‖ŵ − w*‖ ≤ ε ‖w*‖ in the ordinary forward pass."),
    ("Theorem 5.1, layers", "≥", 0.0,
     "Its layers stay within 1 + ⌈log(κ/2)/log(25/16)⌉ + ⌈log₂(log(1/(1.5 ε))/log(4/3))⌉."),
    ("Theorem 5.1, error", "≤", 1e-06,
     "On the worst spectrum, both ends of [μ, ν], its error is (κ − 1)/(κ + 1) with the κ of its last layer."),
    ("Theorem 5.1, tight", "≥", 1.0, "With one layer fewer it does not reach ε on that spectrum."),
    ("Theorem 5.1, other methods", "≥", 3.0,
     "Gradient descent and conjugate gradients take several times as many steps."),
    ("Theorem 5.2", "≤", 0.05,
     "The two-layer model comes within 5 % of optimal ridge regression at both noise levels, n = 1 000 000."),
    ("Theorem 5.2, rate", "≤", 0.05, "The distance falls as n^(−1/2)."),
    ("Theorem 5.2, slip", "≥", 1.9,
     "With the printed sign, w¹ = +ω_yx α, the model gives minus the ridge solution: an error of 2."),
    ("Section 5.3", "≤", ROUNDING, "ω_xy, then ω_yx, is one gradient step of size −ω_yx (1 + ω_xy Σ y²)."),
    ("Section 5.3, measured", "≤", ROUNDING,
     "The step size measured in any model is this one where a layer is a plain gradient step."),
    ("Section 5.3, later layers", "≤", ROUNDING,
     "After any layers: w'' = (1 − η ω_xy ‖α‖²) w + η Mᵀ α with η = −ω_yx (1 + ω_xy λ)."),
    ("Section 5.3, approximation", "≥", VISIBLE,
     "The printed size, with the residuals of OLS in place of y, is not exact."),
    ("Theorem 4.1, this model", "≤", ROUNDING, "Its tokens after every layer are M x + y u and a y − <w, x>."),
    ("Lemma 4.4, this model", "≤", ROUNDING, "Its layers are steps of gradient descent with momentum."),
    ("Theorem 4.2, this model", "≤", _BOUND, "Its outputs have a cosine of at most 0.1 with x(1)² in long contexts."),
)

# (dim, n, layers, heads): n = 1, n < d, n = d, n = d + 1, n ≫ d; every depth from 1 to 6 and up to three heads.
SHAPES = (
    (1, 1, 2, 1), (1, 200, 3, 2), (2, 1, 4, 3), (2, 3, 6, 1), (3, 20, 1, 3), (5, 3, 2, 2), (5, 5, 5, 1),
    (5, 100, 3, 1), (8, 9, 4, 2), (10, 20, 7, 1), (12, 4, 3, 3), (12, 13, 2, 1), (12, 200, 6, 2),
)
# fmt: on
ROUNDS = 3  # weights and contexts tried for each shape
BATCH = 4

Measured = dict[str, tuple[float, str]]
"""By the name of a statement: what was measured, and on what."""


@dataclass(frozen=True)
class Check:
    """One statement of the theory, compared with numbers; NaN never passes.

    >>> Check("Theorem 4.1", "Both are equal.", 1e-14, 1e-10).passed
    True
    """

    name: str  # begins with the result it belongs to, such as "Theorem 4.1"
    statement: str  # what must hold, in one sentence
    measured: float
    bound: float
    passed: bool = field(init=False)
    detail: str = ""  # what was measured, on what; for an error in print, which term it is
    relation: str = "≤"  # where ``measured`` must lie: "≤" the bound, or "≥" for what must visibly differ

    def __post_init__(self) -> None:
        passed = self.measured <= self.bound if self.relation == "≤" else self.measured >= self.bound
        object.__setattr__(self, "passed", bool(passed))


class _Case(NamedTuple):
    model: LinearTransformer
    tokens: Tokens

    @property
    def label(self) -> str:
        model, n = self.model, self.tokens.y.shape[1]
        return f"{model.kind}, d = {model.dim}, n = {n}, L = {model.layers}, H = {model.heads}"


def run_checks(
    seed: int = 0,
    model: LinearTransformer | None = None,
    examples: int | None = None,
    results: Sequence[str] = RESULTS,
) -> list[Check]:
    """Check the results of the paper's theory numerically (two seconds).

    Parameters
    ----------
    seed: names the random models and contexts that the results are tried on.
    model: if given, the results about any model are checked for it too.
    examples: length of the contexts ``model`` is tried on; by default twice its dimension, the paper's ratio.
    results: which of `RESULTS` to check, by default all.

    Returns the checks in the order of the paper. Raises `InputError` for arguments of the wrong kind.

    >>> [check.passed for check in run_checks(results=["Theorem 5.2"])]
    [True, True, True]
    """
    seed = check_seed(seed)
    cases = list(_random_cases(token_rng(seed, Purpose.EXPLORE, 0)))
    measures: tuple[Callable[[], Measured], ...] = (
        lambda: _implicit_model(cases) | _registers(token_rng(seed, Purpose.EXPLORE, 5)),
        lambda: _momentum(cases),
        lambda: _nonlinear_limit(token_rng(seed, Purpose.EXPLORE, 1)),
        lambda: _second_order(token_rng(seed, Purpose.EXPLORE, 2)),
        lambda: _two_layer(seed),
        lambda: _step_size(cases, token_rng(seed, Purpose.EXPLORE, 3)),
    )
    wanted = {one_of("result", name, RESULTS) for name in results}
    measured: dict[str, tuple[float, str]] = {}
    for name, measure in zip(RESULTS, measures, strict=True):
        if name in wanted:
            measured |= measure()
    if model is not None:
        n = 2 * instance("model", model, LinearTransformer).dim if examples is None else examples
        measured |= _given_model(model, whole_number("examples", n, 1), token_rng(seed, Purpose.EXPLORE, 4))
    return [
        Check(name, statement, float(measured[name][0]), bound, measured[name][1], relation)
        for name, relation, bound, statement in STATEMENTS
        if name in measured
    ]


def _random_cases(rng: np.random.Generator) -> Iterator[_Case]:
    for dim, n, layers, heads in SHAPES * ROUNDS:
        tokens = random_tokens(rng, BATCH, n, dim)
        for kind in KINDS:
            yield _Case(random_model(rng, kind, layers, heads, dim, tokens.context.gram), tokens)


def _worst(pairs: Iterator[tuple[float, _Case]]) -> tuple[float, str]:
    """The largest number and the case it comes from; NaN counts as largest."""
    value, case = max(pairs, key=lambda pair: np.inf if np.isnan(pair[0]) else pair[0])
    return value, case.label


def _registers(rng: np.random.Generator) -> Measured:
    cases: list[_Case] = []
    for number, (dim, n, layers, heads) in enumerate(SHAPES * ROUNDS):
        tokens, r = random_tokens(rng, BATCH, n, dim), 1 + number % 3
        models = (random_model(rng, kind, layers, heads, dim, tokens.context.gram, r) for kind in ("diag", "full"))
        cases += [_Case(model, tokens) for model in models]
    error, where = _worst((registers.difference_from_tokens(case.model, *case.tokens), case) for case in cases)
    on = f"largest relative difference from the token transformer over {len(cases)} models, r = 1 to 3; worst: {where}"
    return {"Theorem 4.1, registers": (error, on)}


def _implicit_model(cases: list[_Case]) -> Measured:
    difference, printed = implicit_model.difference_from_tokens, implicit_model.printed_next_layer
    error, where = _worst((difference(case.model, *case.tokens), case) for case in cases)
    deep = [case for case in cases if case.model.kind != "gdpp" and case.model.layers > 1]
    slip, slip_where = _worst((difference(case.model, *case.tokens, recursion=printed), case) for case in deep)
    on = f"largest relative difference from the token transformer over {len(cases)} models; worst: {where}"
    of = f"largest relative difference over {len(deep)} diag and full models of two or more layers; {slip_where}"
    return {"Theorem 4.1, Lemma 4.3": (error, on), "Lemma 4.3, slip": (slip, of)}


def _momentum(cases: list[_Case]) -> Measured:
    difference = momentum.difference_from_recursion
    diagonal = [case for case in cases if is_diagonal(case.model)]
    measured = {}
    for few, name in ((False, "Lemma 4.4"), (True, "Lemma 4.4, n < d")):
        chosen = [case for case in diagonal if (case.tokens.y.shape[1] < case.model.dim) == few]
        error, where = _worst((difference(case.model, case.tokens.context), case) for case in chosen)
        on = f"largest relative difference from Lemma 4.3 over {len(chosen)} diag and gdpp models; worst: {where}"
        measured[name] = error, on
    deep = [case for case in diagonal if case.model.kind == "diag" and case.model.layers > 2]
    slip, where = _worst((difference(case.model, case.tokens.context, printed=True), case) for case in deep)
    of = f"largest relative difference over {len(deep)} diag models of three or more layers; {where}"
    return {**measured, "Lemma 4.4, slip": (slip, of)}


def _nonlinear_limit(rng: np.random.Generator) -> Measured:
    dims = (1, 5, 10)
    long = [nonlinear_limit.cosine_records(d, [_LONG * nonlinear_limit.examples_needed(d)], rng)[0] for d in dims]
    short = nonlinear_limit.cosine_records(10, [20], rng)[0]
    sizes = ", ".join(f"d = {record.dim} and n = {record.examples}" for record in long)
    ratio = max(abs(np.log(_mean_reachable(rng, d) / nonlinear_limit.expected_cosine(d, _MANY))) for d in dims)
    on = "largest cosine between x(1)² and its projection onto the span of X and y"
    of = f"largest |log ratio| of measured and derived, {_CONTEXTS} contexts, n = {_MANY}, d in {dims}"
    largest = max(record.largest for record in long)
    return {
        "Theorem 4.2": (largest, f"largest over three kinds, all layers, 8 contexts each of {sizes}"),
        "Theorem 4.2, any model": (max(record.reachable for record in long), on),
        "Theorem 4.2, size": (ratio, of),
        "Theorem 4.2, condition": (short.reachable, f"derived: {short.expected:.2f}"),
    }


def _mean_reachable(rng: np.random.Generator, dim: int) -> float:
    tokens = random_tokens(rng, _CONTEXTS, _MANY, dim, sigma=0.0)
    return float(np.sqrt((nonlinear_limit.reachable_cosine(tokens.X, tokens.y) ** 2).mean()))


def _second_order(rng: np.random.Generator) -> Measured:
    kappas, epsilons, dim = (1.0, 3.0, 30.0, 1e3, 1e5), (0.1, 1e-3, 1e-6, 1e-9), 12
    worst, spare, shorter, inexact = 0.0, 1000, np.inf, 0.0
    for kappa in kappas:
        values = second_order.log_spectrum(dim, kappa, largest=7.0)
        context = second_order.context_with_spectrum(values, rng.standard_normal(dim), rng, residual_energy=3.0)
        ends = second_order.context_with_spectrum(values[[0, -1]], np.ones(2), rng)
        for epsilon in epsilons:
            network = second_order.second_order_network(dim, kappa, epsilon, largest=7.0)
            worst = max(worst, _error_of_ols(network, context) / epsilon)
            spare = min(spare, second_order.layer_bound(kappa, epsilon) - network.layers)
            predicted = second_order.error_on_both_ends(kappa, network.layers)
            if predicted > _MEASURABLE:
                on_ends = second_order.second_order_network(2, kappa, epsilon, largest=7.0)
                inexact = max(inexact, abs(_error_of_ols(on_ends, ends) / predicted - 1))
            if network.layers > 1:
                shorter = min(shorter, _error_of_ols(_one_layer_fewer(kappa, epsilon), ends) / epsilon)
    counts = second_order.iteration_counts((1e2, 1e4), (1e-4, 1e-8))
    gain = min(min(c.gradient_descent, c.conjugate_gradients or c.gradient_descent) / c.gdpp_layers for c in counts)
    last = counts[-1]
    on = f"largest error over ε; κ in {kappas}, ε in {epsilons}, noisy y, d = {dim}"
    of = f"largest relative difference in the same cases, where the error is above {_MEASURABLE:g}"
    steps = (
        f"fewest steps over layers, κ in (1e2, 1e4), ε in (1e-4, 1e-8); at the largest: {last.gdpp_layers} layers, "
        f"{last.gradient_descent} gradient steps, {last.conjugate_gradients} conjugate gradients"
    )
    return {
        "Theorem 5.1": (worst, on),
        "Theorem 5.1, layers": (spare, "fewest layers to spare in the same cases"),
        "Theorem 5.1, error": (inexact, of),
        "Theorem 5.1, tight": (shorter, "smallest error over ε in the same cases"),
        "Theorem 5.1, other methods": (gain, steps),
    }


def _error_of_ols(network: LinearTransformer, context: Context) -> float:
    best = context.ridge(0.0)
    return float(np.linalg.norm(gram_weights(network, context.gram) - best) / np.linalg.norm(best))


def _one_layer_fewer(kappa: float, epsilon: float) -> LinearTransformer:
    """The best network of the construction with one layer less than ε needs; it reaches a larger ε."""
    reached = second_order.error_on_both_ends(kappa, second_order.layers_needed(kappa, epsilon) - 1)
    return second_order.second_order_network(2, kappa, min(reached * (1 + 1e-9), 1 - 1e-9), largest=7.0)


def _two_layer(seed: int) -> Measured:
    pairs, sizes = ((1.0, 3.0), (0.0, 2.0), (0.5, 0.5), (0.2, 5.0)), (1000, 10_000, 100_000, 1_000_000)
    largest, rates = 0.0, []
    for pair in pairs:
        rows = two_layer.convergence(*pair, sizes=sizes, seed=seed)
        largest = max(largest, *(row.error for row in rows if row.examples == sizes[-1]))
        rates += [two_layer.fitted_rate(rows, sigma) for sigma in dict.fromkeys(pair)]
    printed = two_layer.convergence(1.0, 3.0, sizes=sizes[-1:], seed=seed, printed=True)
    on = f"largest ‖ŵ − w*‖ over ‖w*‖ (root mean squares, 400 contexts, d = 5); (σ1, σ2) in {pairs}"
    of = f"largest |slope + 1/2| of log error against log n, n from {sizes[0]} to {sizes[-1]}; slopes "
    slip = min(row.error for row in printed)
    return {
        "Theorem 5.2": (largest, on),
        "Theorem 5.2, rate": (max(abs(r + 0.5) for r in rates), of + ", ".join(f"{r:.3f}" for r in rates)),
        "Theorem 5.2, slip": (slip, "smallest ‖ŵ − w*‖ over ‖w*‖ for σ in (1, 3), n = 1 000 000"),
    }


def _step_size(cases: list[_Case], rng: np.random.Generator) -> Measured:
    differences = []
    for case in cases:
        context = case.tokens.context
        energy = context.energy.max()
        xy, yx = rng.uniform(-0.9, 0.9, 2) / energy  # so that 1 + ω_xy λ is between 0.1 and 1.9
        network = step_size.adaptive_step_network(case.model.dim, xy, yx)
        weights = gram_weights(network, context.gram)
        exact = step_size.adaptive_step(xy, yx, context.energy)
        by_print = step_size.adaptive_step(xy, yx, residual_energy(context))[:, None] * context.cross
        state = implicit_model.implicit_models(case.model, context)[-1]
        behind = implicit_model.implicit_models(_followed_by(case.model, network), context)[-1].w
        pairs = (
            (exact[:, None] * context.cross, weights),
            (step_size.effective_step_size(network, context)[-1].step, exact),
            (step_size.two_layer_update(state, context, xy, yx), behind),
            (by_print, weights),
        )
        differences.append([relative_difference(computed, expected) for computed, expected in pairs])
    start, measured, later, approximate = np.max(differences, axis=0)
    on = f"largest relative difference from the forward pass over {len(cases)} contexts and weights"
    return {
        "Section 5.3": (start, on),
        "Section 5.3, measured": (measured, "largest relative difference in the same contexts"),
        "Section 5.3, later layers": (later, f"the same, behind {len(cases)} random models"),
        "Section 5.3, approximation": (approximate, "largest relative difference of ŵ in the same contexts"),
    }


def _followed_by(first: LinearTransformer, second: LinearTransformer) -> LinearTransformer:
    """One full model that is ``first`` and then ``second``, which has one head."""
    matrices = {}
    for name, before, after in zip("PQ", first.attention_matrices(), second.attention_matrices(), strict=True):
        padded = np.concatenate([after, np.zeros((len(after), first.heads - 1, *after.shape[2:]))], axis=1)
        matrices[name] = np.concatenate([before, padded])
    return LinearTransformer("full", first.dim, matrices)


def _given_model(model: LinearTransformer, n: int, rng: np.random.Generator) -> Measured:
    """A model that explodes has no finite numbers and passes no check: the theorems hold for it, but not in floats."""
    tokens = random_tokens(rng, 64, n, model.dim)
    shape = f"64 contexts, n = {n}, σ = 1"
    measured = {"Theorem 4.1, this model": (registers.difference_from_tokens(model, *tokens), shape)}
    if is_diagonal(model):
        measured["Lemma 4.4, this model"] = momentum.difference_from_recursion(model, tokens.context), shape
    long = _LONG * nonlinear_limit.examples_needed(model.dim)
    record = nonlinear_limit.cosine_records(model.dim, [long], rng, model, made_for=n)[0]
    on = f"all layers, 8 contexts, n = {long}, attention averaged over them"
    return {**measured, "Theorem 4.2, this model": (record.largest, on)}
