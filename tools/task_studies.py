"""Studies of other tasks: train what they need, measure it, and write their tables into docs/tasks.md.

python tools/task_studies.py --runs runs/tasks                 # all studies; a few minutes each on two idle cores
python tools/task_studies.py covariance pool --runs runs/tasks # some of them

Runs are kept in the folder and are not trained again. `STUDIES` lists what there is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import ridgeformer as rf
from ridgeformer.analysis.explanation import explain_model
from ridgeformer.analysis.filters import implied_penalty
from ridgeformer.baselines import AdaRR, Bayes, Oracle, bayes_limit
from ridgeformer.core.objective import losses_and_gradient
from ridgeformer.core.validation import InputError, RidgeformerError
from ridgeformer.evaluation import default_scenarios, garg_battery
from ridgeformer.training.run_directory import RunDirectory
from write_docs import replace_block

_PAGE = Path(__file__).parents[1] / "docs" / "tasks.md"
ROBUST = "diag-7-registers-2-robust"
"""The model of the zoo that was trained on a mixture."""


def trained(runs: Path, **settings: Any) -> rf.LinearTransformer:
    """The model of a run, trained now if it is not there."""
    config = rf.TrainConfig(**{"sequences": 100_000, **settings})
    task = config.task.specs
    parts = [config.kind, config.layers, task["noise"], *(task[n] for n in ("features", "weights") if n in task)]
    folder = runs / "-".join(str(part).replace(":", "-").replace(",", "_") for part in parts)
    if (folder / "model.safetensors").exists():
        return rf.load(folder / "model.safetensors")
    runs.mkdir(parents=True, exist_ok=True)
    begun = RunDirectory(folder).exists()
    say(f"training {folder.name} …")
    return rf.train(config, out=folder, resume=begun).model


def say(text: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(text + "\n")


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def number(value: float, digits: int = 4) -> str:
    """A number as a table has it."""
    return f"{value:.{digits}g}" if np.isfinite(value) else "not finite"


def with_error(one: rf.Evaluation | None, loss: bool = False) -> str:
    """A loss with its standard error; marked where the tail makes up the mean."""
    if one is None:
        return ""
    value, error = (one.loss, one.loss_error) if loss else (one.adjusted_loss, one.standard_error)
    text = f"{value:.4g} ± {error:.1g}" if np.isfinite(value) and np.isfinite(error) else number(value)
    return text + (" †" if one.tail_dominated else "")


# --- Ahn et al. 2023 -------------------------------------------------------------------------------------------------

VARIANCES = (4.0, 2.0, 1.0, 0.5, 0.25)


def best_single_layer(variances: np.ndarray, examples: int, sigma: float) -> tuple[np.ndarray, float]:
    """(a, loss): the best ŵ = diag(a) α under x ~ N(0, diag(c)), w ~ N(0, I), and its loss.

    E[w αᵀ] = n C and E[α αᵀ] = n(n + 1) C² + n (tr C + σ²) C, so a_i = 1 / ((n + 1) c_i + tr C + σ²), which is
    Theorem 1 of Ahn, Cheng, Daneshmand, Sra (NeurIPS 2023), with the factor 1/n of its attention taken in.
    """
    a = 1 / ((examples + 1) * variances + variances.sum() + sigma**2)
    return a, float(0.5 * (variances - examples * variances**2 * a).sum())


def covariance(runs: Path) -> str:
    """One layer under a covariance: learned numbers beside the closed form."""
    c, n = np.array(VARIANCES), 20
    spec = "variances:" + ",".join(f"{value:g}" for value in VARIANCES)
    rows = []
    for sigma in (0.0, 1.0):
        task: dict[str, Any] = {"dim": len(c), "examples": n, "noise": f"fixed:{sigma:g}", "features": spec}
        model = trained(runs, kind="full", layers=1, precision="float64", **task)
        P, Q = model.attention_matrices()
        learned = -P[0, 0, -1, -1] * np.diagonal(Q[0, 0])[:-1]
        a, loss = best_single_layer(c, n, sigma)
        measured = rf.evaluate(model, rf.Task(**task), 1_000_000)
        numbers = zip(c, a, learned, strict=True)
        rows += [[f"{sigma:g}", f"a for c = {own:g}", f"{best:.5f}", f"{mine:.5f}"] for own, best, mine in numbers]
        rows.append([f"{sigma:g}", "loss", f"{loss:.4f}", with_error(measured, loss=True)])
    return table(["σ", "number", "closed form", "learned"], rows)


# --- Garg et al. 2022 ------------------------------------------------------------------------------------------------


def examples(runs: Path) -> str:
    """Loss against the number of examples, for models trained on one n and on a range."""
    base = {"kind": "diag", "layers": 4, "noise": "fixed:1"}
    chosen = {
        "n = 20": trained(runs, **base),
        "n = 5..40": trained(runs / "range", examples="5..40", **base),
        "AdaRR": AdaRR(),
        "OLS": rf.baselines.OLS(),
        "ridge told σ": Oracle(),
    }
    values = (2, 5, 8, 10, 12, 15, 20, 25, 30, 40)
    curve = rf.curve(chosen, rf.Task(noise="fixed:1"), "examples", values, sequences=20_000)
    rows = [
        [f"{n:g}", *(with_error(row[place], loss=True) for row in curve.evaluations.values())]
        for place, n in enumerate(values)
    ]
    return table(["n", *curve.evaluations], rows)


# --- Raventós et al. 2023 --------------------------------------------------------------------------------------------

POOLS = (1, 4, 16, 64, 256, 1024)


def pool(runs: Path) -> str:
    """Models trained on a pool of M weight vectors, on that pool and on new weights."""
    size: dict[str, Any] = {"dim": 8, "examples": 16, "noise": "fixed:0.5"}
    rows = []
    for m in (*POOLS, None):
        spec = "normal" if m is None else f"pool:{m}"
        task, fresh = rf.Task(weights=spec, **size), rf.Task(**size)
        full = trained(runs, kind="full", layers=4, weights=spec, **size)
        ridge = Bayes("fixed:0.5")
        discrete = bayes_limit(task)
        chosen = {"FULL": full, "ridge": ridge, "discrete": discrete}
        on_pool, on_new = rf.compare(chosen, task, 20_000), rf.compare(chosen, fresh, 20_000)
        cells = [
            number(result.evaluations[name].loss, 3) for result in (on_pool, on_new) for name in result.evaluations
        ]
        rows.append(["∞" if m is None else m, *cells])
    heads = ["M", *(f"{where}: {name}" for where in ("pool", "new") for name in ("FULL", "ridge", "discrete"))]
    return table(heads, rows)


# --- fixed and mixed noise -------------------------------------------------------------------------------------------


def noise(runs: Path) -> str:
    """Models trained on one level beside one trained on U(0, 5): profiles over σ, and what penalty each applies."""
    chosen: dict[str, Any] = {
        f"trained on {s:g}": trained(runs, kind="diag", layers=4, noise=f"fixed:{s:g}") for s in (1.0, 2.5, 5.0)
    }
    chosen["trained on U(0, 5)"] = rf.load("diag-4-uniform-5")
    levels = (0.0, 0.5, 1.0, 1.5, 2.5, 4.0, 5.0, 6.0)
    curve = rf.curve({**chosen, "AdaRR": AdaRR()}, "uniform:5", "sigma", levels, sequences=20_000)
    rows = [
        [f"{level:g}", *(with_error(row[place]) for row in curve.evaluations.values())]
        for place, level in enumerate(levels)
    ]
    profiles = table(["σ", *curve.evaluations], rows)
    return "\n\n".join([profiles, _penalties(chosen, levels), _algorithms(chosen)])


def _penalties(models: dict[str, Any], levels: Sequence[float]) -> str:
    """√v of the ridge regression closest to each model, at fixed σ."""
    rows = []
    for level in levels:
        draw = rf.Task(noise=f"fixed:{level:g}").draw_contexts(5000, seed=1)
        values, vectors, cross = draw.context.spectrum
        cells = []
        for model in models.values():
            weights = np.einsum("bji,bj->bi", vectors, model.weights(draw.context))
            penalty = implied_penalty(weights, values, cross, 20)
            cells.append(f"{float(np.nanmedian(np.sqrt(penalty))):.2f}")
        rows.append([f"{level:g}", *cells])
    return table(["σ", *(f"√v, {name}" for name in models)], rows)


def _algorithms(models: dict[str, Any]) -> str:
    """What 'ridgeformer explain' finds of each model on U(0, 5)."""
    rows = []
    for name, model in models.items():
        explained = explain_model(model, rf.Task(), sequences=5000, ablate=False)
        distance = max(band.distance for band in explained.implied.bands if band.layer == model.layers)
        share, correlation = explained.filters.layers[-1].common_share, explained.implied.correlations["Bayes"]
        rows.append([name, f"{distance:.2%}", f"{share:.1%}", f"{correlation:.2f}"])
    heads = (
        "model",
        "distance from a ridge regression",
        "of ŵ by one filter",
        "rank correlation of √v with E[σ given the data]",
    )
    return table(heads, rows)


# --- robust ----------------------------------------------------------------------------------------------------------


def robust(runs: Path) -> str:
    """The robust model beside others, on the battery of Garg et al. and the default shifts: loss over AdaRR's."""
    names = (ROBUST, "full-7-uniform-5", "diag-7-uniform-5")
    task = rf.Task()
    specs = dict.fromkeys(["none", *garg_battery(task), *default_scenarios(task), "sigma:8"])
    result = rf.shift_table({name: rf.load(name) for name in names}, task, list(specs), sequences=100_000)
    rows = []
    for spec, cells in result.results.items():
        ada = cells["AdaRR"].loss
        ratios = [f"{cells[name].loss / ada:.3f}" if np.isfinite(cells[name].loss) else "inf" for name in names]
        large = [text if len(text) < 8 else f"{float(text):.1e}" for text in ratios]
        rows.append([spec, f"{result.references[spec]:.3f}", f"{ada:.3f}", *large])
    return table(["shift", "loss of the reference", "loss of AdaRR", *names], rows)


