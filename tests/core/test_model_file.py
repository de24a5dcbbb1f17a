"""Model files: what is saved is what is loaded, saves are whole or absent, and what cannot be loaded is not saved."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import ridgeformer as rf
from ridgeformer.core import model_file
from support import DTYPES, KINDS, VARIANTS, kind_and_registers, refusal, refused


def named(kind: str, info: Any = None, dtype: Any = np.float32, heads: int = 2) -> rf.LinearTransformer:
    kind, registers = kind_and_registers(kind)
    model = rf.LinearTransformer.init(kind, layers=3, heads=heads, dim=4, registers=registers, dtype=dtype)
    return dataclasses.replace(model, info={} if info is None else info)


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [1, 3])
def test_load_of_a_saved_model_gives_it_back(tmp_path: Path, kind: str, dtype: Any, heads: int) -> None:
    info = {"task": {"noise": "uniform:5"}, "steps": 20_000, "loss": 0.0448, "name": "σ ≤ 5 \ud800", "none": None}
    model = named(kind, info, dtype, heads)
    model.save(tmp_path / "model.safetensors")
    loaded = rf.load(tmp_path / "model.safetensors")
    assert (loaded.kind, loaded.registers) == kind_and_registers(kind)
    assert (loaded.dim, loaded.layers, loaded.heads) == (4, 3, heads)
    assert loaded.dtype == np.dtype(dtype)
    assert loaded.info == info
    for name, array in model.parameters.items():
        assert np.array_equal(loaded.parameters[name], array)
        assert not loaded.parameters[name].flags.writeable


def test_load_and_save_take_strings_and_paths(tmp_path: Path) -> None:
    model = named("diag")
    model.save(str(tmp_path / "a"))
    model.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert np.array_equal(rf.load(str(tmp_path / "a")).flatten(), rf.load(tmp_path / "b").flatten())


def test_extreme_but_finite_weights_survive_the_round_trip(tmp_path: Path) -> None:
    tiny, huge = np.finfo(np.float64).smallest_subnormal, np.finfo(np.float64).max
    model = rf.LinearTransformer("diag", 1, {"p": np.array([[[tiny, -huge]]]), "q": np.array([[[-0.0, 1 / 3]]])})
    model.save(tmp_path / "m")
    assert rf.load(tmp_path / "m").flatten().tobytes() == model.flatten().tobytes()


def test_saved_file_is_plain_safetensors_with_json_metadata(tmp_path: Path) -> None:
    """Anyone can read it without this package: the kind's own tensors, and one JSON string."""
    model = named("diag", {"seed": 1})
    model.save(tmp_path / "m")
    tensors = safetensors.numpy.load_file(tmp_path / "m")
    assert set(tensors) == {"p", "q"}
    data = (tmp_path / "m").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = json.loads(header["__metadata__"]["ridgeformer"])
    assert (metadata["format"], metadata["kind"], metadata["dim"], metadata["info"]) == (2, "diag", 4, {"seed": 1})
    assert set(metadata["versions"]) == {"ridgeformer", "numpy", "python"}


def test_save_leaves_nothing_but_the_file(tmp_path: Path) -> None:
    named("full").save(tmp_path / "m")
    named("full").save(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_save_of_weights_that_are_not_finite_is_refused_and_keeps_the_old_file(
    tmp_path: Path, kind: str, bad: float
) -> None:
    model = named(kind)
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    vector = model.flatten().copy()
    vector[-1] = bad
    with refusal("NaN or infinite"):
        model.unflatten(vector).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    with pytest.raises(rf.InputError):
        model.unflatten(vector).save(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [np.nan, np.inf, {1, 2}, object(), np.ones(2), b"bytes", {(1, 2): 3}, nested(10**5)])
def test_save_of_info_that_is_not_json_is_refused(tmp_path: Path, value: Any) -> None:
    with refusal("info"):
        named("diag", {"a": value}).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_save_of_what_is_too_large_to_be_loaded_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusal("info is larger"):
        named("diag", {"log": "x" * model_file.MAX_HEADER_BYTES}).save(tmp_path / "m")
    monkeypatch.setattr(model_file, "MAX_FILE_BYTES", 1000)
    with refusal("model is larger"):
        named("full").save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_save_on_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    old = named("diag", {"which": "old"})
    old.save(tmp_path / "m")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, function, full)
        with refusal(re.escape(f"{tmp_path / 'm'}: {os.strerror(errno.ENOSPC)}")):
            named("diag", {"which": "new"}).save(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert rf.load(tmp_path / "m").info == {"which": "old"}


@pytest.mark.parametrize("name", ["missing/m", "a\0b", "folder"])
def test_save_to_an_impossible_path_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with refusal("Cannot write"):
        named("diag").save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_single_flipped_bit_gives_another_model(tmp_path: Path, kind: str) -> None:
    """Every bit of the file in turn: it is refused with a sentence, or the model is the same to the last bit."""
    model = rf.LinearTransformer.init(kind, layers=1, dim=1)
    model.save(tmp_path / "m")
    data, complaints = (tmp_path / "m").read_bytes(), 0
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytes([*data[:place], data[place] ^ 1 << bit, *data[place + 1 :]])
            try:
                loaded = model_file.read_model(damaged, "m")
            except rf.InputError:
                complaints += 1
                continue
            assert (loaded.kind, loaded.info) == (kind, {})
            assert loaded.flatten().tobytes() == model.flatten().tobytes()
    assert complaints > 7 * len(data)


def test_file_without_a_digest_of_the_time_before_still_loads() -> None:
    """From one that says it has a digest, the digest may not be taken away."""
    data = (Path(__file__).parents[1] / "data" / "model-format-1.safetensors").read_bytes()
    assert b'"sha256' not in data
    assert model_file.read_model(data, "m").kind == "diag"
    newer = data.replace(rb"\"format\": 1", rb"\"format\": 2")
    assert newer != data
    refused("does not match its digest", model_file.read_model, newer, "m")
