"""Deep models and baselines off the training distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

from ridgeformer.core.validation import whole_number
from ridgeformer.evaluation import ShiftResult, ShiftTable, default_scenarios, shift_table
from ridgeformer.evaluation.comparison import AnyPredictor
from ridgeformer.reproduction.cells import LAYERS, SEEDED_PRIOR, Cell
from ridgeformer.reproduction.records.fields import Fields, plain
from ridgeformer.reproduction.records.parallel import OnPart, in_parallel, no_news
from ridgeformer.reproduction.records.profiles import baselines
from ridgeformer.reproduction.table1_text import row_name
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task

DEPTH = LAYERS[-1]
_READERS: dict[str, Callable[[Fields, str], float]] = {
    "sequences": Fields.whole,
    "diverged": Fields.whole,
    "survives": Fields.truth,
    "excess": Fields.signed,
}
"""Fields of a result that are not numbers of at least 0."""


@dataclass(frozen=True)
class ShiftScenario:
    """All predictors under one shift."""

    spec: str
    reference: float
    """Loss of the reference: ridge regression that is told the scenario."""
    results: Mapping[str, ShiftResult]


@dataclass(frozen=True)
class ShiftRecord:
    """Predictors of one prior under several shifts."""

    noise: str
    sequences: int
    predictors: tuple[str, ...]
    """Such as "FULL 7" and "AdaRR"."""
    scenarios: tuple[ShiftScenario, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"record": "shift", **plain(asdict(self))}

    @classmethod
    def from_json(cls, values: Any) -> ShiftRecord:
        """The reverse of `as_json`."""
        record = Fields(values, "shift")
        predictors = record.texts("predictors")
        scenarios = tuple(_read_scenario(scenario, predictors) for scenario in record.objects("scenarios"))
        return cls(record.noise(), record.whole("sequences", 1), predictors, scenarios)


def _read_scenario(scenario: Fields, predictors: tuple[str, ...]) -> ShiftScenario:
    results = scenario.child("results")
    found = {name: _read_result(results.child(name)) for name in predictors}
    return ShiftScenario(scenario.text("spec"), scenario.number("reference"), found)


def _read_result(result: Fields) -> ShiftResult:
    values: dict[str, Any] = {}
    for field in fields(ShiftResult):
        values[field.name] = _READERS.get(field.name, Fields.number)(result, field.name)
    return ShiftResult(**values)


def measure_shift(
    models: Mapping[Cell, LinearTransformer], sequences: int = 10_000, seed: int = 1, on_part: OnPart = no_news
) -> ShiftRecord:
    """The models of seven layers for `SEEDED_PRIOR` and all baselines under the default shifts."""
    sequences = whole_number("sequences", sequences, 2)
    task = Task(noise=SEEDED_PRIOR)
    first_seed = min((cell.seed for cell in models), default=0)
    predictors: dict[str, AnyPredictor] = {
        row_name(cell.model, cell.layers): model
        for cell, model in models.items()
        if (cell.noise, cell.layers, cell.heads, cell.seed) == (SEEDED_PRIOR, DEPTH, 1, first_seed)
    }
    predictors |= {row_name(*method): baseline for method, baseline in baselines(task).items()}
    specs = default_scenarios(task)
    jobs: list[Callable[[], ShiftTable]] = [
        partial(shift_table, predictors, task, (spec,), sequences, seed) for spec in specs
    ]
    found = [
        ShiftScenario(spec, table.references[spec], dict(table.results[spec]))
        for spec, table in zip(specs, in_parallel(jobs, on_part), strict=True)
    ]
    return ShiftRecord(SEEDED_PRIOR, sequences, tuple(predictors), tuple(found))
