"""What figures and page are drawn from: one small record for each kind of measurement, as plain JSON on disk.

Every record is a frozen dataclass with ``as_json`` and ``from_json``, and a function that measures it. Losses are means
of half the squared error. A number that is not finite is null on disk and infinite here.
"""

from __future__ import annotations

from ridgeformer.reproduction.records.making import RECORD_PARTS, make_records
from ridgeformer.reproduction.records.profiles import ProfilePanel, ProfileSeries, ProfilesRecord, measure_profiles
from ridgeformer.reproduction.records.readouts import ModelReadout, ReadoutsRecord, measure_readouts
from ridgeformer.reproduction.records.shift import ShiftRecord, ShiftScenario, measure_shift
from ridgeformer.reproduction.records.training import TrainingCurve, TrainingLeg, TrainingRecord, measure_training
from ridgeformer.reproduction.records.weights import ModelWeights, WeightsRecord, measure_weights

__all__ = [
    "RECORD_PARTS",
    "ModelReadout",
    "ModelWeights",
    "ProfilePanel",
    "ProfileSeries",
    "ProfilesRecord",
    "ReadoutsRecord",
    "ShiftRecord",
    "ShiftScenario",
    "TrainingCurve",
    "TrainingLeg",
    "TrainingRecord",
    "WeightsRecord",
    "make_records",
    "measure_profiles",
    "measure_readouts",
    "measure_shift",
    "measure_training",
    "measure_weights",
]
