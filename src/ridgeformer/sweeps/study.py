"""A study: many cells, each of which is one training; a cell may start from the finished model of another.

A study is written as TOML, JSON or a Python dict of the same form. ``grid`` holds fields of `TrainConfig`, each with
one value or a list of values, and stands for all combinations; several grids are a list of them.

    [[grid]]
    kind = ["diag", "full"]
    layers = [1, 2, 3, 4]
    seed = [0, 1, 2]
    start = "previous layer"    # from the cell with one layer less in the list, all else equal
    # or start = {kind = "diag"}: from the cell of the study that differs only in this
    # or start = "full-7-uniform-5": from a model file, or a model of the zoo

    [measure]                   # of every finished model, besides the loss on what it was trained on
    noise = ["fixed:1", "fixed:3"]
    examples = [10, 40]
    shifts = ["scale:2"]
    sequences = 100_000

The name of a cell says what it trains. It ends in a digest of all its settings, including those of the cells that it
starts from. So a changed study keeps the cells that are the same, and never confuses two cells.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ridgeformer.core.distributions import parse_noise
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.storage import read_whole, strict_json
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, one_of, shortened, whole_number
from ridgeformer.evaluation import parse_shift
from ridgeformer.training.config import FORMER_NAMES, TrainConfig
from ridgeformer.training.stages import Run
from ridgeformer.zoo import load

_MOST_BYTES = 16 << 20  # of a study file: a list of 100 000 cells has about ten
MOST_CELLS = 100_000
"""More than any cluster trains in a year: a larger number is a mistake."""
_FIELDS = tuple(own.name for own in fields(TrainConfig))
_HOW = ("recipe", "start", "steps", "batch", "rate", "precision", "sequences")  # a model is trained; the rest is what
_NOT_NAMED = {
    "kind",
    "layers",
    "heads",
    "noise",
    "prior",
    "seed",
    "start",
    "precision",
    "sequences",
}  # as all others are
_LONGEST_NAME = 120
_NAME = re.compile(r"[\w+-][\w.+-]{0,199}")
_PREVIOUS = "previous "


@dataclass(frozen=True)
class Measure:
    """What to measure of a finished model besides its loss on its own task; each item is measured by itself.

    >>> [label for label, task, shift in Measure(noise=["fixed:1"], examples=[40]).tasks(Task())]
    ['noise fixed:1', 'examples 40']
    """

    noise: tuple[str, ...] = ()
    """Noise priors in place of its own."""
    examples: tuple[int, ...] = ()
    """Numbers of examples in a context, in place of its own."""
    shifts: tuple[str, ...] = ()
    """Shifts, as in ``ridgeformer evaluate --shift``."""
    sequences: int = 100_000
    """Fresh sequences on which each is measured."""

    def __post_init__(self) -> None:
        for name in ("noise", "examples", "shifts"):
            items = getattr(self, name)
            object.__setattr__(self, name, tuple(items) if isinstance(items, list | tuple) else (items,))
        for spec in self.noise:
            parse_noise(spec)
        for count in self.examples:
            whole_number("examples", count, 1)
        for spec in self.shifts:
            parse_shift(spec)
        whole_number("sequences", self.sequences, 2)

    def tasks(self, task: Task) -> Iterator[tuple[str, Task, str | None]]:
        """(label, task, shift) of everything, for a model that was trained on ``task``."""
        for noise in self.noise:
            yield f"noise {noise}", replace(task, noise=noise), None
        for examples in self.examples:
            yield f"examples {examples}", replace(task, examples=examples), None
        for shift in self.shifts:
            yield f"shift {shift}", task, shift


@dataclass(frozen=True)
class Cell:
    """One training of a study.

    >>> Cell("first", TrainConfig(kind="diag", layers=2)).config.layers
    2
    """

    name: str
    """The name of its run directory."""
    config: TrainConfig
    parent: str | None = None
    """The cell from whose finished model it starts; ``config.start`` has the same name then."""
    model_file: Path | None = None
    """The file that ``config.start`` names, if it is neither a cell nor a model of the zoo."""


@dataclass(frozen=True)
class Study:
    """All cells, parents before children, and what to measure of each; `read_study` makes it.

    >>> Study((Cell("first", TrainConfig(kind="diag", layers=2)),)).measure.sequences
    100000
    """

    cells: tuple[Cell, ...]
    measure: Measure = field(default_factory=Measure)

    def __post_init__(self) -> None:
        if not self.cells:
            raise InputError("A study needs at least one cell.")
        whole_number("The number of cells of a study", len(self.cells), 1, MOST_CELLS)
        before: dict[str, TrainConfig] = {}
        for cell in self.cells:
            if not _NAME.fullmatch(cell.name):
                raise InputError(f"The name of a cell is the name of a folder, which cannot be {shortened(cell.name)}.")
            if cell.name in before:
                raise InputError(f"There are two cells with the name {cell.name}.")
            if cell.parent is not None:
                _check_start(cell.name, cell.config, before[cell.parent])
            before[cell.name] = cell.config
        for task in {cell.config.task for cell in self.cells if cell.config.own_prior is None}:
            list(self.measure.tasks(task))  # refuses what does not fit


def read_study(source: Any) -> Study:
    """Read a study and check all of it.

    Parameters
    ----------
    source: a file (TOML or JSON), a dict of the same form, a list of `TrainConfig`, or a dict from names to configs, in
        which ``start`` may be the name of another one.

    Returns a `Study`. Raises `InputError` that names the place of what is wrong.

    >>> study = read_study({"grid": {"kind": "diag", "layers": [1, 2], "start": "previous layer"}})
    >>> [(cell.config.layers, cell.parent is None) for cell in study.cells]
    [(1, True), (2, False)]
    """
    if isinstance(source, Study):
        return source
    if isinstance(source, str | Path):
        return _from_values(_read(Path(source)), str(source))
    if isinstance(source, Mapping):
        if source and all(isinstance(config, TrainConfig) for config in source.values()):
            return Study(tuple(_in_order(source)))
        return _from_values(source, "The study")
    if isinstance(source, Iterable):
        configs = list(source)
        if all(isinstance(config, TrainConfig) for config in configs):
            return Study(tuple({cell.name: cell for cell in map(_own_cell, configs)}.values()))
    raise InputError(
        "A study is a file, a dict with a grid, a list of TrainConfigs, or a dict of them by name, not "
        f"{shortened(source)}."
    )


def cell_name(config: TrainConfig, start: str = "") -> str:
    """What is trained, and a digest of all settings that are not the default; ``start`` is a digest of given weights.

    >>> cell_name(TrainConfig(kind="diag", layers=3, seed=1))
    'diag-3-uniform-5-seed-1-fb1414b67f5c'
    """
    usual, values = TrainConfig().as_json(), config.as_json()
    changed = {name: value for name, value in values.items() if name not in usual or value != usual[name]}
    digest = hashlib.sha256(json.dumps([changed, start], sort_keys=True).encode()).hexdigest()[:12]
    parts = [config.kind, str(config.layers), *(["heads", str(config.heads)] if config.heads > 1 else [])]
    parts += [config.noise_spec, *(f"{name}-{value}" for name, value in changed.items() if name not in _NOT_NAMED)]
    parts += [f"seed-{config.seed}"] * (config.seed != 0)
    readable = re.sub(r"[^\w.+-]+", "-", "-".join(parts)).strip("-.")[:_LONGEST_NAME]
    return f"{readable}-{digest}"


# --- files and dicts --------------------------------------------------------------------------------------------------


def _read(path: Path) -> Any:
    """What a study file holds: TOML by its ending, otherwise JSON."""
    data = read_whole(path, _MOST_BYTES)
    toml = path.suffix == ".toml"
    try:
        return tomllib.loads(data.decode()) if toml else strict_json(data)
    except (ValueError, RecursionError) as broken:
        raise InputError(f"{path} is not {'TOML' if toml else 'JSON'}: {broken}.") from broken


@dataclass
class _Draft:
    """A cell whose start is not yet resolved to another cell."""

    place: str  # in the study, for messages
    config: TrainConfig  # without its start, unless that is a model file
    reference: Mapping[str, Any] | None = None  # how the cell that it starts from differs
    parent: int | None = None  # the number of that cell


def _from_values(values: Any, source: str) -> Study:
    """A study from what a file or a dict holds."""
    if not isinstance(values, Mapping):
        raise InputError(f"{source} must be a table with a grid.")
    for name in values:
        one_of(f"{source}: a name", name, ("grid", "measure"))
    grids, measure = values.get("grid", ()), values.get("measure", {})
    grids = [grids] if isinstance(grids, Mapping) else grids
    if not isinstance(grids, Sequence) or isinstance(grids, str) or not grids:
        raise InputError(f"{source} must have a grid: fields of a training, each with a value or a list of values.")
    if not isinstance(measure, Mapping):
        raise InputError(f"{source}: measure must be a table.")
    for name in measure:
        one_of(f"{source}, measure: a name", name, [own.name for own in fields(Measure)])
    drafts: list[_Draft] = []
    for number, grid in enumerate(grids, 1):
        place = f"{source}, grid {number}" if len(grids) > 1 else source
        drafts += _expand(grid, place, len(drafts))
    _resolve(drafts)
    try:
        return Study(tuple(_settle(drafts)), Measure(**measure))
    except InputError as wrong:
        raise InputError(f"{source}: {wrong}") from wrong


def _expand(grid: Any, place: str, first: int) -> Iterator[_Draft]:
    """All combinations of a grid; the first of them is the study's cell of this number."""
    if not isinstance(grid, Mapping):
        raise InputError(f"{place} must be a table of fields.")
    choices: dict[str, list[Any]] = {}
    for given, value in grid.items():
        name = one_of(f"{place}: a field", FORMER_NAMES.get(given, given), _FIELDS)
        choices[name] = list(value) if isinstance(value, list | tuple) else [value]
        if not choices[name]:
            raise InputError(f"{place}: {name} has no values.")
    sizes = [len(values) for values in choices.values()]
    if prod(sizes) > MOST_CELLS:
        raise InputError(f"{place} has {prod(sizes):,} cells, more than {MOST_CELLS:,}.")
    steps = dict(zip(choices, (prod(sizes[number + 1 :]) for number in range(len(sizes))), strict=True))
    for number, places in enumerate(product(*map(range, sizes))):
        chosen = dict(zip(choices, places, strict=True))
        values = {name: choices[name][place] for name, place in chosen.items()}
        start = values.pop("start", None)
        draft = _Draft(place, TrainConfig())
        if isinstance(start, Mapping):
            for name in start:
                one_of(f"{place}, start: a field", name, [name for name in _FIELDS if name != "start"])
            draft.reference = start
        elif isinstance(start, str) and start.startswith(_PREVIOUS):
            name = _previous_field(start, choices, place)
            if chosen[name] > 0:
                draft.parent = first + number - steps[name]
        elif start is not None:
            values["start"] = start
        try:
            draft.config = TrainConfig(**values)
        except InputError as wrong:
            raise InputError(f"{place}: {wrong}") from wrong
        yield draft


