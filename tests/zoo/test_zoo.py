"""The zoo: loading by name and path, building from runs, and the models that are shipped."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer import zoo
from ridgeformer.core.validation import InputError
from ridgeformer.reproduction.cells import Cell, beyond_cells, grid_cells
from ridgeformer.training.config import TrainConfig
from support import one_sentence

NAMES = ("diag-1-uniform-5", "diag-2-uniform-5")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny finished runs and one that was only begun."""
    folder = tmp_path_factory.mktemp("runs")
    for layers, name in enumerate(NAMES, 1):
        config = TrainConfig(
            kind="diag", layers=layers, dim=3, examples=6, recipe="paper", steps=5, batch=4, sequences=100
        )
        rf.train(config, out=folder / name)
    begun = folder / "diag-3-uniform-5"
    (begun / "checkpoints").mkdir(parents=True)
    (begun / "config.json").write_text("{}")
    return folder


@pytest.fixture
def small_zoo(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A zoo of those two in place of the package's own."""
    (tmp_path / "shelf" / "models").mkdir(parents=True)
    monkeypatch.setattr(resources, "files", lambda package: tmp_path / "shelf")
    zoo.build_zoo(runs)
    yield tmp_path / "shelf" / "models"
    zoo.zoo_names.cache_clear()


# --- building ---------------------------------------------------------------------------------------------------------


def test_build_copies_finished_runs_byte_for_byte_and_says_their_sizes(runs: Path, tmp_path: Path) -> None:
    sizes = zoo.build_zoo(runs, tmp_path)
    assert sorted(sizes) == list(NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.safetensors" for name in NAMES]
    for name in NAMES:
        data = (tmp_path / f"{name}.safetensors").read_bytes()
        assert data == (runs / name / "model.safetensors").read_bytes()
        assert sizes[name] == len(data)


def test_build_into_the_package_shows_at_once(small_zoo: Path) -> None:
    assert zoo.zoo_names() == NAMES


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_build_refuses_a_model_that_is_cut_off(runs: Path, tmp_path: Path, length: int) -> None:
    bad = tmp_path / "runs" / "diag-1-uniform-5" / "model.safetensors"
    bad.parent.mkdir(parents=True)
    bad.write_bytes((runs / "diag-1-uniform-5" / "model.safetensors").read_bytes()[:length])
    (bad.parent / "result.json").write_text('{"status": "finished"}')
    (tmp_path / "into").mkdir()
    with pytest.raises(InputError) as caught:
        zoo.build_zoo(tmp_path / "runs", tmp_path / "into")
    assert str(bad) in one_sentence(caught.value)
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("result", [None, '{"status": "diverged"}'])
def test_build_leaves_out_runs_without_a_result_and_diverged_ones(
    runs: Path, tmp_path: Path, result: str | None
) -> None:
    """A run killed between its last two files has a model but no result; one that diverged has both."""
    for name in NAMES:
        (tmp_path / "runs" / name).mkdir(parents=True)
        for file in ("model.safetensors", "result.json"):
            (tmp_path / "runs" / name / file).write_bytes((runs / name / file).read_bytes())
    last = tmp_path / "runs" / NAMES[1] / "result.json"
    last.unlink() if result is None else last.write_text(result)
    (tmp_path / "into").mkdir()
    assert list(zoo.build_zoo(tmp_path / "runs", tmp_path / "into")) == [NAMES[0]]


@pytest.mark.parametrize("folder", ["empty", "nowhere"])
def test_build_from_nothing_is_one_sentence(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="There are no finished runs") as caught:
        zoo.build_zoo(tmp_path / folder, tmp_path)
    one_sentence(caught.value)


def test_build_into_a_folder_that_is_not_there_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot write") as caught:
        zoo.build_zoo(runs, tmp_path / "nowhere")
    one_sentence(caught.value)


# --- loading ----------------------------------------------------------------------------------------------------------


def test_load_by_name_gives_what_loading_the_file_gives(small_zoo: Path, runs: Path) -> None:
    for name in NAMES:
        by_name, by_path = rf.load(name), rf.load(runs / name / "model.safetensors")
        assert by_name.info == by_path.info == rf.load(str(runs / name / "model.safetensors")).info
        assert np.array_equal(by_name.flatten(), by_path.flatten())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("diag-1-uniform-6", "Did you mean 'diag-1-uniform-5'?"),
        ("diag2-uniform-5", "Did you mean 'diag-2-uniform-5'?"),
        ("something else", "'ridgeformer zoo' lists what there is."),
    ],
)
def test_load_of_an_unknown_name_suggests_the_nearest(
    small_zoo: Path, name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        rf.load(name)
    assert one_sentence(caught.value).endswith(hint)


def test_load_prefers_a_file_over_a_name_of_the_zoo(
    small_zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rf.load(NAMES[0]).layers == 1
    rf.LinearTransformer.init("gdpp", layers=5, dim=2, scale=0.1).save(Path(NAMES[0]))
    assert rf.load(NAMES[0]).layers == 5


@pytest.mark.parametrize("source", ["a/diag-1-uniform-5", "diag-1-uniform-5.safetensors", Path("diag-1-uniform-5")])
def test_load_of_what_looks_like_a_path_does_not_look_into_the_zoo(
    small_zoo: Path, source: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="There is no model file") as caught:
        rf.load(source)
    one_sentence(caught.value)


@pytest.mark.parametrize("source", [None, 7, b"diag-1-uniform-5"])
def test_load_of_neither_text_nor_path_is_one_sentence(source: object) -> None:
    with pytest.raises(InputError, match="loaded from a file or by its name"):
        rf.load(source)  # type: ignore[arg-type]


def test_entries_have_the_digest_of_the_file_and_its_metadata(small_zoo: Path, runs: Path) -> None:
    entries = zoo.zoo_entries()
    assert [entry.name for entry in entries] == list(NAMES)
    for entry in entries:
        data = (small_zoo / f"{entry.name}.safetensors").read_bytes()
        assert entry.sha256 == hashlib.sha256(data).hexdigest()
        assert entry.evaluation == json.loads((runs / entry.name / "result.json").read_text())["evaluation"]
        assert TrainConfig.from_json(entry.training) == TrainConfig.from_file(runs / entry.name / "config.json")


# --- the models that are shipped --------------------------------------------------------------------------------------

SHIPPED = zoo.zoo_names()
FRESH = 20_000  # sequences: their error then dwarfs that of the million in the file, and 12 models take a few seconds


def sample_of(names: tuple[str, ...], count: int = 12) -> list[str]:
    """The same models in every run, as long as the zoo has the same names."""
    chosen = np.random.default_rng(2024).choice(len(names), min(count, len(names)), replace=False)
    return [names[number] for number in sorted(chosen)]


def all_cells() -> dict[str, Cell]:
    return {cell.name: cell for cell in (*grid_cells(), *beyond_cells())}


def test_zoo_has_every_model_of_the_grid_and_beyond_it_and_no_other() -> None:
    assert set(SHIPPED) == set(all_cells())


def test_every_shipped_model_is_the_one_its_name_says() -> None:
    cells = all_cells()
    for name in SHIPPED:
        model, cell = rf.load(name), cells[name]
        assert (model.kind, model.layers, model.heads, model.dim) == (cell.model, cell.layers, cell.heads, 10)
        assert model.info["task"] == {"dim": 10, "context": 20, "noise": cell.noise}
        assert model.info["training"]["seed"] == cell.seed
        assert math.isfinite(model.info["evaluation"]["adjusted_loss"])


def texts_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_in(key)
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)
    elif isinstance(value, str):
        yield value


def is_path(text: str) -> bool:
    """Whether it could be where a file was on someone's machine: no name or noise prior has a slash."""
    return "/" in text or "\\" in text


def test_no_shipped_metadata_contains_a_path() -> None:
    for name in SHIPPED:
        assert not [text for text in texts_in(dict(rf.load(name).info)) if is_path(text)], name


def test_path_in_metadata_would_be_found() -> None:
    info = {"training": {"start": "/home/me/model.safetensors", "noise": "categorical:1+3"}, "steps": [1, "C:\\runs"]}
    assert [text for text in texts_in(info) if is_path(text)] == ["/home/me/model.safetensors", "C:\\runs"]


@pytest.mark.parametrize("name", sample_of(SHIPPED))
def test_shipped_model_has_the_loss_that_its_file_says(name: str) -> None:
    model = rf.load(name)
    told = model.info["evaluation"]
    found = rf.evaluate(model, rf.Task(noise=model.info["task"]["noise"]), FRESH, seed=99)
    apart = abs(found.adjusted_loss - told["adjusted_loss"])
    assert apart <= 4 * math.hypot(found.standard_error, told["standard_error"])
