"""The zoo: loading by name and path, and the models that are shipped."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer import zoo
from ridgeformer.evaluation import trained_on
from ridgeformer.reproduction.cells import Cell, beyond_cells, grid_cells, register_cells
from ridgeformer.training.config import TrainConfig
from support import refused

NAMES = ("diag-1-uniform-5", "diag-2-uniform-5")


@pytest.fixture
def small_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A zoo of two models in place of the package's own, and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    shelf = tmp_path / "shelf" / "models"
    shelf.mkdir(parents=True)
    for name in NAMES:
        shutil.copy(zoo.zoo_folder() / f"{name}.safetensors", shelf)
    monkeypatch.setattr(resources, "files", lambda package: tmp_path / "shelf")
    zoo.zoo_names.cache_clear()
    yield shelf
    zoo.zoo_names.cache_clear()


# --- loading ----------------------------------------------------------------------------------------------------------


def test_load_by_name_gives_what_loading_the_file_gives(small_zoo: Path) -> None:
    for name in NAMES:
        by_name, by_path = rf.load(name), rf.load(small_zoo / f"{name}.safetensors")
        assert by_name.info == by_path.info == rf.load(str(small_zoo / f"{name}.safetensors")).info
        assert np.array_equal(by_name.flatten(), by_path.flatten())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("diag-1-uniform-6", "Did you mean 'diag-1-uniform-5'?"),
        ("diag2-uniform-5", "Did you mean 'diag-2-uniform-5'?"),
        ("something else", "'ridgeformer zoo' lists the names."),
    ],
)
def test_load_of_an_unknown_name_suggests_the_nearest(small_zoo: Path, name: str, hint: str) -> None:
    refused(re.escape(hint) + "$", rf.load, name)


@pytest.mark.usefixtures("small_zoo")
def test_load_prefers_a_file_over_a_name_of_the_zoo() -> None:
    assert rf.load(NAMES[0]).layers == 1
    rf.LinearTransformer.init("gdpp", layers=5, dim=2, scale=0.1).save(Path(NAMES[0]))
    assert rf.load(NAMES[0]).layers == 5


@pytest.mark.parametrize("source", ["a/diag-1-uniform-5", "diag-1-uniform-5.safetensors", Path("diag-1-uniform-5")])
def test_load_of_what_looks_like_a_path_does_not_look_into_the_zoo(small_zoo: Path, source: str | Path) -> None:
    refused(r"There is no (model )?file", rf.load, source)


@pytest.mark.parametrize("source", [None, 7, b"diag-1-uniform-5"])
def test_load_of_neither_text_nor_path_is_one_sentence(source: object) -> None:
    refused("loaded from a file or by its name", rf.load, source)


@pytest.mark.parametrize("source", ["a" * 5000, "null\0byte"])
def test_load_of_what_no_file_can_be_called_is_one_sentence(source: str) -> None:
    refused("no such model in the zoo", rf.load, source)


def test_entries_have_the_digest_of_the_file_and_its_metadata(small_zoo: Path) -> None:
    entries = zoo.zoo_entries()
    assert [entry.name for entry in entries] == list(NAMES)
    for entry in entries:
        data = (small_zoo / f"{entry.name}.safetensors").read_bytes()
        assert entry.sha256 == hashlib.sha256(data).hexdigest()
        assert entry.evaluation == rf.load(entry.name).info["evaluation"]
        assert TrainConfig.from_json(entry.training) == all_cells()[entry.name].config


# --- the models that are shipped --------------------------------------------------------------------------------------

SHIPPED = zoo.zoo_names()
FRESH = 20_000  # sequences: their error then dwarfs that of the file's, and 12 models take a few seconds


def sample_of(names: tuple[str, ...], count: int = 12) -> list[str]:
    """The same models in every run, as long as the zoo has the same names."""
    chosen = np.random.default_rng(2024).choice(len(names), min(count, len(names)), replace=False)
    return [names[number] for number in sorted(chosen)]


def all_cells() -> dict[str, Cell]:
    return {cell.name: cell for cell in (*grid_cells(), *beyond_cells(), *register_cells())}


ROBUST = "diag-7-registers-2-robust"
"""The one model that was trained on a mixture of tasks: docs/tasks.md."""


def test_zoo_has_every_model_of_the_grid_and_beyond_it_and_no_other() -> None:
    assert set(SHIPPED) == {*all_cells(), ROBUST}


def test_robust_model_is_finite_and_close_to_adarr_on_the_whole_battery_of_garg() -> None:
    """Losses at most 1.1 times those of AdaRR, where a model of the paper's task gives some that are not finite."""
    task = rf.Task()
    chosen = {"robust": rf.load(ROBUST), "plain": rf.load("full-7-uniform-5")}
    table = rf.shift_table(chosen, task, ["none", *rf.evaluation.garg_battery(task)], sequences=5000)
    for spec, cells in table.results.items():
        assert cells["robust"].diverged == 0, spec
        assert cells["robust"].loss < 1.1 * cells["AdaRR"].loss, spec
    assert not all(math.isfinite(cells["plain"].loss) for cells in table.results.values())


