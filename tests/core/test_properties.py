"""Properties that hold for every model and every context, searched for counter-examples by hypothesis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.core.notation import Array
from support import KINDS, VARIANTS, Examples, make_examples, relative_error, rotation, tame_model

# Both sides of each equality are float64 computations of the same number in another order: 1e-16 times the length of
# the sums and what the layers make of it. Measured, the worst case is 1e-15; the negative control differs by 1e-3.
TIGHT = 1e-11

seeds = st.integers(0, 2**32 - 1)
backends = st.sampled_from(["reference", "fused"])


class Case(NamedTuple):
    """A model and contexts on which it does not explode."""

    model: rf.LinearTransformer
    examples: Examples

    def weights(self, backend: str) -> Array:
        return rf.implicit_weights(self.model, self.examples.X, self.examples.y, backend=backend)


@st.composite
def cases(draw: st.DrawFn, kinds: tuple[str, ...] = VARIANTS, smallest_dim: int = 1) -> Case:
    dim, n = draw(st.integers(smallest_dim, 6)), draw(st.integers(1, 12))
    layers, heads = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    seed = draw(seeds)
    examples = make_examples(3, n, dim, seed)
    return Case(tame_model(draw(st.sampled_from(kinds)), layers, heads, dim, examples.gram, seed), examples)


@given(cases(), backends, seeds)
def test_weights_under_a_new_context_order_stay_the_same(case: Case, backend: str, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(case.examples.y.shape[1])
    shuffled = rf.implicit_weights(case.model, case.examples.X[:, order], case.examples.y[:, order], backend=backend)
    assert relative_error(shuffled, case.weights(backend)) < TIGHT


@given(cases(), seeds)
def test_tokens_under_a_new_context_order_move_along(case: Case, seed: int) -> None:
    X, y, queries = case.examples.X, case.examples.y, case.examples.queries
    order = np.random.default_rng(seed).permutation(y.shape[1])
    everyone = np.concatenate([order, np.arange(y.shape[1], y.shape[1] + queries.shape[1])])
    for before, after in zip(
        rf.transform_tokens(case.model, X, y, queries),
        rf.transform_tokens(case.model, X[:, order], y[:, order], queries),
        strict=True,
    ):
        assert relative_error(after, before[:, everyone]) < TIGHT


@given(cases(kinds=("gdpp", "diag", "diag+1", "diag+2")), backends, seeds)
def test_weights_of_a_diagonal_model_under_rotation_rotate_along(case: Case, backend: str, seed: int) -> None:
    R = rotation(case.model.dim, seed)
    rotated = rf.implicit_weights(case.model, case.examples.X @ R.T, case.examples.y, backend=backend)
    assert relative_error(rotated, case.weights(backend) @ R.T) < TIGHT


@given(cases(kinds=("full", "full+1"), smallest_dim=2), backends, seeds)
def test_weights_of_a_full_model_under_rotation_do_not_rotate_along(case: Case, backend: str, seed: int) -> None:
    """The control of the test above: the same check must be able to fail."""
    R = rotation(case.model.dim, seed)
    rotated = rf.implicit_weights(case.model, case.examples.X @ R.T, case.examples.y, backend=backend)
    # A random full model has no symmetry at all; 1e-3 leaves room for rotations that happen to be near the identity.
    assert relative_error(rotated, case.weights(backend) @ R.T) > 1e-3


@given(cases(kinds=("diag", "diag+1", "full", "full+1")), backends, st.integers(1, 3))
def test_model_with_more_registers_is_the_same_function(case: Case, backend: str, more: int) -> None:
    for kind in KINDS[KINDS.index(case.model.kind) :]:
        wider = case.model.embed(kind, case.model.registers + more)
        assert (wider.kind, wider.registers) == (kind, case.model.registers + more)
        assert relative_error(Case(wider, case.examples).weights(backend), case.weights(backend)) < TIGHT


@given(cases(kinds=("gdpp", "diag", "diag+2")), backends)
def test_model_embedded_in_a_larger_kind_is_the_same_function(case: Case, backend: str) -> None:
    for kind in KINDS[KINDS.index(case.model.kind) :]:
        larger = case.model.embed(kind)
        assert larger.kind == kind
        for mine, its in zip(case.model.attention_matrices(), larger.attention_matrices(), strict=True):
            assert np.array_equal(mine, its)
        assert relative_error(Case(larger, case.examples).weights(backend), case.weights(backend)) < TIGHT


@given(cases(), backends)
def test_zero_weights_leave_tokens_unchanged_and_predict_zero(case: Case, backend: str) -> None:
    zero = case.model.unflatten(np.zeros(case.model.size))
    trace = rf.transform_tokens(zero, case.examples.X, case.examples.y, case.examples.queries)
    for tokens in trace[1:]:
        assert np.array_equal(tokens, trace[0])
    assert not Case(zero, case.examples).weights(backend).any()


@given(cases(), backends, st.floats(0.01, 100.0), st.booleans())
def test_rescaling_p_up_and_q_down_leaves_the_function_unchanged(
    case: Case, backend: str, factor: float, negative: bool
) -> None:
    c = -factor if negative else factor
    first, second = case.model.parameters
    scaled = case.model.replace({first: case.model.parameters[first] * c, second: case.model.parameters[second] / c})
    assert relative_error(Case(scaled, case.examples).weights(backend), case.weights(backend)) < TIGHT


@given(cases(), seeds)
def test_order_of_heads_does_not_matter(case: Case, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(case.model.heads)
    shuffled = case.model.replace({name: value[:, order] for name, value in case.model.parameters.items()})
    assert relative_error(Case(shuffled, case.examples).weights("fused"), case.weights("fused")) < TIGHT


@given(cases())
def test_doubling_the_context_equals_doubling_the_gram_matrix(case: Case) -> None:
    X, y = case.examples.X, case.examples.y
    twice = rf.implicit_weights(case.model, np.concatenate([X, X], axis=1), np.concatenate([y, y], axis=1))
    context = rf.Context(2 * rf.Context.from_tokens(X, y).gram, 2 * y.shape[1])
    assert relative_error(twice, rf.context_weights(case.model, context)) < TIGHT