def _previous_field(start: str, choices: Mapping[str, Any], place: str) -> str:
    """The field that "previous layer" is about."""
    listed = [name for name, values in choices.items() if len(values) > 1 and name != "start"]
    name = start.removeprefix(_PREVIOUS)
    plural = f"{name}s" if f"{name}s" in listed else name
    if not listed:
        raise InputError(f"{place}: {start!r} needs a field with a list of values.")
    return one_of(f"{place}: the field of {start!r}", FORMER_NAMES.get(plural, plural), listed)


def _resolve(drafts: Sequence[_Draft]) -> None:
    """Find the cells that drafts refer to by their fields."""
    by_what: dict[tuple[Any, ...], list[int]] = {}
    for number, draft in enumerate(drafts):
        by_what.setdefault(_what(draft.config), []).append(number)
    for draft in drafts:
        if draft.reference is None:
            continue
        try:
            wanted = replace(draft.config, **draft.reference)
        except InputError as wrong:
            raise InputError(f"{draft.place}, start: {wrong}") from wrong
        found = by_what.get(_what(wanted), [])
        same = [number for number in found if replace(drafts[number].config, start=None) == wanted]
        words = ", ".join(f"{name} = {value!r}" for name, value in draft.reference.items())
        if not found:
            raise InputError(
                f"{draft.place}: {cell_name(draft.config)} starts from a cell with {words}; there is none."
            )
        if len(found) > 1 and len(same) != 1:
            raise InputError(
                f"{draft.place}: {cell_name(draft.config)} starts from a cell with {words}; there are {len(found)}."
            )
        draft.parent = same[0] if len(same) == 1 else found[0]


