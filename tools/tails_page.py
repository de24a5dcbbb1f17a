"""The parts of `docs/reproduction.md` about runs of the paper's protocol and about rare large losses."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from measure_tails import SEED, ModelTail, Tail, TailsRecord, measure_tail
from ridgeformer.cli.terminal import Progress
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import load_model, weights_digest
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import trained_on
from ridgeformer.reproduction.cells import zoo_name
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import Count, KindName, Layers, Number, Record, Sequences, Text
from ridgeformer.reproduction.results import read_record
from ridgeformer.reproduction.table1 import Table1, TextTable, header, number, row_name
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.zoo import load, zoo_names

_WORST = 15  # models in the list of the worst ones
_SHALLOW = 2  # layers of models that have fat tails at their optimum
_SMALL = 500  # numbers that a model has at most to be called small
_REGISTERS = "-registers-"  # in the names of models that have some


# --- the paper's protocol ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProtocolRun:
    """One finished run of ``--recipe paper``."""

    kind: KindName
    layers: Layers
    noise: Text
    seed: Count
    steps: Count
    rewinds: Count
    """How often it went back to safe weights."""
    loss: Number
    error: Number
    sequences: Sequences
    """That ``loss``, and its standard error, were measured on at the end of the run."""
    digest: Text
    """Of the weights."""
    tail: Tail


@dataclass(frozen=True)
class ProtocolRecord(Record):
    """All runs."""

    record = "protocol"
    tail_sequences: Sequences
    runs: tuple[ProtocolRun, ...]
    diverged: tuple[Text, ...] = ()
    """Names of runs that exploded however small their steps were."""


def measure_protocol(folder: Path, tail_sequences: int, out: Path) -> ProtocolRecord:
    """The finished runs in a folder. Tails that ``out`` has are not measured again; it is written after each run."""
    directories = [RunDirectory(file.parent) for file in sorted(folder.glob("*/config.json"))]
    directories = [one for one in directories if one.config().recipe == "paper"]
    found = [run for run in map(_finished, directories) if run is not None]
    if not found:
        raise InputError(f"There are no finished runs in {folder}.")
    old = read_protocol(out).runs if out.exists() and read_protocol(out).tail_sequences == tail_sequences else ()
    known = {run.digest: run.tail for run in old}
    found.sort(key=lambda pair: pair[0].digest not in known)  # what is known is in the record from the start
    diverged = tuple(one.path.name for one in directories if one.finished_result() is None and one.result.exists())
    runs: list[ProtocolRun] = []
    new = [run.digest for run, _ in found if run.digest not in known]
    with Progress(max(1, len(new)) * tail_sequences) as progress:
        for run, model in found:
            if run.digest not in known:
                show = progress.stage(f"{row_name(run.kind, run.layers)} on {header(run.noise)}", tail_sequences)
                known[run.digest] = measure_tail(model, trained_on(model), tail_sequences, SEED, show)[1]
            runs.append(replace(run, tail=known[run.digest]))
            record = ProtocolRecord(tail_sequences, tuple(sorted(runs, key=_order)), diverged)
            write_whole(out, (json.dumps(record.as_json(), indent=1, allow_nan=False) + "\n").encode())
    return record


def read_protocol(path: Path) -> ProtocolRecord:
    """What `measure_protocol` wrote."""
    return read_record(ProtocolRecord, path, "python tools/write_docs.py protocol FOLDER")


def _finished(directory: RunDirectory) -> tuple[ProtocolRun, LinearTransformer] | None:
    """A run without its tail, and its model; None if it is not finished."""
    result = directory.finished_result()
    if result is None:
        return None
    config, model = directory.config(), load_model(directory.model)
    measured = result["evaluation"]
    loss, error = (_finite(measured[key]) for key in ("adjusted_loss", "standard_error"))
    counts = config.seed, result["steps"], result["rewinds"], loss, error, measured["sequences"]
    nothing = Tail(0.0, 0.0, 0.0, 0, 0)
    return ProtocolRun(config.kind, config.layers, config.noise, *counts, weights_digest(model)[:16], nothing), model


def _order(run: ProtocolRun) -> tuple[str, int, int, int]:
    return run.noise, run.layers, list(KINDS).index(run.kind), run.seed


def protocol_text(record: ProtocolRecord) -> str:
    """The table, with the paper's numbers and those of our models in the zoo."""
    head = ("model", "σ", "steps", "loss", "printed", "ours, fast recipe", "largest loss", "above 10", "above 100")
    rows = []
    for run in record.runs:
        printed, name = printed_loss(run.kind, run.layers, run.noise), zoo_name(run.kind, run.layers, run.noise)
        rows.append(
            (
                row_name(run.kind, run.layers) + (f", seed {run.seed}" if run.seed else ""),
                header(run.noise),
                f"{run.steps:,}",
                f"{number(run.loss)} ± {run.error:.1g}",
                "" if printed is None else f"{printed:g}",
                number(_finite(load(name).info["evaluation"]["adjusted_loss"])) if name in zoo_names() else "",
                *_tail_cells(run.tail),
                str(run.rewinds),
            )
        )
    counts = ", ".join(f"{count:,}" for count in sorted({run.sequences for run in record.runs}))
    about = (
        f"Losses on {counts} sequences, with standard errors; the largest loss, and how many losses are above 10 and "
    )
    about += f"above 100, on {record.tail_sequences:,} others. The last column says how often the step size was halved."
    if record.diverged:
        about += f" Runs that exploded however small their steps were: {', '.join(record.diverged)}."
    return f"{about}\n\n{TextTable('', (*head, 'halved'), rows).markdown()}"


