"""Forms of few constants, and the search among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import Simplest, few_constants, model_from_omega, simplest
from ridgeformer.analysis.diagonal import inert
from ridgeformer.analysis.few_constants import FORMS, Description, effective_constants
from ridgeformer.evaluation import Difference, Evaluation
from support import one_sentence

TASK = rf.Task(3, 9, "uniform:2")
BY_NAME = {form.name: form for form in FORMS}


def test_each_form_has_as_many_constants_as_it_says_and_leaves_inert_omega_out() -> None:
    for form in FORMS:
        start = np.array(list(form.start.values()))
        omega = form.omega(start, 4, rf.Task())
        assert omega.shape == (4, 4)
        assert not omega[inert(4)].any()
        for place in range(len(start)):  # every constant does something
            moved = start.copy()
            moved[place] *= 1.1
            assert np.abs(form.omega(moved, 4, rf.Task()) - omega).max() > 0


def test_forms_are_special_cases_of_the_one_before() -> None:
    a, b, e, r, last_yx = 0.2, 0.3, 0.05, 2.0, 7.0
    for layers in (3, 4, 6):
        top = r**layers
        ladder = {
            "four sequences": (a, a, a, e, r, r, r, r, a * top, e * top),
            "one ratio": (a, a, a, e, r, a * top, e * top),
            "ω_xx = ω_yx": (a, a, e, r, a * top, e * top),
            "last ω_yy = −e r^L": (a, a, e, r, a * top),
            "ω_xy = ω_xx": (a, e, r, a * top),
            "last ω_yx = a r^L": (a, e, r),
        }
        built = [BY_NAME[name].omega(constants, layers, TASK) for name, constants in ladder.items()]
        for other in built[1:]:
            assert np.allclose(other, built[0], rtol=1e-12)
    assert not np.allclose(
        BY_NAME["last ω_yy = −e r^L"].omega((a, b, e, r, last_yx), 4, TASK),
        BY_NAME["ω_xy = ω_xx"].omega((a, e, r, last_yx), 4, TASK),
    )
    fifth = BY_NAME["e = a/5"].omega((0.25, 2.4), 4, TASK)
    assert np.allclose(fifth, BY_NAME["a = 1/4, e = 1/20"].omega((2.4,), 4, TASK))


def test_three_constants_are_what_the_page_prints() -> None:
    n, d, a, e, r = 9, 3, 0.2, 0.05, 2.5
    A, E = a / n, e / (n * d)
    expected = [
        (-A, 0, -A, -E),
        (0, -A * r / d, -A * r, -E * r),
        (-A * r**2, -A * r**2 / d, -A * r**2, -E * r**2),
        (0, 0, -A * r**4, E * r**4),
    ]
    assert np.allclose(BY_NAME["last ω_yx = a r^L"].omega((a, e, r), 4, TASK), expected)


def test_pattern_leaves_out_two_omega() -> None:
    names = "without the pattern", "one ratio"
    everywhere, with_pattern = (BY_NAME[name].omega((1, 1, 1, 1, 2, 1, 1), 4, TASK) for name in names)
    assert [tuple(place) for place in np.argwhere(everywhere != with_pattern)] == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("kind", "heads", "layers", "expected"),
    [("diag", 1, 4, 11), ("diag", 2, 4, 14), ("gdpp", 1, 4, 7), ("diag", 1, 1, 1), ("diag", 1, 2, 5)],
)
def test_constants_that_matter_are_counted(kind: str, heads: int, layers: int, expected: int) -> None:
    model = rf.LinearTransformer.init(kind, layers=layers, heads=heads, dim=3)
    assert effective_constants(model) == expected


def evaluation(loss: float) -> Evaluation:
    return Evaluation(loss, 0.0, loss, loss, loss, 1000, 0)


def description(name: str, count: int, loss: float, error: float = 0.0, round_numbers: int = 0) -> Description:
    constants = {str(number): 1.0 for number in range(count)}
    against = Difference(name, "trained", loss - 1.0, error)
    return Description(name, "", constants, np.zeros((3, 4)), False, evaluation(loss), against, round_numbers)


def test_best_is_the_shortest_within_the_limit_with_confidence() -> None:
    forms = (
        description("fits", 3, 1.04),
        description("round numbers count", 1, 1.049, round_numbers=2),
        description("too bad", 2, 1.06),
        description("uncertain", 2, 1.04, error=0.02),
    )
    found = Simplest(TASK, 0, evaluation(1.0), 11, (description("long", 5, 0.9),), forms, {})
    assert found.limit == pytest.approx(1.05)
    assert found.best is not None
    assert found.best.name == "fits"
    assert replace(found, dropped=(), forms=found.forms[2:]).best is None


def test_search_on_a_small_task_measures_every_description(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_POOL": 128, "_TRIAL_POOL": 64, "_TRIAL": 3, "_FINAL": 15, "_STARTS": 1}.items():
        monkeypatch.setattr(few_constants, name, value)
    start = BY_NAME["last ω_yx = a r^L"].omega((0.2, 0.03, 2.0), 3, TASK)
    stages: list[float] = []
    model = model_from_omega(start, 3)
    found = simplest(model, TASK, sequences=500, on_stage=lambda _, share: stages.append(share))
    assert [d.count for d in found.dropped] == [10, 9, 8]
    assert found.dropped[0].evaluation.adjusted_loss < found.trained.adjusted_loss
    assert len(found.forms) == len(FORMS)
    assert stages == sorted(stages)
    again = rf.evaluate(model_from_omega(found.forms[0].omega, 3), TASK, 500)
    assert found.forms[0].evaluation.adjusted_loss == pytest.approx(again.adjusted_loss, rel=1e-12)
    assert found.trained == rf.evaluate(model, TASK, 500)


@pytest.mark.parametrize(
    ("kind", "layers", "hint"), [("gdpp", 4, "two ω"), ("full", 4, "matrices"), ("diag", 2, "layers")]
)
def test_search_refuses_what_it_cannot_describe(kind: str, layers: int, hint: str) -> None:
    with pytest.raises(rf.InputError, match=hint) as caught:
        simplest(rf.LinearTransformer.init(kind, layers=layers, dim=3), TASK)
    one_sentence(caught.value)
