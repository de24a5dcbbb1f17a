"""Checkpoints keep every bit of a state, and no damaged or foreign one is taken for a state of the run."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import plans
from plans import CONFIGS, TINY, short_run, train_until, without_digests
from ridgeformer.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from support import refused


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoint_gives_back_every_bit_of_the_state(tmp_path: Path, name: str) -> None:
    def parts(value: object) -> dict[str, object]:
        if is_dataclass(value):
            return {f"{f.name}.{k}": v for f in fields(value) for k, v in parts(getattr(value, f.name)).items()}
        if isinstance(value, tuple):
            return {f"{i}.{k}": v for i, item in enumerate(value) for k, v in parts(item).items()}
        return {"": value}

    run = short_run(CONFIGS[name])
    state, names = run.start(), set()
    while not run.finished(state):
        checkpoint = Checkpoint(state, 17, "a digest", run.config.as_json())
        save_checkpoint(checkpoint, tmp_path / "one.safetensors")
        again = load_checkpoint(tmp_path / "one.safetensors", run)
        assert again[1:] == checkpoint[1:]
        before, after = parts(state), parts(again.state)
        assert before.keys() == after.keys()
        for field, value in before.items():
            np.testing.assert_array_equal(after[field], value, err_msg=field)  # NaN equals NaN here
            assert np.asarray(after[field]).dtype == np.asarray(value).dtype
        names |= set(before)
        state, _ = run.step(state)
    assert ("curvature.steps." in names) == (name not in ("Adam", "natural", "contest"))
    assert ("curvature.matrix." in names) == (name == "natural")
    assert any(field.startswith("memory.") for field in names - {"memory."}) == (name in ("Adam", "natural"))
    assert ("finalists.1.1." in names) == (name == "contest")


def test_every_single_bit_flipped_in_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    train_until(12, TINY, tmp_path / "run")
    (whole,) = (tmp_path / "run" / "checkpoints").iterdir()
    data, path = whole.read_bytes(), tmp_path / "flipped.safetensors"
    assert load_checkpoint(whole, TINY).state.total == 12
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        refused("damaged", load_checkpoint, path, TINY)


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoint_with_a_tensor_of_another_shape_precision_or_name_does_not_fit_the_run(
    tmp_path: Path, name: str
) -> None:
    run, path = short_run(CONFIGS[name]), tmp_path / "one.safetensors"
    state, _ = plans.trail_of(run)[25]
    save_checkpoint(Checkpoint(state, 0, None, None), path)
    without_digests(path)
    with safetensors.safe_open(path, "numpy") as file:
        metadata = file.metadata()
    tensors = safetensors.numpy.load_file(path)
    load_checkpoint(path, run)
    for tensor, array in tensors.items():
        rest = {other: tensors[other] for other in tensors if other != tensor}
        shorter, coarser = {tensor: array[..., :-1].copy()}, {tensor: np.clip(array, -1, 1).astype("float16")}
        for spoiled in ({}, shorter, coarser, {tensor: array, "x": array}):
            path.write_bytes(safetensors.numpy.save(rest | spoiled, metadata))
            refused("damaged", load_checkpoint, path, run)


@pytest.mark.parametrize(("tensor", "value"), [("vector", 1e200), ("adam_mean", np.nan), ("adam_square", -1.0)])
def test_checkpoint_with_numbers_that_no_run_has_does_not_fit_the_run(
    tmp_path: Path, tensor: str, value: float
) -> None:
    train_until(12, TINY, tmp_path / "run")
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    without_digests(path)
    with safetensors.safe_open(path, "numpy") as file:
        metadata = file.metadata()
    tensors = safetensors.numpy.load_file(path)
    load_checkpoint(path, TINY)
    path.write_bytes(safetensors.numpy.save(tensors | {tensor: np.full_like(tensors[tensor], value)}, metadata))
    refused("damaged", load_checkpoint, path, TINY)
