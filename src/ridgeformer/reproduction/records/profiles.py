"""Losses as a function of the noise level: figures 2, 3 and 6."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ridgeformer.core.validation import whole_number
from ridgeformer.evaluation import Evaluation, default_levels, profile
from ridgeformer.evaluation.comparison import AnyPredictor
from ridgeformer.reproduction.cells import LAYERS, PRIORS, SEEDED_PRIOR, Cell
from ridgeformer.reproduction.records.fields import Fields, plain
from ridgeformer.reproduction.records.parallel import OnPart, in_parallel, no_news
from ridgeformer.reproduction.table1 import BASELINES, METHOD_NAMES
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.distributions import Categorical
from ridgeformer.core.task import Task

LEVEL_STEP = 0.25
CATEGORICAL_MARGIN = 3
"""How far beyond its largest level a categorical prior is looked at; one for uniform ones, as in the paper."""
DEPTH = LAYERS[-1]
"""Layers of the models whose profiles are drawn for every prior."""
EVERY_DEPTH = tuple(range(2, DEPTH))
EVERY_DEPTH_PRIORS = (SEEDED_PRIOR, "categorical:1+3", "categorical:1+3+5")
"""Priors for which the paper draws models of 2 to 7 layers."""

Method = tuple[str, int | None]


@dataclass(frozen=True)
class ProfileSeries:
    """One predictor at every level."""

    method: str
    layers: int | None
    adjusted: tuple[float, ...]
    standard_error: tuple[float, ...]
    """Of ``adjusted``."""
    unadjusted: tuple[float, ...]


@dataclass(frozen=True)
class ProfilePanel:
    """Predictors that were trained for, or tuned to, one prior."""

    noise: str
    levels: tuple[float, ...]
    series: tuple[ProfileSeries, ...]

    def find(self, method: str, layers: int | None = None) -> ProfileSeries | None:
        """One predictor, if it was measured."""
        return next((s for s in self.series if (s.method, s.layers) == (method, layers)), None)


@dataclass(frozen=True)
class ProfilesRecord:
    """All panels."""

    sequences: int
    """At every level; the same ones but for σ."""
    seed: int
    panels: tuple[ProfilePanel, ...]

    def panel(self, noise: str) -> ProfilePanel | None:
        """The panel of a prior, if there is one."""
        return next((panel for panel in self.panels if panel.noise == noise), None)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"record": "profiles", **plain(asdict(self))}

    @classmethod
    def from_json(cls, values: Any) -> ProfilesRecord:
        """The reverse of `as_json`."""
        fields = Fields(values, "profiles")
        panels = tuple(_read_panel(panel) for panel in fields.objects("panels"))
        return cls(fields.whole("sequences", 1), fields.whole("seed"), panels)


def _read_panel(fields: Fields) -> ProfilePanel:
    levels = fields.levels()
    return ProfilePanel(
        fields.noise(), levels, tuple(_read_series(series, len(levels)) for series in fields.objects("series"))
    )


def _read_series(fields: Fields, count: int) -> ProfileSeries:
    lists = (fields.numbers(name, count) for name in ("adjusted", "standard_error", "unadjusted"))
    return ProfileSeries(fields.choice("method", METHOD_NAMES), fields.layers_or_none(), *lists)


def profile_levels(noise: str) -> tuple[float, ...]:
    """The levels of a panel: from 0 to beyond the prior, where models extrapolate."""
    prior = Task(noise=noise).prior
    levels = default_levels(prior, LEVEL_STEP)
    if isinstance(prior, Categorical):
        more = round((CATEGORICAL_MARGIN - 1) / LEVEL_STEP)
        levels += tuple(levels[-1] + LEVEL_STEP * k for k in range(1, more + 1))
    return levels


def measure_profiles(
    models: Mapping[Cell, LinearTransformer], sequences: int = 5_000, seed: int = 1, on_part: OnPart = no_news
) -> ProfilesRecord:
    """Models of seven layers and all baselines at every level, and of 2 to 6 layers for some priors.

    Priors for which none of these models is there are left out.
    """
    sequences = whole_number("sequences", sequences, 2)
    first_seed = min((cell.seed for cell in models), default=0)
    chosen: dict[str, dict[Method, AnyPredictor]] = {}
    for noise in PRIORS:
        depths = (*EVERY_DEPTH, DEPTH) if noise in EVERY_DEPTH_PRIORS else (DEPTH,)
        found: dict[Method, AnyPredictor] = {
            (cell.model, cell.layers): model
            for cell, model in sorted(models.items(), key=lambda item: item[0].layers)
            if (cell.noise, cell.seed) == (noise, first_seed) and cell.layers in depths and not cell.beyond
        }
        if found:
            chosen[noise] = found | baselines(Task(noise=noise))
    places = [(noise, level) for noise in chosen for level in profile_levels(noise)]
    jobs: list[Callable[[], list[Evaluation]]] = [
        partial(_at_level, chosen[noise], noise, level, sequences, seed) for noise, level in places
    ]
    rows: dict[str, list[list[Evaluation]]] = {noise: [] for noise in chosen}
    for (noise, _), row in zip(places, in_parallel(jobs, on_part), strict=True):
        rows[noise].append(row)
    panels = [ProfilePanel(noise, profile_levels(noise), _series(list(chosen[noise]), rows[noise])) for noise in chosen]
    return ProfilesRecord(sequences, seed, tuple(panels))


def baselines(task: Task) -> dict[Method, AnyPredictor]:
    """All baselines of Table 1, tuned to a task."""
    from ridgeformer.baselines import AdaRR, Bayes, ConstRR, TunedRR

    tuned: tuple[AnyPredictor, ...] = (ConstRR.tuned(task), AdaRR(), TunedRR.tuned(task), Bayes(task.prior))
    return {(name, None): baseline for name, baseline in zip(BASELINES, tuned, strict=True)}


def _at_level(
    predictors: Mapping[Method, AnyPredictor], noise: str, level: float, sequences: int, seed: int
) -> list[Evaluation]:
    named = {f"{method} {layers}": predictor for (method, layers), predictor in predictors.items()}
    found = profile(named, Task(noise=noise), (level,), sequences, seed)
    return [evaluations[0] for evaluations in found.evaluations.values()]


def _series(methods: Sequence[Method], rows: Sequence[Sequence[Evaluation]]) -> tuple[ProfileSeries, ...]:
    """``rows`` has the evaluations of all methods, level by level."""
    return tuple(
        ProfileSeries(
            method,
            layers,
            tuple(evaluation.adjusted_loss for evaluation in column),
            tuple(evaluation.standard_error for evaluation in column),
            tuple(evaluation.loss for evaluation in column),
        )
        for (method, layers), column in zip(methods, zip(*rows, strict=True), strict=True)
    )
