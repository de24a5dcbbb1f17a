"""docs/extending.md: its examples run, in order, and what they add is found everywhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer.baselines import BASELINES
from ridgeformer.core.kinds import KINDS
from ridgeformer.evaluation.shift import SHIFTS, parse_shift
from ridgeformer.plots.figures import FIGURES

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's code defines; registries are put back afterwards."""
    for registry in (BASELINES, KINDS, SHIFTS, FIGURES):
        monkeypatch.setattr(registry, "_entries", dict(registry))
    monkeypatch.chdir(tmp_path)
    module = ModuleType("extending")
    monkeypatch.setitem(sys.modules, "extending", module)  # where dataclasses look for the names of their fields' types
    defined = vars(module)
    defined["RESULTS"] = PAGE.parent / "results"
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), defined)  # our own page, not a file from elsewhere
    return defined


def test_examples_of_the_page_run_and_register_what_they_say(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"stein", "adarr"} <= set(BASELINES)
    assert names["scalar"].kind == "scalar"
    assert rf.load("scalar.safetensors").parameters["p"].shape == (2, 1)
    assert parse_shift("offset:2+kappa:3")[0].amount == 2.0  # type: ignore[attr-defined]
    assert names["limit"].adjusted_loss > 0
    assert b"Seven layers" in Path("seven.svg").read_bytes()
    printed = capsys.readouterr().out
    assert printed == "" or "adjusted loss" in printed
