"""Sections ``step``, ``diag``, ``evaluate``: ours against JAX and PyTorch, and small kinds of model against FULL."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from ridgeformer.bench.attention import token_matrix
from ridgeformer.bench.competitors import TOKEN_LOSSES, Jax, Loss, Torch, gram_loss
from ridgeformer.bench.machine import Call, best_times
from ridgeformer.bench.rows import BATCH, DIM, EXAMPLES, LAYERS, NOISE, BenchConfig, Row, Target
from ridgeformer.core.context import Context
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import loss_and_gradient, losses_and_gradient_on
from ridgeformer.core.random import GramDraw
from ridgeformer.core.task import Task
from ridgeformer.core.validation import RidgeformerError
from ridgeformer.evaluation import evaluate

LIBRARIES: dict[str, tuple[type[Jax | Torch], Target]] = {
    "JAX": (Jax, Target(10, aim=20)),
    "PyTorch": (Torch, Target(15, aim=30)),
}
"""The competitors, and our target against their token transformer; against their Gram-space form there is none."""
NOT_INSTALLED = "not installed; pip install 'ridgeformer[bench]'"
_OURS = {"sampled": "the paper's ½(ŷ − y_t)²", "exact": "½‖ŵ − w*‖², the same gradient with less noise; the default"}
_SEQUENCES, _QUICK_SEQUENCES = 100_000, 4096  # to evaluate on

# Large enough that the layers act on one another, small enough that none explodes (the map has degree 3^7 in the data).
_SCALE = 0.008
# Times do not depend on the weights, as long as no number overflows: small ones are safe for all depths and dimensions.
_TINY_SCALE = 5e-4
# Two float32 computations of the same sums in different orders differ by less than 1e-6 of the largest entry here.
_AGREEMENT = 1e-5

_Calls = dict[tuple[str, str], Call]
"""Functions by library and method, which become the note of a row."""
_TokenGradient = Callable[[LinearTransformer, Loss, Array, Array], tuple[float, Array, Array]]


def our_step(
    kind: str,
    layers: int = LAYERS,
    *,
    task: Task | None = None,
    batch: int = BATCH,
    registers: int = 0,
    threads: int | None = None,
    objective: str = "exact",
) -> Call:
    """One call: a fresh batch's loss and gradient by `ridgeformer.loss_and_gradient`, in float32."""
    task = Task(DIM, EXAMPLES, NOISE) if task is None else task
    model = LinearTransformer.init(kind, layers=layers, dim=task.dim, registers=registers, scale=_TINY_SCALE)
    options: dict[str, Any] = {"batch": batch, "seed": 0, "objective": objective, "threads": threads}
    steps = count(1)
    return lambda: loss_and_gradient(model, task, step=next(steps), **options)


def step_rows(config: BenchConfig) -> list[Row]:
    """Loss, gradient and sampling of FULL, L = 7, batch 2048, d = 10, n = 20, float32, by all competitors.

    The competitors have the paper's sampled objective, the only one that exists at token level, so ratios are to ours
    with the same one; our exact objective is shown beside it. Every competitor must first agree with ours on given
    tokens. Of the ways to bracket a layer's products, each library gets the one that is fastest for it here.
    """
    task, model = Task(DIM, EXAMPLES, NOISE), LinearTransformer.init("full", layers=LAYERS, dim=DIM, scale=_SCALE)
    targets: dict[str, Target | None] = {f"ours, {name}": None for name in _OURS}
    calls: _Calls = {(f"ours, {name}", note): our_step("full", objective=name) for name, note in _OURS.items()}
    forms = {"tokens": _token_losses(config)}
    if not config.quick:
        forms["Gram space"] = {"our recursion, their kernels": gram_loss}
    for library, (make, token_target) in LIBRARIES.items():
        targets |= {f"{library}, {form}": token_target if form == "tokens" else None for form in forms}
        try:
            competitor = make()
        except ImportError:
            continue
        for form, losses in forms.items():
            check_competitor(library, competitor.loss_and_gradient_on, model, task, losses)
            steps: _Calls = {}
            for name, loss in losses.items():
                for threads, step in competitor.make_steps(model, task, BATCH, loss).items():
                    steps[f"{library}, {form}", f"{name}, {threads}"] = step
            calls |= _fastest(steps)
    return _race("step", calls, targets, "ours, sampled", config)


