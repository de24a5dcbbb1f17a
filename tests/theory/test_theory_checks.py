"""The list of checks: all pass, every result is there, and a broken formula or model makes them fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.theory import implicit_model, momentum, run_checks, second_order, step_size, two_layer
from ridgeformer.theory.measure import Check, relative_difference
from support import make_examples, tame_model


def failures(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if not check.passed}


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_all_checks_pass(seed: int) -> None:
    checks = run_checks(seed)
    assert failures(checks) == set()
    names = " ".join(check.name for check in checks)
    for result in ("Theorem 4.1", "Lemma 4.3", "Lemma 4.4", "Theorem 4.2", "Theorem 5.1", "Theorem 5.2", "Section 5.3"):
        assert result in names
    for check in checks:
        assert check.statement.endswith(".")
        assert np.isfinite(check.measured)


def test_checks_of_the_same_seed_are_equal_and_explained_in_the_documentation() -> None:
    checks = run_checks(5)
    assert run_checks(5) == checks
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert set(names) == set(documented())


def documented() -> dict[str, list[str]]:
    """Cells of the table in docs/theory.md, by the name of the check."""
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in rows[1:] if len(cells) == 3}


def test_numbers_in_the_documentation_are_those_of_seed_0() -> None:
    for check in run_checks(0):
        measured, bound, _ = documented()[check.name]
        assert bound == f"{check.relation} {check.bound:.2g}"
        if check.bound > 1e-5:  # below is rounding, which differs between machines
            assert measured == f"{check.measured:.2g}"


@pytest.mark.parametrize(("kind", "momentum_too"), [("gdpp", True), ("diag", True), ("full", False)])
def test_checks_of_a_given_model_pass_and_leave_out_what_does_not_apply(kind: str, momentum_too: bool) -> None:
    examples = make_examples(8, 10, 5, seed=1)
    model = tame_model(kind, 4, 1, 5, examples.gram, strength=1.0).astype(np.float32)
    checks = run_checks(0, model)
    assert failures(checks) == set()
    own = [check.name for check in checks if "this model" in check.name]
    assert ("Lemma 4.4, this model" in own) == momentum_too
    assert "Theorem 4.1, this model" in own
    assert "Theorem 4.2, this model" in own


def test_check_of_an_exploding_model_fails_rather_than_passing_unseen() -> None:
    model = rf.LinearTransformer.init("diag", layers=6, dim=3, scale=100.0)
    assert "Theorem 4.1, this model" in failures(run_checks(0, model))


def test_checks_with_the_printed_recursion_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = implicit_model.difference_from_tokens

    def printed(model: rf.LinearTransformer, X: Array, y: Array, queries: Array, recursion: object = None) -> float:
        return right(model, X, y, queries, implicit_model.printed_next_layer)

    monkeypatch.setattr(implicit_model, "difference_from_tokens", printed)
    assert failures(run_checks(0)) == {"Theorem 4.1, Lemma 4.3"}


def test_checks_with_the_printed_momentum_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = momentum.difference_from_recursion

    def by_print(model: rf.LinearTransformer, context: rf.Context, printed: bool = True) -> float:
        return right(model, context, printed=True)

    monkeypatch.setattr(momentum, "difference_from_recursion", by_print)
    assert failures(run_checks(0)) == {"Lemma 4.4", "Lemma 4.4, n < d"}


def test_checks_with_another_last_step_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = second_order.second_order_network

    def longer_step(dim: int, kappa: float, epsilon: float, largest: float) -> rf.LinearTransformer:
        network = right(dim, kappa, epsilon, largest)
        p = network.parameters["p"].copy()
        p[-1, 0, 1] *= 1 + 1e-5  # within what ε leaves over
        return network.replace({**network.parameters, "p": p})

    monkeypatch.setattr(second_order, "second_order_network", longer_step)
    assert "Theorem 5.1, error" in failures(run_checks(0))


def test_checks_with_another_measure_of_steps_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = step_size.effective_step_size
    monkeypatch.setattr(
        step_size,
        "effective_step_size",
        lambda *args: [replace(size, step=size.step * (1 + 1e-6)) for size in right(*args)],
    )
    assert failures(run_checks(0)) == {"Section 5.3, measured"}


def test_checks_with_another_line_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = two_layer.line_through
    monkeypatch.setattr(two_layer, "line_through", lambda *sigmas: (right(*sigmas)[0], 0.9 * right(*sigmas)[1]))
    assert {"Theorem 5.2", "Theorem 5.2, rate"} <= failures(run_checks(0))


def test_checks_with_a_layer_too_few_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = second_order.layers_needed
    monkeypatch.setattr(second_order, "layers_needed", lambda *args: max(1, right(*args) - 1))
    assert "Theorem 5.1" in failures(run_checks(0))


def test_check_of_nan_never_passes() -> None:
    assert not Check.at_most("a", "b.", float("nan"), 1.0).passed
    assert not Check.at_least("a", "b.", float("nan"), 1.0).passed
    assert Check.at_most("a", "b.", 1.0, 1.0).passed
    assert Check.at_least("a", "b.", 1.0, 1.0).passed


def test_relative_difference_is_the_worst_context_s() -> None:
    expected = np.array([[1.0, 2.0], [100.0, 0.0], [0.0, 0.0]])
    found = expected + np.array([[0.0, 0.2], [1.0, 1.0], [0.0, 0.0]])
    assert relative_difference(found, expected) == pytest.approx(0.1)
    assert relative_difference(expected, expected) == 0
    assert np.isnan(relative_difference(np.array([[np.nan]]), np.array([[1.0]])))
    assert relative_difference(np.empty((0, 3)), np.empty((0, 3))) == 0
