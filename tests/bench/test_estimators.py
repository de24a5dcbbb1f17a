"""The section ``estimators`` gives its rows; times are not looked at."""

from __future__ import annotations

from ridgeformer.bench import BenchConfig, run_bench


def test_quick_run_compares_with_loops_of_three_regressors_and_measures_growth() -> None:
    rows = run_bench(BenchConfig(quick=True, repeats=1, only=("estimators",))).rows
    assert [row.what for row in rows] == [
        "GroupRidge",
        "RidgeCV, its own 3 penalties",
        "RidgeCV",
        "BayesianRidge",
        "10,000 groups",
    ]
    assert all(row.value is not None and row.value > 0 for row in rows)
