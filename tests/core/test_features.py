"""Every distribution of features has the statistics it claims, and its moment is that of its queries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.core.features import (
    FEATURES,
    Covariance,
    draw_query_rows,
    gaussian_map,
    parse_features,
)
from ridgeformer.core.notation import Array
from support import refused, within_standard_errors

BATCH, N, D = 20_000, 12, 4


def rows(spec: object, n: int = N, batch: int = BATCH) -> rf.TokenDraw:
    return rf.Task(D, n, "fixed:1", features=spec).draw_tokens(batch, seed=0)


def products(x: Array) -> Array:
    return x[:, :, None] * x[:, None, :]


SKEWED = 1 / np.arange(1, D + 1) ** 2


@pytest.mark.parametrize(
    ("spec", "variances"),
    [
        ("isotropic", [1, 1, 1, 1]),
        ("scale:2", [4, 4, 4, 4]),
        ("power:1", np.array([1, 1 / 2, 1 / 3, 1 / 4]) * 4 / (25 / 12)),
        ("variances:4,1,0.25,0", [4, 1, 0.25, 0]),
        ("student:9", [1, 1, 1, 1]),
        ("uniform", [1, 1, 1, 1]),
        ("kappa:10+rotated", [1, 1, 1, 1]),
        ("rows:0.8+scale:3", [9, 9, 9, 9]),
    ],
)
def test_rows_have_the_second_moment_of_their_distribution(spec: str, variances: Array) -> None:
    found = products(rows(spec).X[:, 5])
    assert within_standard_errors(found, np.diag(variances))
    assert not within_standard_errors(found, np.diag(variances) * 1.5 + 0.5)


@pytest.mark.parametrize("kappa", [10.0, 1000.0])
def test_kappa_gives_that_condition_number_and_trace_d(kappa: float) -> None:
    moment = rows(f"kappa:{kappa:g}", batch=5).moment
    assert moment is not None
    variances = np.diagonal(moment)
    assert variances.max() / variances.min() == pytest.approx(kappa)
    assert variances.sum() == pytest.approx(D)
    assert np.ptp(np.diff(np.log(variances))) < 1e-12  # evenly spaced on a log scale


def test_covariance_object_has_that_covariance_also_if_singular() -> None:
    root = np.array([[1.0, 0, 0, 0], [0.5, 1, 0, 0], [0, 0.3, 1, 0], [1, 1, 0, 0]])
    C = root @ root.T  # rank 3
    found = rows(Covariance(C))
    assert within_standard_errors(products(found.X[:, 0]), C)
    assert found.moment is not None
    np.testing.assert_allclose(found.moment, C, atol=1e-12)
    refused("no negative eigenvalue", Covariance, -np.eye(2))
    refused("symmetric", Covariance, [[1.0, 2.0], [0.0, 1.0]])
    refused("d = 4", rf.Task, 3, 8, features=Covariance(C))


def test_rotated_axes_differ_between_contexts_and_keep_the_spectrum() -> None:
    moment = rows("kappa:10+rotated", batch=50).moment
    assert moment is not None
    values = np.linalg.eigvalsh(moment)
    np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), rtol=1e-9)
    assert np.ptp(moment[:, 0, 0]) > 0.1


@pytest.mark.parametrize("correlation", [0.8, -0.5])
def test_rows_are_autoregressive_with_unit_variance(correlation: float) -> None:
    X = rows(f"rows:{correlation}").X
    assert within_standard_errors(X**2, 1.0)
    for lag in (1, 2, 3):
        assert within_standard_errors(X[:, lag:, 0] * X[:, :-lag, 0], correlation**lag)
    assert within_standard_errors(X[:, 1:, 0] * X[:, :-1, 1], 0.0)  # features stay independent of each other


def test_student_and_uniform_entries_have_their_quantiles() -> None:
    t = rows("student:5", batch=3000).X.ravel() / np.sqrt(3 / 5)
    assert stats.kstest(t, "t", args=(5,)).pvalue > 1e-6
    assert stats.kstest(t, "norm").pvalue < 1e-6  # the control
    u = rows("uniform", batch=3000).X.ravel()
    assert stats.kstest(u, "uniform", args=(-np.sqrt(3), 2 * np.sqrt(3))).pvalue > 1e-6


def test_skewed_features_have_variances_as_one_over_squares() -> None:
    moment = rows("skewed", batch=20).moment
    assert moment is not None
    np.testing.assert_allclose(np.linalg.eigvalsh(moment)[:, ::-1], [SKEWED * D / SKEWED.sum()] * 20, rtol=1e-9)


def test_half_subspace_has_half_the_rank() -> None:
    found = rows("subspace", batch=20)
    assert (np.linalg.matrix_rank(found.X) == 2).all()
    outside = found.query - np.einsum("bij,bj->bi", np.linalg.pinv(found.X) @ found.X, found.query)
    assert np.abs(outside).max() < 1e-9


def test_quadrants_keep_one_sign_for_each_feature_of_a_context() -> None:
    found = rows("quadrants", batch=200)
    assert (np.sign(found.X) == np.sign(found.X[:, :1])).all()
    assert len({tuple(signs) for signs in np.sign(found.X[:, 0])}) > 10
    assert found.moment is None  # the query may be anywhere


def test_orthogonal_queries_are_orthogonal_and_of_length_root_d() -> None:
    found = rows("orthogonal", n=2)
    assert found.moment is not None
    assert np.abs(found.X @ found.moment).max() < 1e-9
    assert np.abs(np.einsum("bnd,bd->bn", found.X, found.query)).max() < 1e-6
    np.testing.assert_allclose(np.einsum("bii->b", found.moment), D)
    assert within_standard_errors((found.query**2).sum(axis=1, keepdims=True), float(D))


@pytest.mark.parametrize("spec", ["kappa:10", "kappa:10+rotated", "skewed", "student:9+kappa:5", "subspace"])
def test_queries_have_the_moment_that_is_told(spec: str) -> None:
    found, rng = rows(spec, batch=3), np.random.default_rng(0)
    queries = draw_query_rows(parse_features(spec), rng.standard_normal((3, 50_000, D)), found.moment, rng)
    moment = np.broadcast_to(np.eye(D) if found.moment is None else found.moment, (3, D, D))
    for own, expected in zip(queries, moment, strict=True):
        assert within_standard_errors(products(own), expected)


def test_chains_of_linear_parts_are_gaussian_and_others_are_not() -> None:
    found = gaussian_map(parse_features("kappa:10+rotated+scale:0.5"), D)
    assert found is not None
    assert found[1]
    np.testing.assert_allclose(found[0] @ found[0].T, 0.25 * parse_features("kappa:10").matrix(D) ** 2)
    for spec in ("rows:0.5", "student:5", "quadrants", "kappa:10+rotated+power:1", "orthogonal"):
        assert gaussian_map(parse_features(spec), D) is None
    assert gaussian_map(parse_features("rotated"), D) is not None


def test_own_features_are_objects_with_apply() -> None:
    class Shifted:
        spec = "shifted"

        def apply(self, X: Array, moment: Array | None, rng: np.random.Generator) -> tuple[Array, Array | None]:
            return X + 1.0, np.eye(X.shape[-1]) + 1.0

    task = rf.Task(3, 8, features=Shifted())
    assert task.setting.endswith("x ~ shifted")
    assert not task.builtin
    draw = task.draw_contexts(2000, seed=0)
    assert within_standard_errors(draw.context.scatter[:, :1, 1:2][:, 0], 8.0)


def test_every_part_reads_its_own_example_and_writes_it_back() -> None:
    for entry in FEATURES.values():
        assert parse_features(entry.form).spec == entry.form


def test_unreadable_features_say_what_would_be_right() -> None:
    for hint, spec in {
        "Did you mean 'kappa'": "kapa:3",
        "twice": "kappa:2+kappa:3",
        "takes no number": "skewed:2",
        "from 1 to": "kappa:0.1",
        "write for example rows:0.8": "rows:",
        "at most 16 parts": "+".join(["isotropic"] * 17),
    }.items():
        refused(hint, rf.Task, 3, 8, features=spec)
    refused("not 3", rf.Task, 3, 8, features=3)
    refused("are for d = 2", rf.Task, 3, 8, features="variances:1,2")