def _what(config: TrainConfig) -> tuple[Any, ...]:
    return tuple(getattr(config, name) for name in _FIELDS if name not in _HOW)


def _settle(drafts: Sequence[_Draft]) -> Iterator[Cell]:
    """Cells with their names, each once, parents before children."""
    named: dict[int, str] = {}
    given: set[str] = set()
    for number in range(len(drafts)):
        chain = [number]
        while (parent := drafts[chain[-1]].parent) is not None and parent not in named:
            if parent in chain:
                raise InputError(f"{drafts[number].place}: some cells start from each other in a circle.")
            chain.append(parent)
        for place in reversed(chain):
            draft = drafts[place]
            if draft.parent is None:
                cell = _own_cell(draft.config)
            else:
                parent_name = named[draft.parent]
                config = replace(draft.config, start=parent_name)
                cell = Cell(cell_name(config), config, parent_name)
            named[place] = cell.name
            if cell.name not in given:
                given.add(cell.name)
                yield cell


# --- configs and starts -----------------------------------------------------------------------------------------------


def _in_order(configs: Mapping[str, TrainConfig]) -> Iterator[Cell]:
    """Cells of named configs, parents before children."""
    done: set[str] = set()
    for name in configs:
        chain = [name]
        while (parent := configs[chain[-1]].start) is not None and parent in configs and parent not in done:
            if parent in chain:
                raise InputError(f"The cells {', '.join(chain[:5])} start from each other in a circle.")
            chain.append(parent)
        for cell in reversed(chain):
            if cell not in done:
                done.add(cell)
                config = configs[cell]
                yield Cell(cell, config, config.start) if config.start in configs else _own_cell(config, cell)


