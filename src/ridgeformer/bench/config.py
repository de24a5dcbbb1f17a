"""What a benchmark run measures, and the sizes all its sections share."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.bench.timing import SPINNING
from ridgeformer.core.validation import one_of, whole_number

SECTIONS: dict[str, str] = {
    "step": "One training step (draw contexts, loss, gradient) by all; × is the time over ours, sampled objective",
    "diag": "The same step for the small parametrisations; × is the time of FULL over theirs",
    "evaluate": "The adjusted loss of a model on fresh sequences; × is the time over ours",
    "flops": "Multiply-adds per second of FULL's loss and gradient, as a share of NumPy's float32 matrix product",
    "sampling": "Share of a step spent drawing contexts: σ, w, G and, for the sampled objective, x_t; on one thread",
    "context-length": "Time of a step with n = 10 000 examples in a context over one with n = 20",
    "growth": "How the time of a step grows; × is the time over the first of each list",
    "attention": "One forward pass over one context of N tokens, NumPy on one thread; × is the time over Gram space",
    "start": "A fresh process: import and first training step, without and with compiled kernels on disk",
    "memory": "Peak resident memory of a process that trains with batches of 2048",
}
"""Names of the sections in the order they run, and what their numbers mean."""

# The paper's setting: d = 10, n = 20, seven layers, batches of 2048; mixed noise σ ~ U(0, 5).
LAYERS, DIM, EXAMPLES, BATCH, NOISE = 7, 10, 20, 2048, "uniform:5"


@dataclass(frozen=True)
class BenchConfig:
    """What ``ridgeformer bench`` measures and how long it takes over it."""

    repeats: int = 7
    """Samples per competitor, taken in turns; the best one counts, since others' work only ever adds time."""
    quick: bool = False
    """A run of about 25 seconds on smaller sizes, to see that everything works; its numbers are not to be quoted."""
    only: tuple[str, ...] = ()
    """Names of the sections to run; empty means all."""

    def __post_init__(self) -> None:
        whole_number("repeats", self.repeats, 1)
        for name in self.only:
            one_of("only", name, SECTIONS)

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections to run, in their usual order."""
        return tuple(name for name in SECTIONS if not self.only or name in self.only)

    @property
    def samples(self) -> int:
        """How many samples are really taken: two in a quick run, so that taking turns is tried too."""
        return min(self.repeats, 2) if self.quick else self.repeats

    @property
    def window(self) -> float:
        """Seconds that one sample lasts at least: many calls of a fast function, so that the clock does not matter."""
        return 0.005 if self.quick else 0.05

    @property
    def settle(self) -> float:
        """Seconds to wait for a competitor's threads to rest; see `ridgeformer.bench.timing.SPINNING`."""
        return 0.0 if self.quick else SPINNING
