"""The settings of a run, which decide its result together with the module and the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ridgeformer.core.random import check_seed
from ridgeformer.core.validation import InputError, nonnegative, one_of, whole_number

OPTIMISERS: dict[str, Any] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
"""Optimisers of torch, by name."""
ENGINE = "torch"


@dataclass(frozen=True)
class TrainSettings:
    """How a module is trained. These fields, the module and the task decide the result; all fields have defaults.

    Values out of range raise `InputError`.

    >>> TrainSettings(steps=100, rate=1e-3).batch
    64
    """

    steps: int = 4000
    """Steps."""
    batch: int = 64
    """Contexts in a step."""
    queries: int = 10
    """Queries of each context, at most 20; a module that gives weights needs none."""
    rate: float = 3e-3
    """Step size at its highest: it rises for 200 steps and falls as a cosine to a hundredth."""
    optimiser: str = "adam"
    """adam, adamw, nadam, radam, rmsprop or sgd."""
    seed: int = 0
    """Seed of the initial weights and of all contexts."""
    precision: str = "auto"
    """auto keeps that of the module; or float32, float64, or bfloat16: products in bfloat16, weights in float32."""
    compile: bool = False
    """Compile the module with torch.compile, which takes a minute and needs a C++ compiler."""
    threads: int = 1
    """Threads of torch on a CPU. More make small layers slower, and the last bits of a result depend on the number."""
    sequences: int = 20_000
    """Fresh sequences on which the finished module is measured."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "threads"):
            whole_number(name, getattr(self, name), 1)
        whole_number("queries", self.queries, 1, 20)
        whole_number("sequences", self.sequences, 2)
        if nonnegative("rate", self.rate) == 0:
            raise InputError("rate must be more than 0.")
        one_of("optimiser", self.optimiser, OPTIMISERS)
        one_of("precision", self.precision, ("auto", "float32", "float64", "bfloat16"))
        check_seed(self.seed)
        if not isinstance(self.compile, bool):
            raise InputError(f"compile must be true or false, not {self.compile!r}.")

    @property
    def dtype(self) -> str:
        """Precision of the weights."""
        return "float64" if self.precision == "float64" else "float32"


@dataclass(frozen=True)
class TorchRun:
    """All that config.json of a run says."""

    module: Mapping[str, Any]
    """The architecture; for a module that is not of this package, its class and the shapes of its weights."""
    task: Mapping[str, Any]
    """`Task.specs`."""
    settings: TrainSettings

    own_prior = None  # of a task; only runs of the other engine keep such

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "engine": ENGINE,
            "module": dict(self.module),
            "task": dict(self.task),
            "settings": asdict(self.settings),
        }

    @classmethod
    def from_json(cls, values: Any, source: str = "The config") -> TorchRun:
        """The reverse of `as_json`; unknown names are rejected."""
        if not isinstance(values, Mapping) or values.get("engine") != ENGINE:
            raise InputError(f"{source} is not the config of a run by torch.")
        for name in values:
            one_of(f"{source}: a name", name, ("engine", "module", "task", "settings"))
        parts = [values.get(name) for name in ("module", "task", "settings")]
        if not all(isinstance(part, Mapping) for part in parts):
            raise InputError(f"{source}: module, task and settings must be JSON objects.")
        module, task, settings = (dict(part) for part in parts)  # type: ignore[arg-type]
        for name in settings:
            one_of(f"{source}: a setting", name, TrainSettings.__dataclass_fields__)
        return cls(module, task, TrainSettings(**settings))
