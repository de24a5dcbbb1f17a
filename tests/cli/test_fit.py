"""``ridgeformer fit``: from a table to predictions, weights, a picture and JSON; and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from grouped import made_up_groups
from ridgeformer.estimators import GroupRidge
from running import Capture, Patch, read_json, refuses, succeeds

DATA = made_up_groups(20, 2, (5, 9), mean=1.0, intercept=3.0)
FRAME = pd.DataFrame(DATA.X, columns=["price", "promo"]).assign(store=[f"s{g}" for g in DATA.groups], units=DATA.y)


@pytest.fixture(autouse=True)
def _tables(tmp_path: Path) -> None:
    FRAME.to_csv("sales.csv", index=False)


def test_predictions_weights_plot_and_json_are_those_of_the_estimator(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = ("--out", "p.csv", "--weights", "w.csv", "--plot", "noise.svg", "--json", "s.json")
    text = succeeds(capsys, "fit", "sales.csv", "--target", "units", "--group", "store", *files)
    assert all(len(line) <= 80 for line in text.splitlines() if "│" in line)
    assert "20 groups of 5 to 9 rows" in text
    assert "Squared error on" in text
    model = GroupRidge().fit(FRAME[["price", "promo"]], FRAME.units, FRAME.store)
    mean, std = model.predict(FRAME[["price", "promo"]], FRAME.store, return_std=True)
    written = pd.read_csv("p.csv")
    np.testing.assert_allclose(written.prediction, mean, rtol=1e-6)
    np.testing.assert_allclose(written.high - written.low, 2 * 1.96 * std, rtol=1e-3)
    np.testing.assert_allclose(pd.read_csv("w.csv")["weight promo"], model.coef_[:, 1], rtol=1e-6)
    record = read_json(Path("s.json"))
    assert record["groups"] == 20
    assert [feature["name"] for feature in record["features"]] == ["price", "promo"]
    assert Path("noise.svg").read_bytes().startswith(b"<?xml")


def test_new_rows_without_targets_and_of_unknown_groups_are_predicted(capsys: Capture) -> None:
    pd.DataFrame({"store": ["s0", "new"], "price": [1.0, 2.0], "promo": [0.0, 0.5]}).to_csv("new.csv", index=False)
    flags = ("--target", "units", "--group", "store", "--predict", "new.csv", "--out", "p.tsv")
    text = succeeds(capsys, "fit", "sales.csv", *flags)
    assert "1 rows belong to groups that are not in the data" in text
    written = pd.read_csv("p.tsv", sep="\t")
    assert len(written) == 2
    assert written["std"][1] > written["std"][0]


def test_parquet_gives_the_same_as_csv(capsys: Capture) -> None:
    pytest.importorskip("pyarrow")
    FRAME.to_parquet("sales.parquet")
    for suffix in ("csv", "parquet"):
        flags = ("--target", "units", "--group", "store", "--intercept", "pooled", "--out", f"p.{suffix}")
        succeeds(capsys, "fit", f"sales.{suffix}", *flags)
    np.testing.assert_allclose(pd.read_parquet("p.parquet").prediction, pd.read_csv("p.csv").prediction, rtol=1e-6)


def test_without_a_group_all_rows_are_one_regression(capsys: Capture) -> None:
    text = succeeds(capsys, "fit", "sales.csv", "--target", "units", "--features", "price", "promo")
    assert f"{len(FRAME)} rows in one group; 2 features." in text


def test_what_cannot_be_fitted_is_refused_in_a_sentence_that_names_it(capsys: Capture) -> None:
    flags = ("--target", "units", "--group", "store")
    refuses(capsys, "There is no file nowhere.csv", "fit", "nowhere.csv", *flags)
    refuses(capsys, "Did you mean 'units'?", "fit", "sales.csv", "--target", "unit")
    refuses(capsys, "'store' holds text, such as 's0' in rows 0", "fit", "sales.csv", "--target", "units")
    refuses(capsys, "A plot is an .svg", "fit", "sales.csv", *flags, "--plot", "noise.txt")
    FRAME.assign(units=[np.nan, *DATA.y[1:]]).to_csv("gap.csv", index=False)
    refuses(capsys, "missing (NaN) or infinite in row 0", "fit", "gap.csv", *flags)
    FRAME.assign(units=["many", *DATA.y[1:]]).to_csv("text.csv", index=False)
    refuses(capsys, "target 'units' holds text in row 0", "fit", "text.csv", *flags)
    FRAME.rename(columns={"price": "std"}).to_csv("std.csv", index=False)
    refuses(capsys, "has a column 'std' already", "fit", "std.csv", *flags)
    Path("empty.csv").write_text("")
    refuses(capsys, "Cannot read empty.csv as a table", "fit", "empty.csv", *flags)
