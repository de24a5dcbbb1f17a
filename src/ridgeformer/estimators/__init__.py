"""Many small regressions on real data, as scikit-learn estimators: the extra ``sklearn``.

A *group* is a set of rows with one regression of its own, such as a school, a patient or a shop. `GroupRidge` learns
from all groups how noisy they are and what their weights have in common. `ContextRegressor` lets a trained transformer
answer for each group. Without groups, both are ordinary regressors.

Files: `checks` (of what users pass in), `problems` (rows to Gram matrices), `empirical_bayes` (posteriors), `learning`
(the prior), `fitting` (all of this in the user's units), `group_ridge` and `context_regressor` (the estimators),
`tables` (CSV and Parquet files, for ``ridgeformer fit``).
"""

from __future__ import annotations

from ridgeformer.core.validation import InputError

try:
    import pandas as _pandas  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
except ImportError as _missing:
    raise InputError(
        f"ridgeformer.estimators needs scikit-learn and pandas, and {_missing.name} is not installed: "
        "pip install 'ridgeformer[sklearn]'."
    ) from _missing

from ridgeformer.estimators.checks import DataError, DataWarning
from ridgeformer.estimators.context_regressor import ContextRegressor
from ridgeformer.estimators.group_ridge import GroupRidge, Prior

__all__ = ["ContextRegressor", "DataError", "DataWarning", "GroupRidge", "Prior"]
