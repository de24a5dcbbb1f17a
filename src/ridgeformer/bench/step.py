"""Sections ``step`` and ``diag``: a training step of ours against JAX and PyTorch, and DIAG and GD++ against FULL."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np

from ridgeformer.bench.config import BATCH, DIM, EXAMPLES, LAYERS, NOISE, BenchConfig
from ridgeformer.bench.report import Row, Target
from ridgeformer.bench.timing import Call, best_times
from ridgeformer.bench.token_losses import TOKEN_LOSSES, Loss, gram_loss
from ridgeformer.core.context import Context
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import loss_and_gradient, losses_and_gradient_on
from ridgeformer.core.random import GramDraw
from ridgeformer.core.task import Task
from ridgeformer.core.validation import RidgeformerError

LIBRARIES = {"JAX": ("competitors_jax", Target(10, aim=20)), "PyTorch": ("competitors_torch", Target(15, aim=30))}
"""Module and target of each competitor at token level; in Gram space they have none."""
_OURS = {"sampled": "the paper's ½(ŷ − y_t)²", "exact": "½‖ŵ − w*‖², the same gradient with less noise; the default"}
NOT_INSTALLED = "not installed; pip install 'ridgeformer[bench]'"

# Large enough that the layers act on one another, small enough that none explodes (the map has degree 3^7 in the data).
_SCALE = 0.008
# Two float32 computations of the same sums in different orders differ by less than 1e-6 of the largest entry here.
_AGREEMENT = 1e-5

# Times do not depend on the weights, as long as no number overflows: small ones are safe for all depths and dimensions.
_TINY_SCALE = 5e-4

_TokenGradient = Callable[[LinearTransformer, Loss, Array, Array], tuple[float, Array, Array]]


def our_step(
    kind: str,
    layers: int = LAYERS,
    *,
    task: Task | None = None,
    batch: int = BATCH,
    threads: int | None = None,
    objective: str = "exact",
) -> Call:
    """One call: a fresh batch's loss and gradient by `ridgeformer.loss_and_gradient`, in float32."""
    task = Task(DIM, EXAMPLES, NOISE) if task is None else task
    model = LinearTransformer.init(kind, layers=layers, dim=task.dim, scale=_TINY_SCALE)
    done = 0

    def call() -> object:
        nonlocal done
        done += 1
        return loss_and_gradient(model, task, batch=batch, seed=0, step=done, objective=objective, threads=threads)

    return call


def step_rows(config: BenchConfig) -> list[Row]:
    """Loss, gradient and sampling of FULL, L = 7, batch 2048, d = 10, n = 20, float32, by everybody.

    The competitors have the paper's sampled objective, the only one that exists at token level, so ratios are to ours
    with the same one; our exact objective is shown beside it. Every competitor must first agree with ours on given
    tokens. Of the ways to bracket a layer's products, each library gets the one that is fastest for it here.
    """
    task, model = Task(DIM, EXAMPLES, NOISE), LinearTransformer.init("full", layers=LAYERS, dim=DIM, scale=_SCALE)
    calls = {(f"ours, {name}", note): our_step("full", objective=name) for name, note in _OURS.items()}
    for library, (module_name, _) in LIBRARIES.items():
        try:
            competitor = import_module(f"ridgeformer.bench.{module_name}")
        except ImportError:
            continue
        token_losses = dict(list(TOKEN_LOSSES.items())[:1]) if config.quick else TOKEN_LOSSES
        gram_losses = {} if config.quick else {"our recursion, their kernels": gram_loss}
        check_competitor(library, competitor.loss_and_gradient_on, model, task, {**token_losses, **gram_losses})
        for form, losses in (("tokens", token_losses), ("Gram space", gram_losses)):
            steps = {
                (f"{library}, {form}", f"{name}, {threads}"): step
                for name, loss in losses.items()
                for threads, step in competitor.make_steps(model, task, BATCH, loss).items()
            }
            calls |= fastest(steps)
    return _step_rows(best_times(calls, config.samples, config.window, config.settle), config)


def _step_rows(seconds: dict[tuple[str, str], float], config: BenchConfig) -> list[Row]:
    """One row for each competitor, by the best of its calls; the second part of a call's name becomes the note."""
    base = next(time for (what, _), time in seconds.items() if what == "ours, sampled")
    targets: dict[str, Target | None] = {f"ours, {name}": None for name in _OURS}
    for library, (_, token_target) in LIBRARIES.items():
        targets[f"{library}, tokens"] = token_target
        if not config.quick:
            targets[f"{library}, Gram space"] = None
    rows = []
    for what, target in targets.items():
        times = [(time, note) for (name, note), time in seconds.items() if name == what]
        if times:
            time, note = min(times)
            rows.append(Row("step", what, time / base, target=target, seconds=time, note=note))
        else:
            rows.append(Row("step", what, None, target=target, note=NOT_INSTALLED))
    return rows


def fastest(steps: dict[tuple[str, str], Call]) -> dict[tuple[str, str], Call]:
    """The two quickest of several ways to compute the same, by a short trial; the race itself decides between them."""
    if len(steps) <= 2:
        return steps
    # Three turns of a call or two each: enough to tell apart ways whose difference would matter.
    seconds = best_times(steps, repeats=3, window=0.03)
    return {name: steps[name] for name in sorted(steps, key=seconds.__getitem__)[:2]}


def check_competitor(
    library: str, gradient_on: _TokenGradient, model: LinearTransformer, task: Task, losses: dict[str, Loss]
) -> None:
    """See that each of a competitor's losses and gradients on given tokens is ours; otherwise the race is off."""
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
    """The same float32 contexts twice: as (tokens, target) of `token_losses`, and as Gram matrices for our kernels."""
    drawn = task.draw_tokens(batch, seed=0, dtype=np.float32)
    rows = np.concatenate([drawn.X, drawn.query[:, None]], axis=1)
    last = np.concatenate([drawn.y, np.zeros((batch, 1), np.float32)], axis=1)
    context = Context.from_tokens(drawn.X, drawn.y)
    contexts = GramDraw(context.gram, drawn.weights, drawn.query, context.ridge(drawn.sigma**2))
    return np.concatenate([rows, last[..., None]], axis=-1), drawn.target, contexts


def diagonal_rows(config: BenchConfig) -> list[Row]:
    """Steps of DIAG and GD++ with the sizes of ``step``, exact objective, against FULL."""
    seconds = best_times({kind: our_step(kind) for kind in ("full", "diag", "gdpp")}, config.samples, config.window)
    names, targets = {"full": "FULL", "diag": "DIAG", "gdpp": "GD++"}, {"diag": Target(2)}
    return [
        Row("diag", name, seconds["full"] / seconds[kind], target=targets.get(kind), seconds=seconds[kind])
        for kind, name in names.items()
    ]
