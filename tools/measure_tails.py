"""Measure every model of the zoo on ten million sequences, and write what was found into its file.

python tools/measure_tails.py                                              # about 35 minutes on two cores

A deep model can fail on one sequence in a million, which the million it was measured on when it was trained may not
hold. This replaces ``info["evaluation"]`` by a measurement on ten times as many fresh sequences. Models that have one
already are left alone, so it can be stopped and started again.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import tyro

from ridgeformer.core.storage import plain
from ridgeformer.core.validation import RidgeformerError
from ridgeformer.evaluation import evaluate, trained_on
from ridgeformer.zoo import SUFFIX, load, zoo_folder

SEQUENCES = 10_000_000
SEED = 987_654_321
"""Of sequences that no training and no table uses."""
_LEFT_OUT = ("loss", "loss_error")  # mostly the oracle's: they say little about the model


def measure_tails(folder: Path | None = None, sequences: int = SEQUENCES, seed: int = SEED) -> int:
    """Measure the models in a folder; how many were measured now.

    Args:
        folder: The models; by default those of the package.
        sequences: How many fresh sequences.
        seed: Of the sequences.
    """
    files = sorted((zoo_folder() if folder is None else folder).glob(f"*{SUFFIX}"))
    measured = 0
    for number, file in enumerate(files, 1):
        model = load(file)
        if dict(model.info["evaluation"]).get("sequences", 0) >= sequences:
            continue
        values = plain(evaluate(model, trained_on(model), sequences, seed=seed))
        record = {name: value for name, value in values.items() if name not in _LEFT_OUT}
        replace(model, info={**model.info, "evaluation": record | {"seed": seed}}).save(file)
        measured += 1
        largest = "not finite" if record["diverged"] else f"{record['maximum']:.3g}"
        sys.stdout.write(f"{number}/{len(files)} {file.stem}: largest {largest}\n")
    return measured


if __name__ == "__main__":
    try:
        tyro.cli(measure_tails)
    except RidgeformerError as failed:
        sys.exit(str(failed))
