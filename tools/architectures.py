"""Compare the modules that tools/train_architectures.py trained, and write docs/architectures.md with its figures.

    python tools/train_architectures.py                                    # half an hour on one core
    ridgeformer bench --only torch --json bench-torch.json                 # speed and memory, on an idle machine
    python tools/architectures.py measure [--only PART]                    # 20 minutes; parts that are there stay
    python tools/architectures.py write --bench bench-torch.json

Results are kept in docs/results/architectures.json, part by part; --again PART measures one again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import ridgeformer as rf
from architectures_page import write_page
from ridgeformer.core.storage import plain, write_whole
from ridgeformer.core.validation import RidgeformerError
from train_architectures import FAMILIES, MODELS, NOISES, Job, jobs

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "architectures.json"
DEPTH = 4
"""Layers of the modules that are looked at more closely."""
SEQUENCES = 10_000
LENGTHS = (12, 15, 20, 30, 50, 100, 300, 1000, 3000, 10_000)
TOKENS = 400_000
"""Of all sequences of one length together: 20 000 of 20 examples, 40 of 10 000."""
_MOST, _FEWEST = 2000, 40
SHIFTS = ("none", "noise:2", "kappa:10", "student:5", "outliers:0.05x10", "scale:2", "rows:0.8")
ATTACKED = 20
MOVE = 2.0
"""How far predictions are to be moved: their standard deviation is about 3."""


def finished(noise: str, layers: int | None = None) -> dict[str, Job]:
    """The jobs whose module is there, by the label of their family and their depth."""
    there = [job for job in jobs() if job.noise == noise and (MODELS / f"{job.name}.safetensors").exists()]
    return {job.name: job for job in there if layers is None or job.layers == layers}


def modules(noise: str, layers: int) -> dict[str, Any]:
    """Modules of this depth by label, beside the zoo's FULL model and what one compares with."""
    found: dict[str, Any] = {job.family.label: rf.torch.load(name) for name, job in finished(noise, layers).items()}
    zoo = f"full-{layers}-{noise.replace(':', '-')}"
    return {**found, "FULL of the zoo": rf.load(zoo)}


def references(noise: str) -> dict[str, Any]:
    """The limit, and what needs no training."""
    return {"AdaRR": rf.baselines.AdaRR(), "Bayes limit": rf.baselines.Bayes(rf.Task(noise=noise).prior)}


# --- the parts --------------------------------------------------------------------------------------------------------


def losses() -> dict[str, Any]:
    """Adjusted loss of everything on its own task."""
    record: dict[str, Any] = {}
    for noise in NOISES:
        task = rf.Task(10, 20, noise)
        for layers in sorted({job.layers for job in finished(noise).values()}):
            predictors = modules(noise, layers)
            result = rf.compare(predictors, task, SEQUENCES, paired=False)
            record.setdefault(noise, {})[str(layers)] = result.evaluations
            say(f"losses, {noise}, {layers} layers")
        record[noise]["references"] = rf.compare(references(noise), task, SEQUENCES, paired=False).evaluations
    return record


def trained() -> dict[str, Any]:
    """Numbers of weights, steps and seconds of training."""
    record = {}
    for noise in NOISES:
        for name, job in finished(noise).items():
            module = rf.torch.load(name)
            training = module.info["training"]
            record[name] = {"family": job.family.label, "layers": job.layers, "noise": noise, "size": module.size}
            record[name] |= {key: training[key] for key in ("steps", "batch", "rate")}
    return record