def evaluate_rows(config: BenchConfig) -> list[Row]:
    """`ridgeformer.evaluate`, with oracle, error bars and tail, against draws and losses alone in JAX.

    JAX draws tokens and computes the paper's sampled loss in batches of 2048, each in one jitted call; it has neither
    an oracle to compute nor quantiles. Of the ways to bracket a layer's products it gets the fastest.
    """
    sequences = _QUICK_SEQUENCES if config.quick else _SEQUENCES
    task, model = Task(DIM, EXAMPLES, NOISE), LinearTransformer.init("full", layers=LAYERS, dim=DIM, scale=_TINY_SCALE)
    ours = f"ours: FULL, L = {LAYERS}, {sequences:,} sequences"
    calls: _Calls = {(ours, ""): lambda: evaluate(model, task, sequences)}
    with contextlib.suppress(ImportError):
        jax, losses = Jax(), _token_losses(config)
        make = partial(jax.make_evaluation, model, task, BATCH, sequences)
        calls |= _fastest({("JAX, tokens", name): make(loss) for name, loss in losses.items()})
    return _race("evaluate", calls, {ours: None, "JAX, tokens": Target(30)}, ours, config)


def diag_rows(config: BenchConfig) -> list[Row]:
    """Steps of DIAG, without and with two registers, and of GD++, with the sizes of ``step``, against FULL.

    With registers the time is also compared with that of DIAG without.
    """
    label, wide = KINDS["diag"].label, f"{KINDS['diag'].label}, 2 registers"
    calls = {KINDS[kind].label: our_step(kind) for kind in ("full", "diag", "gdpp")}
    seconds = best_times(calls | {wide: our_step("diag", registers=2)}, config.samples, config.window)
    # At most 0.9 of the time of FULL, which is 1.11 times its speed.
    targets, full = {label: Target(2), wide: Target(1.11)}, seconds[KINDS["full"].label]
    rows = [Row("diag", what, full / time, target=targets.get(what), seconds=time) for what, time in seconds.items()]
    ratio, target = seconds[wide] / seconds[label], Target(1.5, at_most=True)
    return [*rows, Row("diag", f"{wide}, time over {label}", ratio, target=target, seconds=seconds[wide])]


def _token_losses(config: BenchConfig) -> dict[str, Loss]:
    return dict(list(TOKEN_LOSSES.items())[:1]) if config.quick else TOKEN_LOSSES


def _race(section: str, calls: _Calls, targets: dict[str, Target | None], base: str, config: BenchConfig) -> list[Row]:
    """A row for each competitor that has a target or None, by the best of its calls, over the time of ``base``."""
    best: dict[str, tuple[float, str]] = {}
    for (what, note), time in best_times(calls, config.samples, config.window, config.settle).items():
        best[what] = min(best.get(what, (time, note)), (time, note))
    rows = []
    for what, target in targets.items():
        if what in best:
            time, note = best[what]
            rows.append(Row(section, what, time / best[base][0], target=target, seconds=time, note=note))
        else:
            rows.append(Row(section, what, None, target=target, note=NOT_INSTALLED))
    return rows


def _fastest(calls: _Calls) -> _Calls:
    """The two quickest of several ways to compute the same, by a short trial; the race itself decides between them."""
    if len(calls) <= 2:
        return calls
    # Three turns of a call or two each: enough to tell apart ways whose difference would matter.
    seconds = best_times(calls, repeats=3, window=0.03)
    return {entrant: calls[entrant] for entrant in sorted(calls, key=seconds.__getitem__)[:2]}


def check_competitor(
    library: str, gradient_on: _TokenGradient, model: LinearTransformer, task: Task, losses: dict[str, Loss]
) -> None:
    """Check that a competitor's losses and gradients on given tokens equal ours; otherwise raise an error."""
    tokens, target, contexts = given_tokens(task, batch=256)
    our_losses, ours = losses_and_gradient_on(model, contexts, objective="sampled")
    P, Q = (ours.parameters[name][:, 0] for name in ("P", "Q"))
    our_loss = float(our_losses.mean(dtype=np.float64))
    for name, loss in losses.items():
        value, P_gradient, Q_gradient = gradient_on(model, loss, tokens, target)
        pairs = ((np.array(value), np.array(our_loss)), (P_gradient, P), (Q_gradient, Q))
        if not all(np.abs(theirs - mine).max() <= _AGREEMENT * np.abs(mine).max() for theirs, mine in pairs):
            raise RidgeformerError(
                f"{library} ({name}) and ridgeformer disagree in the loss ({value:g} and {our_loss:g}) or gradient of "
                "the same tokens, so there is nothing to compare."
            )


def given_tokens(task: Task, batch: int) -> tuple[Array, Array, GramDraw]:
    """The same float32 contexts twice: as (tokens, target) for `competitors`, and as Gram matrices for our kernels."""
    drawn = task.draw_tokens(batch, seed=0, dtype=np.float32)
    context = Context.from_tokens(drawn.X, drawn.y)
    contexts = GramDraw(context.gram, drawn.weights, drawn.query, context.ridge(drawn.sigma**2))
    return token_matrix(drawn), drawn.target, contexts
