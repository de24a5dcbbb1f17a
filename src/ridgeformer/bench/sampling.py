"""Section ``sampling``: the share of a step that goes into drawing contexts rather than learning from them."""

from __future__ import annotations

from ridgeformer.bench.config import BATCH, DIM, EXAMPLES, LAYERS, NOISE, BenchConfig
from ridgeformer.bench.report import Row, Target
from ridgeformer.bench.step import our_step
from ridgeformer.bench.timing import Call, best_times
from ridgeformer.core.task import Task

_DEPTHS = (3, LAYERS)
_TARGETS = {"full": Target(20, at_most=True), "diag": None}


def sampling_rows(config: BenchConfig) -> list[Row]:
    """Time of drawing alone over that of the whole step, batch 2048; the two objectives draw different things.

    Both on one thread: drawing alone would pay once more for handing work to another, which a step does once.
    """
    return [*_objective_rows("sampled", config), *_objective_rows("exact", config)]


def _objective_rows(objective: str, config: BenchConfig) -> list[Row]:
    steps = {(kind, layers): f"{kind.upper()}, L = {layers}" for kind in _TARGETS for layers in _DEPTHS}
    calls = {what: our_step(kind, layers, objective=objective, threads=1) for (kind, layers), what in steps.items()}
    seconds = best_times({"drawing": _drawing(objective), **calls}, config.samples, config.window)
    drawing = seconds["drawing"]
    return [
        Row(
            "sampling",
            what,
            100 * drawing / seconds[what],
            "%",
            _TARGETS[kind],
            f"{objective} objective",
            drawing,
            f"of {1e3 * seconds[what]:.2f} ms",
        )
        for (kind, _), what in steps.items()
    ]


def _drawing(objective: str) -> Call:
    from ridgeformer.bench.drawing import draw_as_a_step_does  # brings in numba, so only when it is needed

    task, done = Task(DIM, EXAMPLES, NOISE), 0

    def call() -> None:
        nonlocal done
        done += 1
        draw_as_a_step_does(task, BATCH, done, objective)

    return call
