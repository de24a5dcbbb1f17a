"""What ``ridgeformer fit`` does, without the terminal: from CSV and Parquet files to predictions and a summary."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ridgeformer.core.notation import Array
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, one_of
from ridgeformer.estimators.checks import DataError, DataWarning, some
from ridgeformer.estimators.group_ridge import GroupRidge

_NORMAL_95 = 1.959964
_HELD_OUT = 5  # one row in five is held out, in groups with at least five rows
_QUANTILES = (0.1, 0.5, 0.9)
_ADDED = ("prediction", "std", "low", "high")
_DRAWN = 2000  # groups that a figure shows


@dataclass(frozen=True)
class FeatureSummary:
    """What was learned about one feature."""

    name: str
    mean: float
    """Of its weight over groups."""
    between: float
    """Standard deviation of its weight between groups."""
    error: float
    """Median over groups of the weight's standard deviation."""


@dataclass(frozen=True)
class HeldOut:
    """Mean squared errors on rows that were held out, divided by the variance of these rows' targets."""

    rows: int
    group_ridge: float
    group_means: float
    """Each group's mean, without features."""
    one_regression: float
    """One regression for all groups, with a mean for each."""


@dataclass(frozen=True)
class FitSummary:
    """What ``ridgeformer fit`` prints, draws and writes as JSON."""

    rows: int
    groups: int
    group_rows: tuple[int, int, int]
    """Fewest, median and most rows of a group."""
    features: tuple[FeatureSummary, ...]
    missing: int
    """Feature values that were missing."""
    noise: tuple[float, ...]
    """Noise levels that a tenth, half and nine tenths of the groups are below."""
    kept: tuple[float, ...]
    """The same quantiles of how much of a group's answer comes from its own rows: 0 none, 1 all."""
    held_out: HeldOut | None
    notes: tuple[str, ...]
    rounds: int
    converged: bool
    noise_levels: Array
    """The learned distribution of σ, (K,), and its weights, (K,)."""
    noise_weights: Array
    group_noise: Array
    """Noise levels of some groups, and how much of their answers comes from their own rows: what figures show."""
    group_kept: Array