def profiles() -> dict[str, Any]:
    """Loss at fixed noise levels, for four layers."""
    record = {}
    for noise in NOISES:
        predictors = {**modules(noise, DEPTH), **references(noise)}
        levels = [float(level) for level in range(8)]
        result = rf.profile(predictors, rf.Task(10, 20, noise), levels, SEQUENCES // 5)
        record[noise] = {"levels": levels, "evaluations": result.evaluations}
        say(f"profiles, {noise}")
    return record


def lengths() -> dict[str, Any]:
    """Loss against the number of examples, up to 10 000: what was trained on 20 only."""
    noise = NOISES[0]
    predictors: dict[str, Any] = {**modules(noise, DEPTH), **references(noise)}
    linear = predictors.get("linear")
    if linear is not None:  # the same weights, divided by n: with P' = 20 P it is the same module at 20 examples
        predictors["linear / n"] = divided(linear, 20)
    record: dict[str, Any] = {"lengths": LENGTHS, "evaluations": {name: [] for name in predictors}}
    for length in LENGTHS:
        count = max(_FEWEST, min(_MOST, TOKENS // length))
        with np.errstate(over="ignore", invalid="ignore"):
            result = rf.compare(predictors, rf.Task(10, length, noise), count, paired=False)
        for name, evaluation in result.evaluations.items():
            record["evaluations"][name].append(evaluation)
        say(f"lengths, n = {length}")
    return record


def divided(linear: Any, examples: int) -> Any:
    """A linear module as one that divides by n, the same at so many examples."""
    values = {**linear.architecture.as_json(), "kind": "normalised"}
    other = rf.torch.Architecture.from_json(values).make()
    other.load_state_dict(linear.state_dict())
    with torch.no_grad():
        for block in other.blocks:
            block.attention.P *= examples
    return other


def shifts() -> dict[str, Any]:
    """Losses off the training distribution, as ratios to ridge regression that is told the truth."""
    noise = NOISES[0]
    predictors = {**modules(noise, DEPTH), **references(noise)}
    table = rf.shift_table(predictors, rf.Task(10, 20, noise), SHIFTS, SEQUENCES // 5)
    return {spec: dict(cells) for spec, cells in table.results.items()}


def attacks() -> dict[str, Any]:
    """The smallest change of one example that moves a prediction by two."""
    noise = NOISES[0]
    drawn = rf.Task(10, 20, noise).draw_tokens(ATTACKED, seed=0)
    predictors = {name: thing for name, thing in modules(noise, DEPTH).items() if name != "FULL of the zoo"}
    predictors = {name: module.double() for name, module in predictors.items()}
    for kind in ("full", "diag"):
        predictors[f"{kind.upper()} of the zoo"] = rf.torch.load(f"{kind}-{DEPTH}-uniform-5", dtype="float64")
    everyone = {**predictors, "OLS": rf.baselines.OLS(), **references(noise)}
    record: dict[str, Any] = {}
    for name, predictor in everyone.items():
        for change in ("y", "both"):
            before = rf.torch.attack(predictor, drawn.X, drawn.y, drawn.query, drawn.target, restarts=1, steps=1).before
            found = rf.torch.attack(
                predictor, drawn.X, drawn.y, drawn.query, before + MOVE, change=change, restarts=3, steps=40
            )
            reached = np.isfinite(found.size)
            median = float(np.median(found.size[reached])) if reached.any() else float("nan")
            record.setdefault(name, {})[change] = {"median": median, "reached": float(reached.mean())}
        say(f"attacks, {name}")
    return record


PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "trained": trained,
    "losses": losses,
    "profiles": profiles,
    "lengths": lengths,
    "shifts": shifts,
    "attacks": attacks,
}


def measure(only: tuple[str, ...] = (), again: tuple[str, ...] = (), sequences: int = SEQUENCES) -> None:
    """Measure what is missing.

    Args:
        only: Parts to measure: trained, losses, profiles, lengths, shifts, attacks; all by default.
        again: Parts to measure again.
        sequences: Fresh sequences for a loss.
    """
    global SEQUENCES
    SEQUENCES = sequences
    torch.set_num_threads(1)
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name, part in PARTS.items():
        if (name in known and name not in again) or (only and name not in only and name not in again):
            continue
        known[name] = plain(part(), digits=5)
        write_whole(RESULTS, (json.dumps(known, indent=1) + "\n").encode())


def write(bench: Path | None = None) -> None:
    """Write docs/architectures.md and its figures from what was measured.

    Args:
        bench: What 'ridgeformer bench --only torch --json FILE' wrote; without it, that part of the page stays.
    """
    known = json.loads(RESULTS.read_text(encoding="utf-8"))
    speed = None if bench is None else json.loads(bench.read_text(encoding="utf-8"))
    write_page(known, speed, [family.label for family in FAMILIES])


def say(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    try:
        tyro.extras.subcommand_cli_from_dict({"measure": measure, "write": write})
    except RidgeformerError as wrong:
        sys.stderr.write(f"{wrong}\n")
        sys.exit(2)
