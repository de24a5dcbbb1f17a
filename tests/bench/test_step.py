"""What we race against computes the same loss and gradient as we do, on tokens of the same distribution."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.bench import BenchConfig
from ridgeformer.bench.competitors import TOKEN_LOSSES, Jax, Torch, gram_loss
from ridgeformer.bench.step import NOT_INSTALLED, check_competitor, evaluate_rows, given_tokens, step_rows
from support import relative_error

LOSSES = {**TOKEN_LOSSES, "Gram space": gram_loss}
TASK = rf.Task(dim=4, examples=7, noise="uniform:2")
# Scale: layers change tokens by a few per cent each, so that a wrong sign or transpose shows, and none explodes.
MODEL = rf.LinearTransformer.init("full", layers=3, dim=4, scale=0.05)
# float32 sums in another order. Measured, the worst case is 7e-7; a transposed P shows at 1 and more.
TOLERANCE = 1e-5


@pytest.fixture(params=["jax", "torch"])
def competitor(request: pytest.FixtureRequest) -> Jax | Torch:
    pytest.importorskip(request.param, reason=f"{request.param} is not installed; it is part of ridgeformer[bench]")
    return Jax() if request.param == "jax" else Torch()


@pytest.mark.parametrize("name", LOSSES)
def test_competitor_on_given_tokens_has_our_loss_and_gradient(competitor: Jax | Torch, name: str) -> None:
    tokens, target, contexts = given_tokens(TASK, batch=33)
    losses, ours = rf.losses_and_gradient_on(
        MODEL.astype(np.float64), contexts, objective="sampled", backend="reference"
    )
    loss, P_gradient, Q_gradient = competitor.loss_and_gradient_on(MODEL, LOSSES[name], tokens, target)
    assert loss == pytest.approx(losses.mean(), rel=TOLERANCE)
    assert relative_error(P_gradient, ours.parameters["P"][:, 0]) < TOLERANCE
    assert relative_error(Q_gradient, ours.parameters["Q"][:, 0]) < TOLERANCE


def test_token_loss_reads_the_prediction_of_the_printed_transformer() -> None:
    tokens, target, _ = given_tokens(TASK, batch=5)
    X, y, query = tokens[:, :-1, :-1], tokens[:, :-1, -1], tokens[:, -1:, :-1]
    expected = 0.5 * ((rf.token_predictions(MODEL, X, y, query)[:, 0] - target) ** 2).mean()
    P, Q = (matrix[:, 0] for matrix in MODEL.attention_matrices())
    for loss in LOSSES.values():
        assert float(loss(P, Q, tokens, target)) == pytest.approx(float(expected), rel=TOLERANCE)


def test_check_of_a_competitor_with_another_gradient_raises() -> None:
    def wrong(model: rf.LinearTransformer, loss: Any, tokens: Any, target: Any) -> Any:
        losses, gradient = rf.losses_and_gradient_on(model, given_tokens(TASK, batch=256)[2], objective="sampled")
        P, Q = (gradient.parameters[name][:, 0] for name in ("P", "Q"))
        return float(losses.mean()), P, 1.01 * Q

    with pytest.raises(rf.RidgeformerError, match="disagree"):
        check_competitor("Wrong", wrong, MODEL, TASK, {"any": gram_loss})


def test_competitor_draws_tokens_of_the_task(competitor: Jax | Torch) -> None:
    batch, task = 20_000, rf.Task(dim=3, examples=5, noise="uniform:1-2")
    source = competitor.jax.random.key(1) if isinstance(competitor, Jax) else competitor.torch.Generator()
    tokens, target = map(np.asarray, competitor.draw_tokens(source, task, batch))
    assert tokens.dtype == np.float32
    assert tokens.shape == (batch, 6, 4)
    assert (tokens[:, -1, -1] == 0).all()
    # E x² = 1, E y² = d + E σ² = 3 + 7/3, E y_t² = d; their standard errors are below 1 %, tolerance is five of them.
    assert np.square(tokens[..., :-1]).mean() == pytest.approx(1, rel=0.05)
    assert np.square(tokens[:, :-1, -1]).mean() == pytest.approx(3 + 7 / 3, rel=0.05)
    assert np.square(target).mean() == pytest.approx(3, rel=0.05)
    # Ordinary least squares on a context knows w: its prediction at the query is near the target on average.
    moment = np.einsum("bnd,bn,bd->b", tokens[:, :-1, :-1], tokens[:, :-1, -1], tokens[:, -1, :-1]) / task.examples
    assert np.mean(moment * target) == pytest.approx(3, rel=0.05)  # E (Xᵀy/n)ᵀx_t · wᵀx_t = E ‖w‖² = d


def test_competitor_step_draws_afresh_on_every_call(competitor: Jax | Torch) -> None:
    for call in competitor.make_steps(MODEL, TASK, 16, TOKEN_LOSSES["E(Qᵀ(EᵀE)Pᵀ)"]).values():
        results: list[Any] = [call() for _ in range(3)]
        losses = [float(loss.detach() if hasattr(loss, "detach") else loss) for loss, _ in results]
        assert len(set(losses)) == 3
        assert np.isfinite(losses).all()


def test_races_without_competitors_say_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "torch"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it is an ImportError
    rows = {row.what: row for row in step_rows(BenchConfig(quick=True))}
    assert rows["ours, sampled"].value == 1
    assert rows["JAX, tokens"].value is None
    assert rows["PyTorch, tokens"].note == NOT_INSTALLED
    assert rows["PyTorch, tokens"].met is None
    assert [row.note for row in evaluate_rows(BenchConfig(quick=True))] == ["", NOT_INSTALLED]
