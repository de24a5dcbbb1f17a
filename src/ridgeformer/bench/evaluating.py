"""Section ``evaluate``: a model's adjusted loss on 100 000 fresh sequences, against the token transformer in JAX."""

from __future__ import annotations

from importlib import import_module

from ridgeformer.bench.config import BATCH, DIM, EXAMPLES, LAYERS, NOISE, BenchConfig
from ridgeformer.bench.report import Row, Target
from ridgeformer.bench.step import NOT_INSTALLED, fastest
from ridgeformer.bench.timing import Call, best_times
from ridgeformer.bench.token_losses import TOKEN_LOSSES
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task
from ridgeformer.evaluation import evaluate

_SEQUENCES, _QUICK_SEQUENCES = 100_000, 4096
_TARGET = Target(30)
# Times do not depend on the weights, as long as no number overflows.
_TINY_SCALE = 5e-4


def evaluate_rows(config: BenchConfig) -> list[Row]:
    """`ridgeformer.evaluate`, with oracle, error bars and tail, against draws and losses alone in JAX.

    JAX draws tokens and computes the paper's sampled loss in batches of 2048, each in one jitted call; it has neither
    an oracle to compute nor quantiles. Of the ways to bracket a layer's products it gets the fastest.
    """
    sequences = _QUICK_SEQUENCES if config.quick else _SEQUENCES
    task, model = Task(DIM, EXAMPLES, NOISE), LinearTransformer.init("full", layers=LAYERS, dim=DIM, scale=_TINY_SCALE)
    ours = f"ours: FULL, L = {LAYERS}, {sequences:,} sequences"
    calls: dict[tuple[str, str], Call] = {(ours, ""): lambda: evaluate(model, task, sequences)}
    try:
        competitor = import_module("ridgeformer.bench.competitors_jax")
    except ImportError:
        competitor = None
    if competitor is not None:
        losses = dict(list(TOKEN_LOSSES.items())[:1]) if config.quick else TOKEN_LOSSES
        theirs = {
            ("JAX, tokens", name): competitor.make_evaluation(model, task, BATCH, sequences, loss)
            for name, loss in losses.items()
        }
        calls |= fastest(theirs)
    seconds = best_times(calls, config.samples, config.window, config.settle)
    base = seconds[ours, ""]
    rows = [Row("evaluate", ours, 1.0, seconds=base)]
    if competitor is None:
        return [*rows, Row("evaluate", "JAX, tokens", None, target=_TARGET, note=NOT_INSTALLED)]
    time, note = min((time, note) for (what, note), time in seconds.items() if what == "JAX, tokens")
    return [*rows, Row("evaluate", "JAX, tokens", time / base, target=_TARGET, seconds=time, note=note)]
