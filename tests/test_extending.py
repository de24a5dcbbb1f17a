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
from ridgeformer.core.features import FEATURES
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.weights import WEIGHTS
from ridgeformer.evaluation.shift import SHIFTS, shifted
from ridgeformer.plots.figures import FIGURES

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's code defines; registries are put back afterwards."""
    for registry in (BASELINES, KINDS, FEATURES, WEIGHTS, SHIFTS, FIGURES):
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
    assert shifted(rf.Task(3, 8), "offset:2+kappa:3").features.spec == "offset:2+kappa:3"
    assert shifted(rf.Task(3, 8), "half:2").examples == 4
    assert rf.TrainConfig(features="offset:2", weights="signs").task.weights.spec == "signs"
    assert names["limit"].adjusted_loss > 0
    assert b"Seven layers" in Path("seven.svg").read_bytes()
    printed = capsys.readouterr().out
    assert printed == "" or "adjusted loss" in printed