def test_robust_model_has_the_median_that_its_file_says_on_its_mixture() -> None:
    """Its mean is not finite: it fails on seven of ten million sequences of the mixture, as its file says too."""
    model = rf.load(ROBUST)
    fresh = rf.evaluate(model, trained_on(model), FRESH, seed=99)
    assert fresh.median == pytest.approx(model.info["evaluation"]["median"], rel=0.1)


def test_every_shipped_model_is_the_one_its_name_says() -> None:
    cells = all_cells()
    for name in cells:
        model, cell = rf.load(name), cells[name]
        assert (model.kind, model.layers, model.heads, model.dim) == (cell.kind, cell.layers, cell.heads, 10)
        assert model.registers == cell.registers
        assert model.info["task"] == {"dim": 10, "examples": 20, "noise": cell.noise}
        assert model.info["training"]["seed"] == cell.seed


def test_every_shipped_model_was_measured_on_many_sequences_and_only_the_robust_one_fails_on_some() -> None:
    records = {name: rf.load(name).info["evaluation"] for name in SHIPPED}
    assert min(record["sequences"] for record in records.values()) >= 1_000_000
    assert {name for name, record in records.items() if record["diverged"]} == {ROBUST}
    assert records[ROBUST]["maximum"] is None
    deep = {name for name in SHIPPED if int(name.split("-")[1]) >= 3 and name != ROBUST}
    three = {f"diag-3-uniform-{high}" for high in (4, 6, 7)} | {f"diag-3-uniform-5-seed-{seed}" for seed in (1, 2)}
    loud = {name for name in deep if records[name]["maximum"] > 100}
    assert loud == three | {"diag-4-registers-3-categorical-1+3", "full-7-heads-4-categorical-1+3+5"}


def test_no_model_is_worse_than_a_shallower_one_of_its_kind_and_prior() -> None:
    """By more than two standard errors of the difference, whose two samples may differ."""
    columns: dict[tuple[str, int, int, str], list[Mapping[str, float]]] = {}
    chosen = [cell for cell in all_cells().values() if cell.seed == 0]
    for cell in sorted(chosen, key=lambda cell: cell.layers):
        key = (cell.kind, cell.heads, cell.registers, cell.noise)
        columns.setdefault(key, []).append(rf.load(cell.name).info["evaluation"])
    assert sum(len(records) > 2 for records in columns.values()) > 40
    for key, records in columns.items():
        for deep, one in enumerate(records):
            for other in records[:deep]:
                error = math.hypot(one["standard_error"], other["standard_error"])
                assert one["adjusted_loss"] <= other["adjusted_loss"] + 2 * error, (*key, deep + 1)


def has_path(info: Mapping[str, Any]) -> bool:
    """Whether it could say where a file was on someone's machine: no name or noise prior has a slash."""
    text = json.dumps(dict(info), ensure_ascii=False)
    return "/" in text or "\\" in text


def test_no_shipped_metadata_contains_a_path() -> None:
    assert not [name for name in SHIPPED if has_path(rf.load(name).info)]
    assert has_path({"training": {"start": "/home/me/model.safetensors"}})  # the controls
    assert has_path({"steps": [1, "C:\\runs"]})


@pytest.mark.parametrize("name", sample_of(tuple(sorted(all_cells()))))
def test_shipped_model_has_the_loss_that_its_file_says(name: str) -> None:
    model = rf.load(name)
    recorded = model.info["evaluation"]
    fresh = rf.evaluate(model, rf.Task(noise=model.info["task"]["noise"]), FRESH, seed=99)
    difference = abs(fresh.adjusted_loss - recorded["adjusted_loss"])
    assert difference <= 4 * math.hypot(fresh.standard_error, recorded["standard_error"])
