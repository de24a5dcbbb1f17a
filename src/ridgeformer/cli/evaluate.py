"""``ridgeformer evaluate``: measure models, and compare them with each other, the baselines and the Bayes limit."""

from __future__ import annotations

import csv as csv_module
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib import import_module, resources
from pathlib import Path
from typing import Annotated, Any

import tyro

from ridgeformer import evaluation
from ridgeformer._version import __version__
from ridgeformer.baselines import BASELINES, baselines_for, reference_note
from ridgeformer.cli import terminal
from ridgeformer.core.distributions import is_builtin, load_noise
from ridgeformer.core.features import load_features
from ridgeformer.core.mixture import load_mixture
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import ModuleFileError
from ridgeformer.core.noise import load_shape
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, shortened, whole_number
from ridgeformer.core.weights import load_weights
from ridgeformer.evaluation import Evaluation, ShiftResult, ShiftTable
from ridgeformer.evaluation.shift import SHIFTS, UNSHIFTED
from ridgeformer.evaluation.shift_table import SURVIVAL_FACTOR, YARDSTICK
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.zoo import load

_DEFAULT_SHIFTS, _GARG = "default", "garg"
_PART = 5
"""Each noise level of a profile and each shift gets a fifth of the sequences, because there are many of them."""
_HEADS = ("predictor", "adjusted loss ± s.e.", "median", "p99", "largest", "worst 1 %", "loss ± s.e.")
_BASELINES_HELP = (
    f"Also measure {', '.join(entry.label for entry in BASELINES.values())}. Those with constants are tuned to the "
    "distribution of σ."
)
_SHIFT_HELP = (
    f"Also measure on sequences that differ from those of training: {_DEFAULT_SHIFTS} (a list of shifts), {_GARG} (the "
    f"shifts of Garg et al. 2022), or {', '.join(entry.form for entry in SHIFTS.values())}, or several joined by +."
)


