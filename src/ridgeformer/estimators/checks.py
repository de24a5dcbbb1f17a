"""Checks of what users pass to the estimators: bad data raise an error that names the rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, printable
from ridgeformer.estimators.problems import GroupedRows

_SHOWN = 5  # rows, columns or groups that a sentence names


class DataError(InputError, ValueError):
    """Data that cannot be fitted. A ValueError too, as scikit-learn expects."""


class DataWarning(UserWarning):
    """Data that can be fitted, with a result that may surprise."""


def some(names: Iterable[Any], count: int) -> str:
    """``3, 17 and 40``, or the first few and how many more there are."""
    first = [printable(str(name), 40) for name, _ in zip(names, range(_SHOWN), strict=False)]
    if count > len(first):
        return f"{', '.join(first)} and {count - len(first):,} more"
    return f"{', '.join(first[:-1])} and {first[-1]}" if count > 1 else first[0]


def where(what: str, bad: Array) -> str:
    """``row 3`` or ``rows 3, 17 and 40``, from a mask; rows are counted from 0."""
    rows = np.flatnonzero(bad)
    return f"{what}{'s' * (len(rows) > 1)} {some(rows, len(rows))}"


class Table(NamedTuple):
    """X without its group column, and the labels from it."""

    X: Any
    groups: Any


def without_group_column(X: Any, column: Hashable | None) -> Table:
    """Take the group column, a name or a number, out of a DataFrame or an array."""
    if column is None:
        return Table(X, None)
    if isinstance(X, pd.DataFrame):
        if column not in X.columns:
            known = some(X.columns, len(X.columns))
            raise DataError(f"There is no column {column!r} to take the groups from; the columns are {known}.")
        return Table(X.drop(columns=[column]), X[column])
    array = np.asarray(X)
    if array.ndim != 2 or not isinstance(column, int | np.integer) or not -array.shape[1] <= column < array.shape[1]:
        raise DataError(f"There is no column {column!r} to take the groups from in an array of shape {array.shape}.")
    return Table(np.delete(array, column, axis=1), array[:, column])


def check_text_columns(X: Any) -> None:
    """Refuse columns of a DataFrame that hold text."""
    if not isinstance(X, pd.DataFrame):
        return
    for name, column in X.items():
        if not (pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype)):
            numbers = pd.to_numeric(column, errors="coerce")
            text = (numbers.isna() & column.notna()).to_numpy()
            if text.any():
                value = printable(str(column[text].iloc[0]), 40)
                raise DataError(
                    f"The column {name!r} holds text, such as {value!r} in {where('row', text)}: "
                    "leave it out or turn it into numbers."
                )


def check_rectangular(**arrays: Any) -> None:
    """Refuse lists whose rows differ in length."""
    for name, values in arrays.items():
        if isinstance(values, list | tuple):
            try:
                np.shape(values)
            except ValueError as ragged:
                raise DataError(f"{name} must be a rectangular array: its rows differ in length.") from ragged


def check_infinite(X: Array) -> None:
    """Refuse infinite features."""
    if np.isfinite(X.sum(dtype=np.float64)) or not (infinite := np.isinf(X)).any():
        return  # the sum of a few large numbers may be infinite, which costs a second look
    bad = infinite.reshape(-1, X.shape[-1])
    columns = np.flatnonzero(bad.any(axis=0))
    raise DataError(
        f"X has infinite (inf) values in {where('row', np.asarray(bad.any(axis=1)))}, column{'s' * (len(columns) > 1)} "
        f"{some(columns, len(columns))}."
    )


def check_targets(y: Any) -> None:
    """Refuse targets that are missing or infinite, and name their rows; scikit-learn reports everything else."""
    try:
        values = np.asarray(0.0 if y is None else y, dtype=np.float64)
    except (TypeError, ValueError):
        return
    bad = ~np.isfinite(values.reshape(-1))
    if bad.any():
        raise DataError(
            f"The target is missing (NaN) or infinite in {where('row', bad)}: leave these rows out, or predict them."
        )


def check_weights(weights: Any, rows: int) -> Array | None:
    """Sample weights (rows,) ≥ 0, or None."""
    if weights is None:
        return None
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as wrong:
        raise DataError("sample_weight must hold numbers.") from wrong
    array = np.full(rows, array) if array.ndim == 0 else array
    if array.size != rows or array.ndim > 2:
        raise DataError(f"sample_weight must have one number for each of {rows} rows, but has shape {array.shape}.")
    array = array.reshape(-1)
    if (bad := ~((array >= 0) & (array < np.inf))).any():
        raise DataError(f"sample_weight must be finite and at least 0, but it is not in {where('row', bad)}.")
    if not array.any():
        raise DataError("All sample weights are zero.")
    return array


def group_codes(groups: Any, rows: int) -> tuple[Array, pd.Index]:
    """The number of each row's group, and the labels of the groups in order of appearance."""
    labels = pd.Series(groups.to_numpy() if isinstance(groups, pd.Series) else np.asarray(groups))
    if labels.shape != (rows,):
        raise DataError(f"groups must have one label for each of {rows} rows, but has {len(labels)}.")
    codes, index = pd.factorize(labels)
    if (bad := codes < 0).any():
        raise DataError(f"The group is missing in {where('row', bad)}.")
    return codes, pd.Index(index)


def is_solid(X: Any) -> bool:
    """Whether X has three axes: groups, rows, features."""
    return bool(np.ndim(X) == 3) if isinstance(X, list | tuple) else getattr(X, "ndim", 2) == 3


def three_dimensional(X: Any, y: Any, groups: Any) -> tuple[Array, Array, pd.Index] | None:
    """(X, y, labels) of arrays (groups, n, p) and (groups, n), which keep their precision; None for anything else."""
    if not is_solid(X):
        return None
    X, y = np.asarray(X), np.asarray(y)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if y.shape != X.shape[:2] or X.shape[2] == 0 or y.size == 0:
        raise DataError(f"X of shape {X.shape} and y of shape {y.shape} must agree in groups and rows.")
    labels = pd.RangeIndex(len(X)) if groups is None else pd.Index(np.asarray(groups))
    if len(labels) != len(X) or labels.has_duplicates:
        raise DataError(f"groups must hold {len(X)} different labels, one for each group of X.")
    return X, y, labels


def note_small_groups(rows: GroupedRows, labels: pd.Index) -> str:
    """A sentence about groups of one row, if there are any."""
    single = np.flatnonzero(rows.sizes == 1)
    if not len(single) or rows.groups == 1:
        return ""
    them = "them" if len(single) > 1 else "it"
    return (
        f"{len(single):,} group{'s have' if len(single) > 1 else ' has'} one row only "
        f"({some(labels[single], len(single))}): slopes for {them} come from the other groups."
    )
