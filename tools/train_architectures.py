"""Train the modules that docs/architectures.md compares, one after the other; every run can be stopped and goes on.

    python tools/train_architectures.py [--only TEXT] [--runs DIR]

All are trained alike: 4000 steps of Adam on 64 contexts of 20 examples with ten queries each, the same for all.
Finished modules are copied to src/ridgeformer/torch/models, where `ridgeformer.torch.load` finds them by name. The list
takes about half an hour on one core; with two, give each process a part: --only uniform and --only categorical.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.torch import Architecture, TrainSettings, Transformer, load, train
from ridgeformer.torch.checkpoints import TorchDirectory

MODELS = Path(__file__).parents[1] / "src" / "ridgeformer" / "torch" / "models"
NOISES = ("uniform:5", "categorical:1+3")
STEPS = 4000
_LARGE = 5000  # parameters
_WIDE = {"width": 32, "heads": 4, "projections": "separate", "mlp": 2, "norm": True}
"""A transformer as one would build it elsewhere: embedding, four heads, MLP and LayerNorm."""


class Family(NamedTuple):
    """Modules that differ in depth alone."""

    name: str
    label: str
    architecture: Architecture
    rate: float
    depths: tuple[int, ...] = (1, 2, 4, 7)


# Rates were not searched for: softmax learns faster at 1e-2 than at 3e-3, and a sum over examples explodes there.
FAMILIES = (
    Family("linear", "linear", Architecture("linear"), 3e-3),
    Family("elu", "elu + 1", Architecture("elu"), 1e-2),
    Family("softmax", "softmax", Architecture("softmax"), 1e-2),
    Family("softmax-wide", "softmax, MLP, LayerNorm", Architecture("softmax", **_WIDE), 3e-3),  # type: ignore[arg-type]
    Family("taylor", "Taylor", Architecture("taylor"), 1e-2, (2, 4)),
    Family("linear-wide", "linear, MLP, LayerNorm", Architecture("linear", **_WIDE), 3e-3, (4,)),  # type: ignore[arg-type]
)


class Job(NamedTuple):
    """One module to train."""

    family: Family
    layers: int
    noise: str

    @property
    def name(self) -> str:
        """Of its file: softmax-4-uniform-5."""
        return f"{self.family.name}-{self.layers}-{self.noise.replace(':', '-')}"

    @property
    def architecture(self) -> Architecture:
        """What it is made of."""
        return Architecture.from_json({**self.family.architecture.as_json(), "layers": self.layers})


def jobs() -> list[Job]:
    """All modules, shallow ones first, so that whatever is finished early can be compared."""
    depths = sorted({depth for family in FAMILIES for depth in family.depths})
    return [
        Job(family, depth, noise)
        for depth in depths
        for noise in NOISES
        for family in FAMILIES
        if depth in family.depths
    ]


def train_job(job: Job, runs: Path) -> str:
    """Train or go on with one module; returns a line about it."""
    directory = TorchDirectory(runs / job.name)
    begun = time.process_time()
    if directory.finished_result() is None:
        module = job.architecture.make(seed=0)
        settings = TrainSettings(steps=STEPS, rate=job.family.rate, sequences=10_000)
        resume = directory.exists()
        train(module, Task(10, 20, job.noise), settings, out=directory.path, resume=resume, checkpoint_seconds=60)
    result = directory.finished_result()
    assert result is not None
    MODELS.mkdir(exist_ok=True)
    ship(directory.model, MODELS / f"{job.name}.safetensors")
    loss = result["evaluation"]["adjusted_loss"]
    return f"{job.name}: adjusted loss {loss:.4g}, {time.process_time() - begun:.0f} s of one core"


def ship(source: Path, target: Path) -> None:
    """Copy a module; the weights of large ones are rounded to 16 binary digits, so that they are smaller in a wheel."""
    module = load(source)
    if module.size > _LARGE:
        with torch.no_grad():
            for tensor in module.state_dict().values():
                tensor.copy_(torch.from_numpy(_rounded(tensor.numpy())))
    assert isinstance(module, Transformer)
    module.save_pretrained(target)


def _rounded(values: Array) -> Array:
    """float32 numbers with the last eight of their 24 binary digits rounded off."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((words + np.uint32(0x80)) & np.uint32(0xFFFFFF00)).view(np.float32)


def main() -> None:
    """Train everything that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="only names that contain this text")
    parser.add_argument("--runs", type=Path, default=Path("runs/architectures"), help="where unfinished runs are kept")
    chosen = parser.parse_args()
    todo = [job for job in jobs() if chosen.only in job.name]
    for number, job in enumerate(todo, 1):
        sys.stdout.write(f"{number} of {len(todo)}: {train_job(job, chosen.runs)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
