"""What tables, figures and page are drawn from: a record for each kind of measurement, one JSON file each.

Losses are means of half the squared error. On disk numbers have six digits, and one that is not finite is null; here it
is infinite. Records may come from anywhere, so everything in them is checked: msgspec compares every value with the
annotations below, and ``__post_init__`` checks what annotations cannot say. Unknown names are ignored, so that a later
version may add some.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Self

import msgspec
import numpy as np
from msgspec import Meta

from ridgeformer.baselines import BASELINES, Baseline
from ridgeformer.core.distributions import parse_noise
from ridgeformer.core.kinds import KINDS, Kind
from ridgeformer.core.model import MAX_HEADS, MAX_LAYERS, MAX_REGISTERS
from ridgeformer.core.notation import Array
from ridgeformer.core.storage import plain
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import ShiftResult

METHODS: Mapping[str, Kind | Baseline] = ChainMap(BASELINES, KINDS)  # type: ignore[arg-type]  # only read
"""What is compared: kinds of model, and after them baselines."""

DIGITS = 6  # of numbers on disk: standard errors are in the third, and the files are half as long
_LARGEST_WEIGHT = 1e30  # no axis could hold more
_MOST_WEIGHTS = 1_000_000  # of one model in a record: ours have about a thousand
_MAY_BE_NULL = {"layers", "printed", "printed_error", "linear_bound", "bayes_ratio", "start", "target", "allowed"}
_MAY_BE_NULL |= {"iterations", "others"}
"""Where null means that there is none; in every other place it is infinity."""
_FORMER = {"legs": "stages"}
"""What names were in files of earlier versions."""

_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z"  # no character that would break a line
Text = Annotated[str, Meta(max_length=200, pattern=_LINE)]  # the longest name of ours has 30 characters
Prose = Annotated[str, Meta(max_length=10_000, pattern=_LINE)]  # a claim that fails in every cell has 2,000
Method = Annotated[str, Meta(pattern=rf"^({'|'.join(METHODS)})\Z")]
KindName = Annotated[str, Meta(pattern=rf"^({'|'.join(KINDS)})\Z")]
Count = Annotated[int, Meta(ge=0, le=10**15)]  # exact in every reader of JSON
Sequences = Annotated[int, Meta(ge=1, le=10**15)]
Layers = Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
Heads = Annotated[int, Meta(ge=1, le=MAX_HEADS)]
Registers = Annotated[int, Meta(ge=0, le=MAX_REGISTERS)]
Number = Annotated[float, Meta(ge=0)]  # as losses, errors and times are
Numbers = tuple[Number, ...]
_Weight = Annotated[float, Meta(gt=-_LARGEST_WEIGHT, lt=_LARGEST_WEIGHT)]
Level = Annotated[float, Meta(ge=0, le=1000)]  # σ; ours end at 10, and figures have a tick at every other one
Levels = Annotated[tuple[Level, ...], Meta(min_length=1)]


class RecordError(InputError, ValueError):
    """A value that a record cannot hold; a ValueError as well, to which msgspec adds the place."""


class Record:
    """Base of all records, which are frozen dataclasses."""

    record: ClassVar[str]
    """The name: that of the file without its ending."""
    digits: ClassVar[int | None] = DIGITS

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"record": self.record, **plain(self, self.digits)}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The reverse of `as_json`; an `InputError` says what is wrong where."""
        try:
            return msgspec.convert(_from_disk(values), cls, dec_hook=_read_array)
        except msgspec.ValidationError as wrong:
            raise InputError(f"{wrong}.") from wrong