def evaluate(
    models: tyro.conf.Positional[Annotated[tuple[str, ...], terminal.argument("MODEL…")]] = (),
    noise: terminal.Noise = None,
    examples: terminal.Examples = None,
    features: terminal.Features = None,
    weights: terminal.Weights = None,
    noise_shape: terminal.NoiseShape = None,
    mixture: terminal.MixtureText = None,
    sequences: int = 100_000,
    seed: int = 0,
    baselines: Annotated[bool, tyro.conf.arg(help=_BASELINES_HELP)] = False,
    profile: bool = False,
    layerwise: bool = False,
    shift: Annotated[tuple[str, ...], terminal.argument("SPEC…", _SHIFT_HELP)] = (),
    json: terminal.File = None,
    csv: terminal.File = None,
) -> None:
    """Measure models on fresh sequences, with error bars and paired differences.

    All models are measured on the same sequences. By default these are drawn as in the models' training; --noise,
    --examples, --features and so on change that.

    The adjusted loss is the loss above that of the oracle, which is ridge regression that is told the noise level σ.

    Args:
        models: Model files or names of models in the zoo.
        sequences: Number of sequences; each noise level of --profile and each --shift gets a fifth of it.
        seed: Seed of the sequences: the same seed gives the same sequences.
        profile: Also measure at fixed noise levels, the last of them higher than in training.
        layerwise: Also measure the prediction that the models hold after each layer.
        json: Also write everything as JSON.
        csv: Also write everything as CSV.
    """
    whole_number("sequences", sequences, 1)
    check_seed(seed)
    terminal.check_files(json, csv)
    loaded = load_models(models)
    task = task_for(loaded, noise, examples, features, weights, noise_shape, mixture)
    shifts = _shifts(shift, task)
    if not loaded and (not baselines or layerwise):
        raise InputError("Name at least one model, or ask for --baselines alone.")
    for label in (entry.label for entry in BASELINES.values() if baselines and entry.label in loaded):
        raise InputError(f"A model cannot be called {label}, which is the name of a baseline.")
    with terminal.ERRORS.status("tuning baselines"):
        references = baselines_for(task) if baselines else {}
    predictors: dict[str, Any] = {**loaded, **references}
    levels = evaluation.default_levels(task.prior) if profile else ()
    count, part = len(predictors), max(1, sequences // _PART)
    at_levels, shifted = part * len(levels), part * len(shifts)
    work = count * (sequences + at_levels) + sequences * len(loaded) * layerwise + (count + 1) * shifted
    parts: dict[str, Any] = {}
    with terminal.Progress(work) as progress:
        on_chunk = progress.stage("fresh sequences", sequences, count)
        comparison = evaluation.compare(predictors, task, sequences, seed, on_chunk)
        if levels:
            on_chunk = progress.stage("noise levels", at_levels, count)
            parts["profile"] = evaluation.profile(predictors, task, levels, part, seed, on_chunk)
        if layerwise:
            parts["layers"] = {}
            for name, model in loaded.items():
                on_chunk = progress.stage(f"layers of {name}", sequences)
                parts["layers"][name] = evaluation.layerwise(model, task, sequences, seed, on_chunk)
        if shifts:
            on_chunk = progress.stage("shifts", shifted, count + 1)  # AdaRR may join the predictors
            parts["shifts"] = evaluation.shift_table(predictors, task, shifts, part, seed, on_chunk)
    report = EvaluationReport(task, seed, loaded, references, comparison, **parts)
    _print_report(report)
    terminal.write_json(json, report.as_json())
    if csv is not None:
        write_whole(csv, report.as_csv().encode())


# --- what to measure --------------------------------------------------------------------------------------------------


def load_models(names: Sequence[str]) -> dict[str, LinearTransformer]:
    """The models by their labels."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"The model {shortened(name)} is named twice.")
    return {label: _load(name) for label, name in zip(model_labels(names), names, strict=True)}


def _load(name: str) -> Any:
    """A model; or a module of `ridgeformer.torch`, if a file or a name that comes with the package is one."""
    shipped = resources.files("ridgeformer").joinpath("torch", "models", f"{name}.safetensors")
    if "/" not in name and not Path(name).is_file() and shipped.is_file():
        return import_module("ridgeformer.torch").load(name)
    try:
        return load(name)
    except ModuleFileError:
        return import_module("ridgeformer.torch").load(name)


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
    """The specs, with ``default`` and ``garg`` replaced by their lists; checked before any work is done."""
    chosen: list[str] = []
    for spec in specs:
        several = {_DEFAULT_SHIFTS: evaluation.default_scenarios, _GARG: evaluation.garg_battery}
        chosen += several[spec](task) if spec in several else (spec,)
    for spec in chosen:
        evaluation.shifted(task, spec)
    return tuple(dict.fromkeys(chosen))


def task_for(
    models: Mapping[str, LinearTransformer],
    noise: str | None,
    examples: str | int | None,
    features: str | None = None,
    weights: str | None = None,
    noise_shape: str | None = None,
    mixture: str | None = None,
) -> Task:
    """The task to draw from: what the user asked for, else what the models were trained on, else `Task()`."""
    default = Task()
    dim = _agreed("number of features", {name: model.dim for name, model in models.items()}, default.dim, "")
    loaders = {"features": load_features, "weights": load_weights, "noise_shape": load_shape}
    count = int(str(examples)) if str(examples).isdecimal() else examples
    asked: dict[str, Any] = {"noise": noise, "examples": count, "features": features, "weights": weights}
    asked |= {"noise_shape": noise_shape}
    needed = noise is None or examples is None  # otherwise a task that cannot be read is ignored
    tasks = {name: _trained_on(name, model, needed) for name, model in models.items()}
    if mixture is None and all(spec is None for spec in asked.values()):
        mixture = _agreed_if_any("mixture", tasks)
    if noise is None:
        for name, own in ((name, task["prior"]) for name, task in tasks.items() if "prior" in task):
            raise InputError(f"{shortened(name)} has a noise prior of your own: pass it again, with --noise {own}(…).")
        specs = {name: task["noise"] for name, task in tasks.items() if "noise" in task}
        asked["noise"] = _agreed("noise prior", specs, default.prior, "; choose one with --noise")
    else:
        asked["noise"] = load_noise(noise)
    if examples is None:
        counts = {name: task["examples"] for name, task in tasks.items() if "examples" in task}
        asked["examples"] = _agreed("number of examples", counts, default.examples, "; choose one with --examples")
    for name, load_part in loaders.items():
        spec = asked[name] if asked[name] is not None else _agreed_if_any(name, tasks)
        asked[name] = getattr(default, name) if spec is None else load_part(spec)
    task = Task(dim, **asked)
    return task if mixture is None else load_mixture(mixture, task)


def _agreed_if_any(name: str, tasks: Mapping[str, Mapping[str, Any]]) -> Any:
    """The value under this name that all models' tasks agree on; None if no task has the name."""
    if not any(name in task for task in tasks.values()):
        return None
    flag = "--" + name.replace("_", "-")
    plain = getattr(Task(), name, None)
    specs = {label: task.get(name, getattr(plain, "spec", "base")) for label, task in tasks.items()}
    return _agreed(name.replace("_", " "), specs, None, f"; choose one with {flag}")


def _trained_on(name: str, model: LinearTransformer, needed: bool) -> Mapping[str, Any]:
    """What a model file says about its task. A file may contain anything, so it is checked."""
    task = model.info.get("task", {})
    if not isinstance(task, Mapping) or not isinstance(task.get("noise", ""), str):
        if not needed:
            return {}
        raise InputError(f"{shortened(name)} does not say in a readable form what it was trained on.")
    return {"examples" if key == "context" else key: value for key, value in task.items()}


def _agreed(what: str, values: Mapping[str, Any], default: Any, remedy: str) -> Any:
    """The one value that all models have, or the default if there are no values; `InputError` if they differ."""
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


# --- what was measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluationReport:
    """The parts that were asked for."""

    task: Task
    seed: int
    models: Mapping[str, LinearTransformer]
    baselines: Mapping[str, Any]
    comparison: evaluation.Comparison
    profile: evaluation.Profile | None = None
    layers: Mapping[str, tuple[Evaluation, ...]] | None = None
    """For each model, the result of its prediction after 1, 2, … layers."""
    shifts: ShiftTable | None = None

    @property
    def sequences(self) -> int:
        """The number of sequences of the comparison."""
        return next(iter(self.comparison.evaluations.values())).sequences

    def as_json(self) -> dict[str, Any]:
        """Everything as mappings and sequences, for `write_json`."""
        models = {}
        for label, model in self.models.items():
            shape = {name: getattr(model, name) for name in ("kind", "layers", "heads", "dim")}
            models[label] = {**shape, "precision": str(model.dtype).removeprefix("torch.")}
        record: dict[str, Any] = {
            "version": __version__,
            "task": self.task.specs,
            "seed": self.seed,
            "sequences": self.sequences,
            "models": models,
            "baselines": {label: _description(label, baseline) for label, baseline in self.baselines.items()},
            "evaluations": self.comparison.evaluations,
            "differences": self.comparison.differences,
        }
        if self.profile is not None:
            record["profile"] = {"levels": self.profile.levels, "evaluations": self.profile.evaluations}
        if self.layers is not None:
            record["layerwise"] = self.layers
        if self.shifts is not None:
            record["shift"] = {"references": self.shifts.references, "results": self.shifts.results}
        return {name: _record(part) for name, part in record.items()}

    def as_csv(self) -> str:
        """One line for every number with an error bar: (part, predictor, at) and what was measured there."""
        text = io.StringIO()
        measured = dict.fromkeys(field.name for kind in (Evaluation, ShiftResult) for field in fields(kind))
        writer = csv_module.DictWriter(text, ["part", "predictor", "at", *measured], lineterminator="\n")
        writer.writeheader()
        for part, predictor, at, result in self._cells():
            writer.writerow({"part": part, "predictor": predictor, "at": at, **asdict(result)})
        return text.getvalue()

    def _cells(self) -> Iterator[tuple[str, str, str, Evaluation | ShiftResult]]:
        """(part, predictor, noise level or layer or shift, result)."""
        for name, result in self.comparison.evaluations.items():
            yield "evaluation", name, self.task.prior.spec, result
        if self.profile is not None:
            for name, row in self.profile.evaluations.items():
                for level, result in zip(self.profile.levels, row, strict=True):
                    yield "profile", name, f"{level:g}", result
        for name, row in (self.layers or {}).items():
            for layer, result in enumerate(row, 1):
                yield "layerwise", name, str(layer), result
        for spec, cells in (self.shifts.results if self.shifts is not None else {}).items():
            for name, cell in cells.items():
                yield "shift", name, spec, cell


def _record(value: Any) -> Any:
    """Results as JSON, with the properties that follow from their fields."""
    if isinstance(value, Mapping):
        return {name: _record(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_record(item) for item in value]
    derived = {name: getattr(value, name) for name in ("interval", "tail_dominated") if hasattr(value, name)}
    return {**asdict(value), **derived} if is_dataclass(value) and not isinstance(value, type) else value


def _description(label: str, baseline: Any) -> str:
    """A baseline with its parameters."""
    return str(baseline.describe()) if hasattr(baseline, "describe") else label


# --- tables, and the sentences below them -----------------------------------------------------------------------------


def _print_report(report: EvaluationReport) -> None:
    _print_comparison(report)
    if report.profile is not None:
        evaluations = report.profile.evaluations
        count = next(iter(evaluations.values()))[0].sequences
        title = f"Adjusted loss ± s.e. at fixed noise, {count:,} sequences a level, the same draws at every level"
        _print_rows(title, "σ", [f"{level:g}" for level in report.profile.levels], evaluations)
    if report.layers is not None:
        title = f"Adjusted loss ± s.e. read out after each layer, {report.sequences:,} sequences"
        depths = [str(number + 1) for number in range(max(map(len, report.layers.values())))]
        _print_rows(title, "layer", depths, report.layers)
    if report.shifts is not None:
        _print_shifts(report.shifts)


def _print_comparison(report: EvaluationReport) -> None:
    measured, printed = report.comparison, {name: _printed(report, name) for name in report.comparison.evaluations}
    paper = ["paper"] if any(printed.values()) else []
    first, *others = measured.evaluations
    limit = next((entry.label for entry in BASELINES.values() if entry.limit and entry.label in others), None)
    rivals = {f"minus {limit}": limit} if limit else {}
    if others:
        rivals = {"minus first": first, **rivals}
    rows = []
    for name, result in measured.evaluations.items():
        row = [name, _adjusted(result)]
        row += [terminal.number_text(value) for value in (result.median, result.p99, result.maximum)]
        row += [f"{result.top_share:.0%}", terminal.error_text(result.loss, result.loss_error)]
        for rival in rivals.values():
            difference = measured.difference(name, rival)
            row.append("" if name == rival else terminal.error_text(difference.mean, difference.standard_error))
        rows.append([*row, *([printed[name]] if paper else [])])
    title = f"Measured on {report.sequences:,} fresh sequences, {report.task.setting}, seed {report.seed}"
    terminal.print_table(title, [*_HEADS, *rivals, *paper], rows)
    summaries = {entry.label: entry.summary for entry in BASELINES.values()}
    for label, baseline in report.baselines.items():
        terminal.say(f"  {_description(label, baseline)}: {summaries[label]}")
    if not report.task.standard:
        terminal.say(reference_note(report.task))
    for name, result in measured.evaluations.items():
        if result.tail_dominated:
            share = f"the worst 1 % of the sequences make up {result.top_share:.0%} of the adjusted loss"
            why = f"{share}, so its mean and error bar say little"
            if result.diverged:
                why = f"{result.diverged:,} sequences gave no finite loss, so it has no mean"
            terminal.say(f"†  {name}: {why}; the median is {terminal.number_text(result.median)}.")


def _print_rows(title: str, first: str, places: Sequence[str], columns: Mapping[str, Sequence[Evaluation]]) -> None:
    """A column for each predictor, a row for each noise level or layer; a shallower model has no deeper layers."""
    rows = [
        [place, *(_adjusted(results[number]) if number < len(results) else "" for results in columns.values())]
        for number, place in enumerate(places)
    ]
    terminal.print_table(title, [first, *columns], rows, words=())
    if any(result.tail_dominated for results in columns.values() for result in results):
        terminal.say("†  The worst 1 % of the sequences make up more than half of this mean, so it says little.")


def _print_shifts(shifts: ShiftTable) -> None:
    results = shifts.results
    count = next(iter(next(iter(results.values())).values())).sequences
    rows = [["reference", *(terminal.number_text(shifts.references[spec]) for spec in results)]]
    cells = {name: [results[spec][name] for spec in results] for name in next(iter(results.values()))}
    for name, row in cells.items():
        ratios = [f" ({terminal.number_text(cell.ratio, 3)}×)" if math.isfinite(cell.ratio) else "" for cell in row]
        numbers = [terminal.number_text(cell.loss) + ratio for cell, ratio in zip(row, ratios, strict=True)]
        rows.append([name, *(text + " ✗" * (not cell.survives) for text, cell in zip(numbers, row, strict=True))])
    title = f"Loss under shift, and its ratio to the reference, which is told σ; {count:,} sequences each"
    terminal.print_table(title, ["predictor", *("unshifted" if s == UNSHIFTED else s for s in results)], rows)
    if not all(cell.survives for row in cells.values() for cell in row):
        terminal.say(
            "✗  Does not survive the shift: the loss is not finite, or the worst 1 % of the sequences make up more "
            f"than half of it, or it is more than {SURVIVAL_FACTOR:g} times that of {YARDSTICK}.",
        )


def _printed(report: EvaluationReport, name: str) -> str:
    """The paper's number for a model or baseline like this, or nothing."""
    model = report.models.get(name)
    method = model.kind if model else next(entry.name for entry in BASELINES.values() if entry.label == name)
    layers, heads, registers = (model.layers, model.heads, model.registers) if model else (None, 1, 0)
    value = paper_loss(method, layers, heads, registers, report.task)
    return "" if value is None else f"{value:g}"


def paper_loss(method: str, layers: int | None, heads: int, registers: int, task: Task) -> float | None:
    """The paper's number for such a model or baseline on this task; None if the paper has none."""
    its_size = (task.dim, task.examples, heads, registers) == (10, 20, 1, 0)
    its_task = its_size and task.standard and is_builtin(task.prior)
    return printed_loss(method, layers, task.prior.spec) if its_task else None


def _adjusted(result: Evaluation) -> str:
    return terminal.error_text(result.adjusted_loss, result.standard_error) + (" †" if result.tail_dominated else "")
