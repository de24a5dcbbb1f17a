"""The list of checks: all pass, every result is there, and a broken formula or model makes them fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.theory import Check, implicit_model, momentum, run_checks, second_order, step_size, two_layer
from ridgeformer.theory.checks import RESULTS
from support import make_examples, one_sentence, tame_model


def failures(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if not check.passed}


@pytest.fixture(scope="module")
def checks() -> list[Check]:
    return run_checks(0)


@pytest.mark.parametrize("seed", [0, 2**40])
def test_all_checks_pass(seed: int, checks: list[Check]) -> None:
    found = run_checks(seed) if seed else checks
    assert failures(found) == set()
    names = " ".join(check.name for check in found)
    assert all(result in names for result in (*RESULTS, "Lemma 4.3"))
    assert all(check.statement.endswith(".") and np.isfinite(check.measured) for check in found)


@pytest.mark.parametrize("result", ["Theorem 5.1", "Theorem 5.2", "Section 5.3"])
def test_checks_of_one_result_are_those_of_all_and_the_same_each_time(result: str, checks: list[Check]) -> None:
    assert run_checks(0, results=[result]) == [check for check in checks if check.name.startswith(result)]


def test_checks_of_an_unknown_result_or_of_no_model_are_refused() -> None:
    for wrong, hint in (({"results": ["Theorem 9"]}, "Did you mean"), ({"model": "diag-2"}, "LinearTransformer")):
        with pytest.raises(rf.InputError, match=hint) as caught:
            run_checks(0, **{"results": [], **wrong})  # type: ignore[arg-type]
        one_sentence(caught.value)


def documented() -> dict[str, list[str]]:
    """Cells of the table in docs/theory.md, by the name of the check."""
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in rows[1:] if len(cells) == 3}


def test_checks_are_explained_in_the_documentation_with_the_numbers_of_seed_0(checks: list[Check]) -> None:
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert set(names) == set(documented())
    for check in checks:
        measured, bound, _ = documented()[check.name]
        assert bound == f"{check.relation} {check.bound:.2g}"
        if check.bound > 1e-5:  # below is rounding, which differs between machines
            assert measured == f"{check.measured:.2g}"


@pytest.mark.parametrize(("kind", "momentum_too"), [("gdpp", True), ("diag", True), ("full", False)])
def test_checks_of_a_given_model_pass_and_leave_out_what_does_not_apply(kind: str, momentum_too: bool) -> None:
    examples = make_examples(8, 10, 5, seed=1)
    model = tame_model(kind, 4, 1, 5, examples.gram, strength=1.0).astype(np.float32)
    own = run_checks(0, model, results=[])
    assert failures(own) == set()
    names = ["Theorem 4.1, this model", "Lemma 4.4, this model", "Theorem 4.2, this model"]
    assert [check.name for check in own] == [name for name in names if momentum_too or "Lemma" not in name]


def test_check_of_an_exploding_model_fails_rather_than_passing_unseen() -> None:
    model = rf.LinearTransformer.init("diag", layers=6, dim=3, scale=100.0)
    assert "Theorem 4.1, this model" in failures(run_checks(0, model, results=[]))


def longer_last_step(right: Any, *arguments: Any, **options: Any) -> rf.LinearTransformer:
    network = right(*arguments, **options)
    p = network.parameters["p"].copy()
    p[-1, 0, 1] *= 1 + 1e-5
    return network.replace({**network.parameters, "p": p})


# fmt: off
WRONG: list[tuple[Any, str, Callable[..., Any], set[str]]] = [
    (implicit_model, "difference_from_tokens",
     lambda right, *arguments, recursion=None: right(*arguments, implicit_model.printed_next_layer),
     {"Theorem 4.1, Lemma 4.3"}),
    (momentum, "difference_from_recursion",
     lambda right, model, context, printed=True: right(model, context, printed=True),
     {"Lemma 4.4", "Lemma 4.4, n < d"}),
    (second_order, "second_order_network", longer_last_step, {"Theorem 5.1", "Theorem 5.1, error"}),
    (second_order, "layers_needed", lambda right, *arguments: max(1, right(*arguments) - 1), {"Theorem 5.1"}),
    (two_layer, "line_through", lambda right, *sigmas: (right(*sigmas)[0], 0.9 * right(*sigmas)[1]),
     {"Theorem 5.2", "Theorem 5.2, rate"}),
    (step_size, "effective_step_size",
     lambda right, *arguments: [replace(size, step=size.step * (1 + 1e-6)) for size in right(*arguments)],
     {"Section 5.3, measured"}),
]
# fmt: on


@pytest.mark.parametrize(("module", "name", "wrong", "failing"), WRONG, ids=[name for _, name, _, _ in WRONG])
def test_checks_with_a_wrong_formula_fail(
    module: Any, name: str, wrong: Callable[..., Any], failing: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *arguments, **options: wrong(right, *arguments, **options))
    results = {check.split(",")[0] for check in failing}
    assert failures(run_checks(0, results=sorted(results))) == failing


def test_check_of_nan_never_passes() -> None:
    for relation in ("≤", "≥"):
        assert not Check("a", "b.", float("nan"), 1.0, relation=relation).passed
        assert Check("a", "b.", 1.0, 1.0, relation=relation).passed
    assert Check("a", "b.", 0.5, 1.0).passed
    assert not Check("a", "b.", 0.5, 1.0, relation="≥").passed