def _own_cell(config: TrainConfig, name: str | None = None) -> Cell:
    """A cell that starts from no other."""
    file, digest = None, ""
    if config.start is not None:
        path = Path(config.start)
        file = path.resolve() if os.path.isfile(path) else None
        model, digest = _start_model(config.start, file and os.stat(file).st_mtime_ns)
        _check_start(name or cell_name(config), config, model)
    return Cell(cell_name(config, digest) if name is None else name, config, model_file=file)


@lru_cache(maxsize=64)
def _start_model(source: str, written: int | None) -> tuple[LinearTransformer, str]:
    """A model of a file or the zoo, and a digest of its weights; ``written`` says when the file was."""
    model = load(source)
    return model, hashlib.sha256(model.flatten().tobytes()).hexdigest()


def _check_start(name: str, config: TrainConfig, start: LinearTransformer | TrainConfig) -> None:
    """Raise an error for a start whose kind, layers, heads or features do not fit, before anything is trained."""
    try:
        if isinstance(start, TrainConfig):
            _check_shapes(replace(config, seed=0, start=None), replace(start, seed=0, start=None))
        else:
            Run(config, ()).adopt(start)
    except InputError as wrong:
        raise InputError(f"{name}: {wrong}") from wrong


@lru_cache(maxsize=4096)
def _check_shapes(config: TrainConfig, start: TrainConfig) -> None:
    Run(config, ()).adopt(Run(start, ()).template(start.kind))
