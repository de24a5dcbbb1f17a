"""``ridgeformer evaluate``: how good models are, beside each other, the baselines and the Bayes limit."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ridgeformer.cli.evaluation_progress import EvaluationProgress
from ridgeformer.cli.evaluation_report import Described, EvaluationReport
from ridgeformer.cli.evaluation_tables import print_report
from ridgeformer.cli.terminal import check_folders
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, shortened, whole_number
from ridgeformer.evaluation.comparison import AnyPredictor, compare
from ridgeformer.evaluation.layers import layerwise as evaluate_layers
from ridgeformer.evaluation.profiles import default_levels
from ridgeformer.evaluation.profiles import profile as evaluate_profile
from ridgeformer.evaluation.shift import parse_shift
from ridgeformer.evaluation.shift_table import default_scenarios, shift_table

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
_Spec = Annotated[str | None, tyro.conf.arg(metavar="SPEC")]
_DEFAULT_SHIFTS = "default"
_PART = 5
"""A noise level of a profile and a shift each get a fifth of the sequences: there are many of them."""
_PIPE_WIDTH = 180  # columns of the widest table, that of the default shifts


def evaluate(
    models: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL…")]] = (),
    noise: _Spec = None,
    context: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    sequences: int = 100_000,
    seed: int = 0,
    baselines: bool = False,
    profile: bool = False,
    layerwise: bool = False,
    shift: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SPEC…")] = (),
    json: _File = None,
    csv: _File = None,
) -> int:
    """Measure models on fresh sequences, all on the same ones, with error bars, tails and paired differences.

    Args:
        models: Model files or names of the zoo.
        noise: Prior of σ, such as uniform:5, categorical:1+3 or fixed:1; by default what the models were trained on.
        context: Examples in a context; by default what the models were trained on.
        sequences: Fresh sequences; each level of --profile and each --shift gets a fifth of them.
        seed: Names the sequences: the same ones for the same seed.
        baselines: Measure ridge regressions and the Bayes limit too, tuned to the noise prior where they can be.
        profile: Also measure at fixed noise levels, up to one beyond the prior.
        layerwise: Also measure what the models would say after each layer.
        shift: Also measure off the training distribution: default, or examples:40, noise:2, sigma:8, kappa:10,
            student:5, outliers:0.05x10, scale:2, rows:0.8, or several joined by +.
        json: Also write everything as JSON.
        csv: Also write everything as CSV.
    """
    whole_number("sequences", sequences, 1)
    check_seed(seed)
    check_folders(json, csv)
    loaded = _load(models)
    task = _task(loaded, noise, context)
    shifts = _shifts(shift, task)
    if not loaded and (not baselines or layerwise):
        raise InputError("Name at least one model file, or ask for --baselines alone.")
    errors = Console(stderr=True)
    with errors.status("tuning baselines"):
        references = _baselines(task) if baselines else {}
    for name in set(loaded) & set(references):
        raise InputError(f"A model cannot be called {name}, which is the name of a baseline.")
    levels = default_levels(task.prior) if profile else ()
    report = _measure(task, seed, sequences, loaded, references, levels, layerwise, shifts, errors)
    print_report(report, _console())
    if json is not None:
        text = json_module.dumps(report.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(json, f"{text}\n".encode())
    if csv is not None:
        write_whole(csv, report.as_csv().encode())
    return 0


def _measure(
    task: Task,
    seed: int,
    sequences: int,
    models: Mapping[str, LinearTransformer],
    baselines: Mapping[str, Described],
    levels: Sequence[float],
    layerwise: bool,
    shifts: Sequence[str],
    errors: Console,
) -> EvaluationReport:
    """Do the work, in stages."""
    predictors: dict[str, AnyPredictor] = {**models, **baselines}
    count, part = len(predictors), max(1, sequences // _PART)
    at_levels, shifted = part * len(levels), part * len(shifts)
    read_out = sequences * len(models) if layerwise else 0
    work = count * (sequences + at_levels) + read_out + (count + 1) * shifted
    found_profile = found_layers = found_shifts = None
    with EvaluationProgress(work, errors) as shown:
        comparison = compare(predictors, task, sequences, seed, shown.stage("fresh sequences", sequences, count))
        if levels:
            on_chunk = shown.stage("noise levels", at_levels, count)
            found_profile = evaluate_profile(predictors, task, levels, part, seed, on_chunk)
        if layerwise:
            found_layers = {
                name: evaluate_layers(model, task, sequences, seed, shown.stage(f"layers of {name}", sequences, 1))
                for name, model in models.items()
            }
        if shifts:
            on_chunk = shown.stage("shifts", shifted, count + 1)  # AdaRR may join the predictors
            found_shifts = shift_table(predictors, task, shifts, part, seed, on_chunk)
    return EvaluationReport(task, seed, models, baselines, comparison, found_profile, found_layers, found_shifts)


def _console() -> Console:
    """Tables at full width when they go to a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)