# --- tails of the zoo -------------------------------------------------------------------------------------------------


def tails_text(record: TailsRecord, table: Table1 | None = None) -> str:
    """What was measured of the paper's models and of those with registers, and which are closest to the Bayes limit."""
    paper = [model for model in record.models if _REGISTERS not in model.name]
    wider = [model for model in record.models if _REGISTERS in model.name]
    shallow = [model for model in paper if model.layers <= _SHALLOW]
    fat = (
        "Models of one and two layers have fat tails at their very optimum: a change that makes rare losses smaller "
        "makes the mean larger. So they are listed apart:\n\n"
    )
    fat += "\n".join(_shallow_line(kind, shallow) for kind in KINDS if any(model.kind == kind for model in shallow))
    parts = [
        f"{len(record.models)} models, each on {record.sequences:,} fresh sequences of its own training task.",
        *_group("The paper's grid", paper, record.level_sequences),
        fat if shallow else "",
        *_group("Models with registers", wider, record.level_sequences),
        "" if table is None else _closest(record, table),
    ]
    return "\n\n".join(part for part in parts if part)


def _group(what: str, models: Sequence[ModelTail], level_sequences: int) -> list[str]:
    """Counts by depth, the worst ones, and those that are worse than GD++ beyond the noise of their training."""
    if not models:
        return []
    deep = [model for model in models if model.layers > _SHALLOW]
    head = f"**{what}.** How many of {len(models)} models have a largest loss in which range:"
    return [head, _depths(models), _worst(deep), _worse(deep, level_sequences)]


