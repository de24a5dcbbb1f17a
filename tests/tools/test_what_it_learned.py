"""The essay of what was learned: its measurements, and that it is written only if its claims hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import learned_page as page
import ridgeformer as rf
import what_it_learned
from ridgeformer.analysis import few_constants
from ridgeformer.analysis.few_constants import FORMS
from ridgeformer.core.validation import RidgeformerError
from support import one_sentence
from what_it_learned import energy_decay, journey, write_page

TASK = rf.Task(3, 9, "uniform:2")
DOCS = Path(__file__).parents[2] / "docs"


def test_journey_improves_from_unchanged_to_refitted_to_free() -> None:
    (form,) = [form for form in FORMS if form.name == page.THREE]
    found = journey(form, (0.2, 0.03, 2.0), TASK, 3, sequences=2000, pool=512)
    # Medians: fits on so few contexts explode on a few fresh ones.
    assert found.unchanged.median > found.refitted.median > found.free.median
    assert found.constants != (0.2, 0.03, 2.0)
    assert found.decay > 1


def test_energy_decay_of_a_model_that_does_nothing_is_one() -> None:
    assert energy_decay(np.zeros((3, 4)), TASK) == pytest.approx(1.0)


def test_claim_that_does_not_hold_stops_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert page.claim("Yes.", True) == "Yes."
    sizes = {"_POOL": 64, "_TRIAL_POOL": 64, "_TRIAL": 2, "_FINAL": 4, "_STARTS": 1, "_FEWEST": 12}
    for name, value in sizes.items():  # so little work that three constants cannot be found
        monkeypatch.setattr(few_constants, name, value)
    monkeypatch.setattr(what_it_learned, "explain_model", lambda *_, **__: None)
    monkeypatch.setattr(what_it_learned, "_journeys", lambda *_: ())
    with pytest.raises(RidgeformerError, match="This no longer holds, so the page is not written"):
        write_page("diag-4-uniform-5", tmp_path, sequences=200)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["gdpp-4-uniform-5", "diag-3-uniform-5"])
def test_page_about_other_models_is_refused(model: str, tmp_path: Path) -> None:
    with pytest.raises(rf.InputError, match="four layers") as caught:
        write_page(model, tmp_path)
    one_sentence(caught.value)


def test_page_in_the_documentation_has_every_section_and_its_figures() -> None:
    text = (DOCS / what_it_learned.PAGE).read_text(encoding="utf-8")
    sections = [line for line in text.splitlines() if line.startswith("#")]
    assert len(sections) == 10  # four of them by tools/registers_study.py
    assert f"python tools/{Path(what_it_learned.__file__).name}" in text
    for name in ("ladder", "filters", "implied-noise", "ablations"):
        assert f"(figures/what-it-learned-{name}.svg)" in text
        assert (DOCS / "figures" / f"what-it-learned-{name}.svg").exists()


def test_blocks_are_wrapped_and_tables_aligned() -> None:
    assert max(map(len, page.paragraph("word " * 100).splitlines())) <= 120
    assert page.bullet("word " * 100).splitlines()[1].startswith("  word")
    assert page.table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