def _load(names: Sequence[str]) -> dict[str, LinearTransformer]:
    """The models by their labels."""
    import ridgeformer

    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"The model {shortened(name)} is named twice.")
    return {label: ridgeformer.load(name) for label, name in zip(model_labels(names), names, strict=True)}


def model_labels(names: Sequence[str]) -> list[str]:
    """Short names for tables: of every path as many last parts as tell all of them apart.

    Without the ending, and without the ``model`` that every run folder calls its file.
    """
    parts = [Path(name).parts for name in names]
    parts = [(*path[:-1], path[-1].removesuffix(".safetensors")) if path else ("",) for path in parts]
    parts = [path[:-1] if path[-1] == "model" and len(path) > 1 else path for path in parts]
    for length in range(1, max(map(len, parts), default=0) + 1):
        labels = ["/".join(path[-length:]) for path in parts]
        if len(set(labels)) == len(labels):
            return labels
    return list(names)


def _shifts(specs: Sequence[str], task: Task) -> tuple[str, ...]:
    """The specs, with ``default`` written out, checked before any work is done."""
    found: list[str] = []
    for spec in specs:
        found += default_scenarios(task) if spec == _DEFAULT_SHIFTS else (spec,)
    for spec in found:
        parse_shift(spec)
    return tuple(dict.fromkeys(found))


def _task(models: Mapping[str, LinearTransformer], noise: str | None, context: int | None) -> Task:
    """What to draw: as asked, else as the models were trained, else the defaults of `Task`."""
    default = Task()
    dim = _agreed("number of features", {name: model.dim for name, model in models.items()}, default.dim, "")
    told = {name: _told_task(name, model) for name, model in models.items()}
    if noise is None:
        specs = {name: task["noise"] for name, task in told.items() if "noise" in task}
        noise = _agreed("noise prior", specs, default.prior.spec, "; choose one with --noise")
    if context is None:
        counts = {name: task["context"] for name, task in told.items() if "context" in task}
        context = _agreed("number of examples", counts, default.examples, "; choose one with --context")
    return Task(dim, context, noise)


def _told_task(name: str, model: LinearTransformer) -> Mapping[str, Any]:
    """What a model file says about its task; files may say anything."""
    task = model.info.get("task", {})
    if not isinstance(task, Mapping) or not isinstance(task.get("noise", ""), str):
        raise InputError(f"{shortened(name)} does not say in a readable form what it was trained on.")
    return task


def _agreed(what: str, values: Mapping[str, Any], default: Any, remedy: str) -> Any:
    """The one value that all have, or the default if none has any."""
    if not values:
        return default
    (first, value), *others = values.items()
    for name, other in others:
        if other != value:
            raise InputError(
                f"The models differ in their {what}: {shortened(first)} has {shortened(value)}, {shortened(name)} has "
                f"{shortened(other)}{remedy}."
            )
    return value


def _baselines(task: Task) -> dict[str, Described]:
    from ridgeformer.baselines import OLS, AdaRR, Bayes, ConstRR, IterativeAdaRR, Oracle, TunedRR

    chosen = (
        Oracle(),
        OLS(),
        ConstRR.tuned(task),
        AdaRR(),
        TunedRR.tuned(task),
        IterativeAdaRR(),
        Bayes(task.prior),
    )
    return {baseline.name: baseline for baseline in chosen}
