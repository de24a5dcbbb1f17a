"""Modules as predictors, devices, and what happens where torch is missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from support import make_examples, refusal, run_python

torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
rt: Any = pytest.importorskip("ridgeformer.torch")

TASK = rf.Task(3, 8, "uniform:2")
MODULES = {
    "softmax": lambda: rt.Architecture("softmax", layers=2, dim=3).make(),
    "wide": lambda: rt.Architecture("elu", 2, 2, 3, projections="separate", width=8, mlp=1, norm=True).make(),
    "linear": lambda: rt.LinearTransformer("diag", layers=2, dim=3),
    "foreign": lambda: rt.ModulePredictor(Mean()),
}


class Mean(torch.nn.Module):  # type: ignore[misc, name-defined]
    """The mean of all targets."""

    def forward(self, X: Any, y: Any, queries: Any) -> Any:
        return y.mean(dim=1, keepdim=True) + 0 * queries[..., 0]


@pytest.mark.parametrize("name", MODULES)
def test_module_is_accepted_by_everything_that_measures(name: str) -> None:
    module = MODULES[name]()
    alone = rf.evaluate(module, TASK, 60)
    together = rf.compare({"it": module, "AdaRR": rf.baselines.AdaRR()}, TASK, 60)
    assert math.isfinite(alone.adjusted_loss)
    assert alone.adjusted_loss == pytest.approx(together.evaluations["it"].adjusted_loss, rel=1e-5)
    assert len(rf.profile({"it": module}, TASK, [0, 2], 30).evaluations["it"]) == 2
    assert rf.shift_table({"it": module}, TASK, ["none", "kappa:10"], 30).results["kappa:10"]["it"].loss > 0
    curve = rf.curve({"it": module}, TASK, values=[4, 16], sequences=30)
    assert all(point and math.isfinite(point.adjusted_loss) for point in curve.evaluations["it"])
    if name != "foreign":
        assert len(rf.layerwise(module, TASK, 30)) == 2


def test_predictions_are_the_same_however_many_contexts_are_taken_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    module, examples = MODULES["softmax"](), make_examples(7, 8, 3, seed=0)
    expected = module.predict(*examples[:3])
    monkeypatch.setattr("ridgeformer.torch.module._SCORES", 2 * 8 * 11)
    assert np.allclose(module.predict(*examples[:3]), expected, rtol=1e-6)
    assert module.predict(*(array[:0] for array in examples[:3])).shape == (0, 3)


def test_device_auto_takes_what_there_is() -> None:
    from ridgeformer.torch.module import choose_device

    assert choose_device("auto").type == ("cpu" if not torch.accelerator.is_available() else choose_device(None).type)
    assert choose_device("meta").type == "meta"
    for wrong in ("abacus", "cuda:99", 3.5):
        with refusal("no device"):
            choose_device(wrong)


def test_foreign_module_that_is_none_is_refused() -> None:
    with refusal("torch.nn.Module"):
        rt.ModulePredictor(5)


def test_missing_torch_is_one_sentence_and_the_rest_of_the_package_works() -> None:
    code = """
import sys
sys.modules["torch"] = None
import ridgeformer as rf
try:
    rf.torch
except rf.InputError as missing:
    print(missing)
try:
    rf.no_such_name
except AttributeError as missing:
    print(missing)
"""
    assert run_python(code).splitlines() == [
        "ridgeformer.torch needs PyTorch: pip install 'ridgeformer[torch]'.",
        "module 'ridgeformer' has no attribute 'no_such_name'",
    ]


def test_import_of_this_room_does_not_hide_torch() -> None:
    code = "import ridgeformer.torch, torch, ridgeformer as rf; print(torch.__name__, rf.torch.__name__)"
    assert run_python(code).split() == ["torch", "ridgeformer.torch"]