# --- speed -----------------------------------------------------------------------------------------------------------

PLAIN = "the paper's"
TASKS: dict[str, rf.Task] = {
    PLAIN: rf.Task(),
    "kappa:10": rf.Task(features="kappa:10"),
    "kappa:10+rotated": rf.Task(features="kappa:10+rotated"),
    "w ~ power:1": rf.Task(weights="power:1"),
    "n = 5..40": rf.Task(examples="5..40"),
    "w ~ pool:64": rf.Task(weights="pool:64"),
    "w ~ sparse:3": rf.Task(weights="sparse:3"),
    "rows:0.8 (tokens)": rf.Task(features="rows:0.8"),
    "student:5 noise (tokens)": rf.Task(noise_shape="student:5"),
    "a mixture of four": rf.parse_mixture("base | features=skewed | features=scale:2 | weights=scale:2", rf.Task()),
}


def speed(runs: Path) -> str:
    """Time of a training step of 1024 contexts, as a share of the isotropic speed; best of sixty in turns."""
    rows = []
    models = {
        f"{kind.upper()} {layers}": rf.LinearTransformer.init(kind, layers=layers, dim=10)
        for kind, layers in (("diag", 7), ("full", 7))
    }
    best = {name: dict.fromkeys(TASKS, np.inf) for name in models}
    for step in range(61):
        for name, model in models.items():
            for label, task in TASKS.items():
                began = time.perf_counter()
                losses_and_gradient(model, task, batch=1024, seed=0, step=step)
                if step:
                    best[name][label] = min(best[name][label], time.perf_counter() - began)
    for label in TASKS:
        cells = [f"{1e3 * best[name][label]:.2f}" for name in models]
        shares = [f"{best[name][PLAIN] / best[name][label]:.2f}" for name in models]
        rows.append([label, *(cell for pair in zip(cells, shares, strict=True) for cell in pair)])
    return table(["task", *(head for name in models for head in (f"{name}, ms", "share of speed"))], rows)


STUDIES: dict[str, Callable[[Path], str]] = {
    "speed": speed,
    "covariance": covariance,
    "examples": examples,
    "pool": pool,
    "noise": noise,
    "robust": robust,
}


def main(
    studies: tyro.conf.Positional[tuple[str, ...]] = (), runs: Path = Path("runs/tasks"), page: Path = _PAGE
) -> None:
    """Train, measure and write.

    Args:
        studies: Which ones; all if none is named.
        runs: Where runs are kept.
        page: The page to write into.
    """
    for name in studies or tuple(STUDIES):
        if name not in STUDIES:
            raise InputError(f"There is no study {name!r}; there are {', '.join(STUDIES)}.")
        text = STUDIES[name](runs)
        sys.stdout.write(f"\n{name}\n\n{text}\n")
        replace_block(page, f"study {name}", text)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except RidgeformerError as wrong:
        sys.exit(f"{wrong}")
