"""Bad input to the public functions is an InputError of one sentence, whatever the back end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.random import GramDraw
from support import KINDS, one_sentence

X, Y, QUERIES = np.ones((2, 4, 3)), np.ones((2, 4)), np.ones((2, 5, 3))
NAN, INFINITE = np.full_like(X, np.nan), np.full_like(X, np.inf)
BACKENDS = ("auto", "reference", "fused")


def model(kind: str = "diag", dim: int = 3) -> rf.LinearTransformer:
    return rf.LinearTransformer.init(kind, layers=2, dim=dim)


def refused(match: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    """Calling the function raises an InputError whose message matches."""
    with pytest.raises(rf.InputError, match=match) as caught:
        function(*arguments, **keywords)
    one_sentence(caught.value)


# --- tokens -----------------------------------------------------------------------------------------------------------

RAGGED: Any = [[[1.0, 2.0, 3.0]], [[1.0, 2.0]]]
BAD_TOKENS: dict[str, tuple[Any, Any]] = {
    "X of two axes": (X[0], Y),
    "X of four axes": (X[None], Y),
    "X a number": (1.0, Y),
    "X ragged": (RAGGED, Y),
    "X of strings": (np.full(X.shape, "1"), Y),
    "X a string": ("X", Y),
    "X None": (None, Y),
    "X complex": (X + 0j, Y),
    "X of objects": (np.full(X.shape, None), Y),
    "X NaN": (NAN, Y),
    "X infinite": (INFINITE, Y),
    "y of one axis": (X, Y[0]),
    "y of three axes": (X, Y[..., None]),
    "y ragged": (X, [[1.0], [1.0, 2.0]]),
    "y of strings": (X, [["a"] * 4] * 2),
    "y None": (X, None),
    "y NaN": (X, np.full_like(Y, np.nan)),
    "y infinite": (X, np.full_like(Y, -np.inf)),
    "y of another batch": (X, Y[:1]),
    "y of another n": (X, Y[:, :3]),
    "no examples": (X[:, :0], Y[:, :0]),
    "no features": (X[..., :0], Y),
}
BAD_QUERIES: dict[str, Any] = {
    "of two axes": QUERIES[0],
    "a number": 1.0,
    "ragged": RAGGED,
    "of strings": np.full(QUERIES.shape, "1"),
    "None": None,
    "NaN": np.full_like(QUERIES, np.nan),
    "infinite": np.full_like(QUERIES, np.inf),
    "of another batch": QUERIES[:1],
    "of another dim": QUERIES[..., :2],
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_bad_tokens_are_refused_by_everything_that_takes_tokens(name: str) -> None:
    tokens = BAD_TOKENS[name]
    culprit = "X|y|context"  # the message names an argument, or says what a context needs
    refused(culprit, rf.Context.from_tokens, *tokens)
    refused(culprit, rf.transform_tokens, model(), *tokens, QUERIES)
    refused(culprit, rf.token_predictions, model(), *tokens, QUERIES)
    for backend in BACKENDS:
        refused(culprit, rf.implicit_weights, model(), *tokens, backend=backend)
        refused(culprit, rf.predict, model(), *tokens, QUERIES, backend=backend)


@pytest.mark.parametrize("name", BAD_QUERIES)
def test_bad_queries_are_refused_by_everything_that_takes_queries(name: str) -> None:
    queries = BAD_QUERIES[name]
    refused("queries", rf.transform_tokens, model(), X, Y, queries)
    refused("queries", rf.token_predictions, model(), X, Y, queries)
    for backend in BACKENDS:
        refused("queries", rf.predict, model(), X, Y, queries, backend=backend)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 4])
def test_model_of_another_dim_than_the_contexts_is_refused(kind: str, dim: int) -> None:
    """Without the check the kernels would read past the end of an array."""
    other, task = model(kind, dim), rf.Task(3, 8)
    draw = task.draw_contexts(2, seed=0)
    refused("features", rf.transform_tokens, other, X, Y, QUERIES)
    refused("features", rf.token_predictions, other, X, Y, QUERIES)
    for backend in BACKENDS:
        refused("features", rf.implicit_weights, other, X, Y, backend=backend)
        refused("features", rf.predict, other, X, Y, QUERIES, backend=backend)
        refused("features", rf.context_weights, other, draw.context, backend=backend)
        refused("features", rf.loss_and_gradient, other, task, batch=2, seed=0, backend=backend)
        refused("features", rf.losses_and_gradient_on, other, draw, backend=backend)


@pytest.mark.parametrize("layers", [0, -1, 3, 1.5, "1", True])
def test_readout_after_an_impossible_number_of_layers_is_refused(layers: Any) -> None:
    context = rf.Context.from_tokens(X, Y)
    for backend in BACKENDS:
        refused("layers must be", rf.implicit_weights, model(), X, Y, layers=layers, backend=backend)
        refused("layers must be", rf.predict, model(), X, Y, QUERIES, layers=layers, backend=backend)
        refused("layers must be", rf.context_weights, model(), context, layers=layers, backend=backend)


# --- choices, counts, threads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backend", "hint"), [("fuse", "Did you mean 'fused'"), ("cuda", ""), (None, ""), (1, "")])
def test_unknown_back_end_is_refused_with_the_nearest_name(backend: Any, hint: str) -> None:
    task, context = rf.Task(3, 8), rf.Context.from_tokens(X, Y)
    match = f"backend must be one of auto, reference, fused.*{hint}"
    refused(match, rf.implicit_weights, model(), X, Y, backend=backend)
    refused(match, rf.predict, model(), X, Y, QUERIES, backend=backend)
    refused(match, rf.context_weights, model(), context, backend=backend)
    refused(match, task.draw_contexts, 2, seed=0, backend=backend)
    refused(match, rf.loss_and_gradient, model(), task, batch=2, seed=0, backend=backend)
    refused(match, rf.losses_and_gradient_on, model(), task.draw_contexts(2, seed=0), backend=backend)


@pytest.mark.parametrize(("objective", "hint"), [("exakt", "Did you mean 'exact'"), ("mse", ""), (None, "")])
def test_unknown_objective_is_refused_with_the_nearest_name(objective: Any, hint: str) -> None:
    task = rf.Task(3, 8)
    draw = task.draw_contexts(2, seed=0)
    match = f"objective must be one of exact, sampled.*{hint}"
    for backend in BACKENDS:
        refused(match, rf.loss_and_gradient, model(), task, batch=2, seed=0, objective=objective, backend=backend)
        refused(match, rf.losses_and_gradient_on, model(), draw, objective=objective, backend=backend)


@pytest.mark.parametrize(("kind", "hint"), [("diagonal", "diag"), ("ful", "full"), ("GDPP", ""), ("", ""), (None, "")])
def test_unknown_kind_is_refused_with_the_nearest_name(kind: Any, hint: str) -> None:
    match = "kind must be one of gdpp, diag, full.*" + (f"Did you mean '{hint}'" if hint else "")
    refused(match, rf.LinearTransformer.init, kind, layers=1)
    refused(match, rf.LinearTransformer, kind, 3, model().parameters)
    refused(match, model().embed, kind)


@pytest.mark.parametrize("count", [0, -1, 10**30, 1.5, "2", None, True])
def test_bad_counts_are_refused(count: Any) -> None:
    task, init = rf.Task(3, 8), rf.LinearTransformer.init
    refused("dim must be", rf.Task, count, 8)
    refused("examples must be", rf.Task, 3, count)
    refused("layers must be", init, "diag", layers=count)
    refused("heads must be", init, "diag", layers=1, heads=count)
    refused("dim must be", init, "diag", layers=1, dim=count)
    refused("dim must be", rf.LinearTransformer, "diag", count, model().parameters)
    refused("batch must be", task.draw_sigma, count, seed=0)
    refused("batch must be", task.draw_tokens, count, seed=0)
    for backend in BACKENDS:
        refused("batch must be", task.draw_contexts, count, seed=0, backend=backend)
        refused("batch must be", rf.loss_and_gradient, model(), task, batch=count, seed=0, backend=backend)


@pytest.mark.parametrize("step", [-1, 2**63, 1.5, "0", None, True])
def test_bad_steps_are_refused(step: Any) -> None:
    task = rf.Task(3, 8)
    refused("step must be", task.draw_sigma, 2, seed=0, step=step)
    refused("step must be", task.draw_tokens, 2, seed=0, step=step)
    for backend in BACKENDS:
        refused("step must be", task.draw_contexts, 2, seed=0, step=step, backend=backend)
        refused("step must be", rf.loss_and_gradient, model(), task, batch=2, seed=0, step=step, backend=backend)


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf, "1", [1.0], 1j])
def test_bad_scale_is_refused(scale: Any) -> None:
    refused("scale", rf.LinearTransformer.init, "diag", layers=1, scale=scale)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_bad_number_of_threads_is_refused(threads: Any) -> None:
    task, context = rf.Task(3, 8), rf.Context.from_tokens(X, Y)
    fused = {"backend": "fused", "threads": threads}
    refused("threads", rf.implicit_weights, model(), X, Y, **fused)
    refused("threads", rf.predict, model(), X, Y, QUERIES, **fused)
    refused("threads", rf.context_weights, model(), context, **fused)
    refused("threads", task.draw_contexts, 2, seed=0, **fused)
    refused("threads", rf.loss_and_gradient, model(), task, batch=2, seed=0, **fused)
    refused("threads", rf.losses_and_gradient_on, model(), task.draw_contexts(2, seed=0), **fused)


@pytest.mark.parametrize("setting", ["0", "-1", "1.5", "two", "", " ", "²", "1e3"])
def test_bad_thread_setting_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv("RIDGEFORMER_THREADS", setting)
    task = rf.Task(3, 8)
    refused("RIDGEFORMER_THREADS", rf.implicit_weights, model(), X, Y, backend="fused")
    refused("RIDGEFORMER_THREADS", task.draw_contexts, 2, seed=0, backend="fused")
    refused("RIDGEFORMER_THREADS", rf.loss_and_gradient, model(), task, batch=2, seed=0, backend="fused")


# --- contexts given as arrays -----------------------------------------------------------------------------------------

GOOD = GramDraw(np.ones((4, 4, 4)), np.ones((4, 3)), np.ones((4, 3)), np.ones((4, 3)))
BAD_DRAWS: dict[str, GramDraw] = {
    "no contexts": GramDraw(*(array[:0] for array in GOOD)),
    "weights of another batch": GOOD._replace(weights=np.ones((2, 3))),
    "query of another batch": GOOD._replace(query=np.ones((5, 3))),
    "oracle of another dim": GOOD._replace(oracle=np.ones((4, 2))),
    "weights of one axis": GOOD._replace(weights=np.ones(4)),
    "gram of two axes": GOOD._replace(gram=np.ones((4, 4))),
    "gram not square": GOOD._replace(gram=np.ones((4, 3, 4))),
    "gram of strings": GOOD._replace(gram=np.full((4, 4, 4), "a")),
    "weights missing": GOOD._replace(weights=None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD_DRAWS)
@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_bad_contexts_are_refused_before_a_kernel_reads_them(name: str, backend: str, kind: str) -> None:
    refused(
        "context|gram|weights|query|oracle", rf.losses_and_gradient_on, model(kind), BAD_DRAWS[name], backend=backend
    )


def test_good_contexts_are_accepted() -> None:
    """The control of the test above."""
    losses, _ = rf.losses_and_gradient_on(model(), GOOD, backend="fused")
    assert losses.shape == (4,)