def _closest(record: TailsRecord, table: Table1) -> str:
    """For each prior with noise, the small model with the lowest loss, and its tail."""
    tails, rows = {model.name: model.tail for model in record.models}, []
    for noise in table.columns:
        sizes = {}
        for entry in table.entries:
            if entry.noise == noise != "uniform:0" and entry.layers is not None:
                name = zoo_name(entry.method, entry.layers, noise, heads=entry.heads, registers=entry.registers)
                if name in tails and (size := load(name).size) <= _SMALL:
                    sizes[name] = entry, size
        if sizes:
            name = min(sizes, key=lambda name: sizes[name][0].adjusted_loss)
            best, size = sizes[name]
            ratio = "" if best.bayes_ratio is None else f"{best.bayes_ratio:.4f}×"
            rows.append((header(noise), f"`{name}`", str(size), ratio, *_tail_cells(tails[name])))
    head = ("σ", "model", "numbers", "loss ÷ Bayes limit", "largest loss", "above 10", "above 100")
    about = (
        f"Of the models with at most {_SMALL} numbers, those with the lowest loss (on {table.sequences:,} sequences "
    )
    about += f"of Table 1), and their rare losses on {record.sequences:,}:"
    return f"{about}\n\n{TextTable('', head, rows).markdown()}" if rows else ""


def _depths(models: Sequence[ModelTail]) -> str:
    rows = []
    for layers in sorted({model.layers for model in models}):
        largest = [model.tail.largest for model in models if model.layers == layers]
        low, middle = sum(loss <= 10 for loss in largest), sum(10 < loss <= 100 for loss in largest)
        rows.append([str(count) for count in (layers, len(largest), low, middle, len(largest) - low - middle)])
    return TextTable("", ("layers", "models", "up to 10", "10 to 100", "above 100"), rows).markdown()


def _worst(deep: Sequence[ModelTail]) -> str:
    above = sorted((model for model in deep if model.tail.largest > 10), key=lambda model: -model.tail.largest)
    if not above:
        return f"None of the {len(deep)} models with three layers or more has a loss above 10."
    rows = [(f"`{model.name}`", _short(model.tail.mean), *_tail_cells(model.tail)) for model in above[:_WORST]]
    table = TextTable("", ("model", "mean loss", "largest loss", "above 10", "above 100"), rows).markdown()
    few = "These are" if len(above) <= _WORST else f"The {_WORST} worst are"
    return f"{len(above)} of {len(deep)} models with three layers or more have a loss above 10. {few}:\n\n{table}"


def _shallow_line(kind: str, shallow: Sequence[ModelTail]) -> str:
    texts = []
    for layers, name in ((1, "one layer"), (2, "two layers")):
        tails = [model.tail for model in shallow if (model.kind, model.layers) == (kind, layers)]
        if tails:
            low, high = (_short(choose(tail.largest for tail in tails)) for choose in (min, max))
            counts = max(tail.above_10 for tail in tails), max(tail.above_100 for tail in tails)
            text = f"{name}: {len(tails)} models, largest losses from {low} to {high}, "
            texts.append(text + f"at most {counts[0]:,} above 10 and {counts[1]:,} above 100")
    return f"* {KINDS[kind].label}, " + "; ".join(texts) + "."


def _worse(deep: Sequence[ModelTail], sequences: int) -> str:
    compared = [(model.name, beyond.worse_from) for model in deep for beyond in model.beyond]
    rows = [(f"`{name}`", f"{at[0]:g}", _short(at[1]), _short(at[2])) for name, at in compared if at is not None]
    about = f"{len(compared)} models with three layers or more were also measured beyond the noise of their training, "
    about += f"as far as the figures go, on {sequences:,} sequences at each level. "
    if not rows:
        return f"{about}None of them is worse there than the GD++ model of the same depth and prior."
    table = TextTable("", ("model", "from σ", "loss there", "GD++"), rows).markdown()
    count = f"{len(rows)} of them {'is' if len(rows) == 1 else 'are'}"
    return f"{about}{count} worse than the GD++ model of the same depth and prior, first at:\n\n{table}"


def _finite(loss: float | None) -> float:
    """A loss as files of runs and models have it: null is infinity."""
    return math.inf if loss is None else loss


def _tail_cells(tail: Tail) -> tuple[str, str, str]:
    return _short(tail.largest), f"{tail.above_10:,}", f"{tail.above_100:,}"


def _short(loss: float) -> str:
    return f"{loss:.3g}" if math.isfinite(loss) else "∞"