def read_table(path: Path) -> pd.DataFrame:
    """A CSV, TSV or Parquet file, by its ending."""
    if not path.is_file():
        raise InputError(f"There is no file {path}." if not path.exists() else f"{path} is not a regular file.")
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",", skipinitialspace=True)
    except ImportError as missing:
        raise InputError("Parquet files need pyarrow: pip install pyarrow.") from missing
    except (ValueError, OSError, pd.errors.ParserError, RecursionError) as failed:  # pyarrow's errors are ValueErrors
        raise InputError(f"Cannot read {path} as a table: {str(failed).strip().splitlines()[0]}.") from failed


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table whole or not at all, as Parquet or CSV by its ending."""
    buffer = io.BytesIO()
    try:
        if path.suffix == ".parquet":
            frame.to_parquet(buffer, index=False)
        else:
            frame.to_csv(buffer, index=False, sep="\t" if path.suffix == ".tsv" else ",", float_format="%.10g")
    except ImportError as missing:
        raise InputError("Parquet files need pyarrow: pip install pyarrow.") from missing
    write_whole(path, buffer.getvalue())


def choose_features(frame: pd.DataFrame, target: str, group: str | None, features: Sequence[str]) -> list[str]:
    """The named columns, or all except target and group; the error for an unknown name suggests the nearest one."""
    columns = [str(name) for name in frame.columns]
    frame.columns = pd.Index(columns)
    if repeated := sorted({name for name in columns if columns.count(name) > 1}):
        raise DataError(f"The column {repeated[0]!r} appears twice.")
    for name in (target, *([group] if group is not None else []), *features):
        one_of("A column", name, columns)
    chosen = list(features) if features else [name for name in columns if name not in (target, group)]
    if not chosen:
        raise DataError("There is no feature: the table has no other columns than target and group.")
    for name in chosen:
        if name in (target, group):
            raise DataError(f"The column {name!r} is the target or the group, so it cannot be a feature.")
    return chosen


def target_values(frame: pd.DataFrame, target: str) -> Array:
    """Targets as numbers; raises `DataError` with the rows that hold text."""
    numbers = pd.to_numeric(frame[target], errors="coerce")
    if (text := (numbers.isna() & frame[target].notna()).to_numpy()).any():
        rows = np.flatnonzero(text)
        raise DataError(f"The target {target!r} holds text in row{'s' * (len(rows) > 1)} {some(rows, len(rows))}.")
    return numbers.to_numpy(np.float64, na_value=np.nan)


def fit_table(
    frame: pd.DataFrame,
    target: str,
    group: str | None,
    features: Sequence[str],
    intercept: bool | str = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[GroupRidge, FitSummary]:
    """Fit a `GroupRidge` to a table, and summarise it.

    Parameters
    ----------
    frame: rows, with names for columns.
    target, group, features: names of columns; without a group, all rows are one group.
    intercept: as ``fit_intercept`` of `GroupRidge`.
    on_progress: called with (groups done, number of groups), in two rounds: a fit with rows held out, then with all.
    """
    y = target_values(frame, target)
    X = frame[list(features)]
    groups = None if group is None else frame[group]
    model = GroupRidge(fit_intercept=intercept, on_progress=on_progress)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        model.fit(X, y, groups)
    notes = tuple(str(one.message) for one in caught if issubclass(one.category, DataWarning))
    codes = np.zeros(len(y), np.intp) if groups is None else pd.factorize(groups)[0]
    return model, _summary(model, X, y, codes, notes)


def _summary(model: GroupRidge, X: pd.DataFrame, y: Array, codes: Array, notes: tuple[str, ...]) -> FitSummary:
    prior, deviations = model.prior_, np.atleast_2d(model.coef_std_)
    noise = np.atleast_1d(model.noise_)
    share = np.where(prior.scale > 0, deviations / np.where(prior.scale > 0, prior.scale, 1.0), 1.0) ** 2
    kept = np.clip(1 - share.mean(axis=1), 0.0, 1.0)
    sizes = np.bincount(codes)
    columns = zip(map(str, X.columns), prior.mean, prior.scale, np.median(deviations, axis=0), strict=True)
    drawn = slice(None, None, max(1, len(noise) // _DRAWN))
    return FitSummary(
        rows=len(y),
        groups=len(sizes),
        group_rows=(int(sizes.min()), int(np.median(sizes)), int(sizes.max())),
        features=tuple(FeatureSummary(name, *map(float, numbers)) for name, *numbers in columns),
        missing=model.n_missing_,
        noise=tuple(float(value) for value in np.quantile(noise, _QUANTILES)),
        kept=tuple(float(value) for value in np.quantile(kept, _QUANTILES)),
        held_out=_held_out(model, X, y, codes),
        notes=notes,
        rounds=model.n_iter_,
        converged=bool(model.converged_),
        noise_levels=prior.noise.levels,
        noise_weights=prior.noise.weights,
        group_noise=noise[drawn],
        group_kept=kept[drawn],
    )


def _held_out(model: GroupRidge, X: pd.DataFrame, y: Array, codes: Array) -> HeldOut | None:
    """Fit again without one row in five, and predict those."""
    order = np.lexsort((np.random.default_rng(0).random(len(y)), codes))
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    place = np.empty(len(y), np.intp)
    place[order] = np.arange(len(y)) - starts[codes[order]]
    out = place >= np.ceil((starts[codes + 1] - starts[codes]) * (1 - 1 / _HELD_OUT))
    if out.sum() < 2 or y[out].var() == 0:
        return None
    inside = ~out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        again = GroupRidge(fit_intercept=model.fit_intercept).fit(X[inside], y[inside], codes[inside])
        predictions = again.predict(X[out], codes[out])
    counts = np.bincount(codes[inside])
    values = X.apply(pd.to_numeric).to_numpy(np.float64, na_value=np.nan)
    means = np.stack(
        [np.bincount(codes[inside], column) / counts for column in np.nan_to_num(values[inside]).T], axis=1
    )
    middle = np.bincount(codes[inside], y[inside]) / counts
    centred = np.nan_to_num(values - means[codes])
    slopes = np.linalg.lstsq(centred[inside], y[inside] - middle[codes[inside]], rcond=None)[0]
    guesses = (predictions, middle[codes[out]], middle[codes[out]] + centred[out] @ slopes)
    errors = [float(((guess - y[out]) ** 2).mean() / y[out].var()) for guess in guesses]
    return HeldOut(int(out.sum()), *errors)


def predict_table(
    model: GroupRidge, frame: pd.DataFrame, group: str | None, features: Sequence[str]
) -> tuple[pd.DataFrame, int]:
    """The table with predictions, their std and the ends of 95 % intervals; and the number of rows in new groups."""
    columns = [str(name) for name in frame.columns]
    for name in (*([group] if group is not None else []), *features):
        one_of("A column", name, columns)
    if taken := [name for name in _ADDED if name in columns]:
        raise DataError(f"The table has a column {taken[0]!r} already, which predictions would replace: rename it.")
    groups = None if group is None else frame[group]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        mean, std = model.predict(frame[list(features)], groups, return_std=True)
    unknown = 0 if groups is None else int((~groups.isin(model.groups_)).sum())
    added = (mean, std, mean - _NORMAL_95 * std, mean + _NORMAL_95 * std)
    return frame.assign(**dict(zip(_ADDED, added, strict=True))), unknown


def weights_table(model: GroupRidge, group: str | None, features: Sequence[str]) -> pd.DataFrame:
    """One row for each group: weights with standard deviations, intercept, noise."""
    columns: dict[str, Any] = {} if group is None else {group: model.groups_}
    columns |= {"intercept": np.atleast_1d(model.intercept_), "noise": np.atleast_1d(model.noise_)}
    pairs = zip(features, np.atleast_2d(model.coef_).T, np.atleast_2d(model.coef_std_).T, strict=True)
    for name, weights, deviations in pairs:
        columns |= {f"weight {name}": weights, f"std {name}": deviations}
    return pd.DataFrame(columns)