def _from_disk(value: Any, name: str = "", place: str = "$") -> Any:
    """Values as the annotations have them, with their present names, infinities in place, and noise priors checked."""
    if isinstance(value, dict):
        return {_FORMER.get(key, key): _from_disk(item, key, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_from_disk(item, "", f"{place}[{number}]") for number, item in enumerate(value)]
    if name == "noise" and isinstance(value, str):
        try:
            parse_noise(value)
        except InputError as wrong:
            raise InputError(f"{str(wrong).rstrip('.?')} - at `{place[:200]}`.") from wrong
    return math.inf if value is None and name not in _MAY_BE_NULL else value


def _read_array(kind: Any, value: Any) -> Array:
    """P or Q of a model: the only arrays in records."""
    try:
        array = np.array(msgspec.convert(value, list[list[list[list[_Weight]]]]), np.float64)
    except (msgspec.ValidationError, ValueError):  # the second if it is ragged
        array = np.empty(0)
    if not 0 < array.size <= _MOST_WEIGHTS or array.ndim != 4 or array.shape[2] != array.shape[3]:
        raise RecordError(f"Expected numbers of shape (layers, heads, p, p), none beyond {_LARGEST_WEIGHT:g}")
    return array


def _check_lengths(wanted: int, **lists: Sequence[Any]) -> None:
    for name, items in lists.items():
        if len(items) != wanted:
            raise RecordError(f"Expected {wanted} items of {name}, got {len(items)}")


@dataclass(frozen=True)
class ProfileSeries:
    """One predictor at every level."""

    method: Method
    layers: Layers | None
    adjusted: Numbers
    standard_error: Numbers
    """Of ``adjusted``."""
    unadjusted: Numbers


@dataclass(frozen=True)
class ProfilePanel:
    """Predictors that were trained for, or tuned to, one prior."""

    noise: Text
    levels: Levels
    series: tuple[ProfileSeries, ...]

    def __post_init__(self) -> None:
        for one in self.series:
            _check_lengths(len(self.levels), adjusted=one.adjusted, standard_error=one.standard_error)
            _check_lengths(len(self.levels), unadjusted=one.unadjusted)

    def find(self, method: str, layers: int | None = None) -> ProfileSeries | None:
        """One predictor, if it was measured."""
        return next((s for s in self.series if (s.method, s.layers) == (method, layers)), None)


@dataclass(frozen=True)
class ProfilesRecord(Record):
    """Losses as a function of the noise level: figures 2, 3 and 6."""

    record = "profiles"
    sequences: Sequences
    """At every level; the same ones except for σ."""
    seed: Count
    panels: tuple[ProfilePanel, ...]

    def panel(self, noise: str) -> ProfilePanel | None:
        """The panel of a prior, if there is one."""
        return next((panel for panel in self.panels if panel.noise == noise), None)


@dataclass(frozen=True)
class ModelReadout:
    """One model, read out after K = 1 … L layers."""

    method: KindName
    layers: Layers
    seed: Count
    adjusted: Numbers
    """After each layer, on the prior."""
    standard_error: Numbers
    profile: tuple[Numbers, ...]
    """Adjusted losses after each layer, at each level."""

    def __post_init__(self) -> None:
        _check_lengths(self.layers, adjusted=self.adjusted, standard_error=self.standard_error, profile=self.profile)


@dataclass(frozen=True)
class ReadoutsRecord(Record):
    """What models for one prior, of all seeds, would answer after each of their layers: figures 5 and 7."""

    record = "readouts"
    noise: Text
    sequences: Sequences
    levels: Levels
    level_sequences: Sequences
    """At every level; the same ones except for σ."""
    models: tuple[ModelReadout, ...]

    def __post_init__(self) -> None:
        for model in self.models:
            for row in model.profile:
                _check_lengths(len(self.levels), profile=row)

    def of(self, method: str, layers: int) -> tuple[ModelReadout, ...]:
        """All seeds of one model."""
        return tuple(model for model in self.models if (model.method, model.layers) == (method, layers))


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """One model in the form of `ridgeformer.analysis.diagonal`, which does not depend on how it is written down."""

    name: Text
    P: Array
    Q: Array
    """Both (layers, heads, p, p)."""

    def __post_init__(self) -> None:
        if self.P.shape != self.Q.shape:
            raise RecordError(f"Expected P and Q of one shape, got {self.P.shape} and {self.Q.shape}")


@dataclass(frozen=True)
class WeightsRecord(Record):
    """Weights of FULL models as heat maps show them: figure 4."""

    record = "weights"
    models: tuple[ModelWeights, ...]

    def find(self, name: str) -> ModelWeights | None:
        """A model by its name in the zoo, if it is there."""
        return next((model for model in self.models if model.name == name), None)


@dataclass(frozen=True)
class TrainingStage:
    """One method with its schedule: Adam from one start, or L-BFGS on a pool of contexts."""

    name: Text
    seconds: Numbers
    """Of training since the run began."""
    loss: Numbers
    """Smoothed adjusted loss on the contexts that the stage trains on."""

    def __post_init__(self) -> None:
        _check_lengths(len(self.seconds), loss=self.loss)


@dataclass(frozen=True)
class TrainingCurve:
    """One run."""

    name: Text
    method: KindName
    layers: Layers
    noise: Text
    start: Text | None
    """The model that the run starts from, whose own training time is not counted here."""
    stages: tuple[TrainingStage, ...]
    final: Number
    """Adjusted loss on fresh sequences."""
    final_seconds: Number


@dataclass(frozen=True)
class TrainingRecord(Record):
    """Loss against training time."""

    record = "training"
    curves: tuple[TrainingCurve, ...]

    def find(self, method: str, layers: int, noise: str) -> TrainingCurve | None:
        """The run of one model, if it is there."""
        wanted = (method, layers, noise)
        return next((curve for curve in self.curves if (curve.method, curve.layers, curve.noise) == wanted), None)


@dataclass(frozen=True)
class ShiftScenario:
    """All predictors under one shift."""

    spec: Text
    reference: Number
    """Loss of the reference: ridge regression that is told the scenario."""
    results: Mapping[Text, ShiftResult]

    def __post_init__(self) -> None:
        for name, result in self.results.items():
            for field, value in asdict(result).items():
                if field != "excess" and value < 0:  # only a difference of losses may be negative
                    raise RecordError(f"Expected {field} of {name} >= 0, got {value:g}")


@dataclass(frozen=True)
class ShiftRecord(Record):
    """Deep models and baselines of one prior under several shifts."""

    record = "shift"
    noise: Text
    sequences: Sequences
    predictors: tuple[Text, ...]
    """Such as "FULL 7" and "AdaRR"."""
    scenarios: tuple[ShiftScenario, ...]

    def __post_init__(self) -> None:
        for scenario in self.scenarios:
            missing = [name for name in self.predictors if name not in scenario.results]
            if missing:
                raise RecordError(f"Expected a result of {missing[0]} under {scenario.spec}, got none")
