"""The tool that measures the zoo's tails: what it writes, and that what is measured is left alone."""

from __future__ import annotations

from pathlib import Path

import ridgeformer as rf
from measure_tails import measure_tails
from ridgeformer.zoo import load


def test_tool_writes_the_measurement_into_the_file_and_keeps_the_weights(tmp_path: Path) -> None:
    model = load("diag-2-uniform-5")
    for name in ("a", "b"):
        model.save(tmp_path / f"{name}.safetensors")
    sequences = model.info["evaluation"]["sequences"] + 1 - 9_999_001  # a thousand: fewer than the file has
    assert measure_tails(tmp_path, sequences) == 0
    rf.LinearTransformer(model.kind, model.dim, model.parameters, {**model.info, "evaluation": {}}).save(
        tmp_path / "b.safetensors"
    )
    assert measure_tails(tmp_path, sequences, seed=7) == 1
    measured = load(tmp_path / "b.safetensors")
    expected = rf.evaluate(model, rf.Task(noise="uniform:5"), sequences, seed=7)
    assert measured.flatten().tobytes() == model.flatten().tobytes()
    assert measured.info["training"] == model.info["training"]
    assert measured.info["evaluation"]["maximum"] == expected.maximum
    assert (measured.info["evaluation"]["sequences"], measured.info["evaluation"]["seed"]) == (sequences, 7)
    assert measure_tails(tmp_path, sequences, seed=7) == 0
