"""``ridgeformer zoo``: listing, JSON and building from runs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from running import complaint, read_json, succeeds

import ridgeformer as rf
from ridgeformer import zoo as shelf
from ridgeformer.cli.zoo import zoo
from ridgeformer.training.config import TrainConfig


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny finished runs."""
    folder = tmp_path_factory.mktemp("runs")
    for layers in (1, 2):
        config = TrainConfig(
            kind="diag", layers=layers, dim=3, examples=6, recipe="paper", steps=5, batch=4, sequences=100
        )
        rf.train(config, out=folder / f"diag-{layers}-uniform-5")
    return folder


@pytest.fixture
def two_models(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A zoo of those two in place of the package's own."""
    (tmp_path / "models").mkdir()
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    shelf.build_zoo(runs)
    yield tmp_path / "models"
    shelf.zoo_names.cache_clear()


def test_list_has_a_row_for_each_model_and_json_all_that_is_known(
    two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert zoo(json=tmp_path / "z.json") == 0
    text = capsys.readouterr().out
    assert "2 models." in text
    rows = read_json(tmp_path / "z.json")
    assert [row["name"] for row in rows] == ["diag-1-uniform-5", "diag-2-uniform-5"]
    for row in rows:
        assert row["name"] in text
        assert row["sha256"][:12] in text
        assert f"{row['evaluation']['adjusted_loss']:.4g}" in text
        assert row["training"]["steps"] == 5


def test_list_of_some_names_leaves_out_the_others(two_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo(("diag-2", "full")) == 0
    text = capsys.readouterr().out
    assert "diag-2-uniform-5" in text
    assert "diag-1-uniform-5" not in text
    assert "1 models." in text


def test_build_puts_the_models_of_runs_into_a_folder(runs: Path, tmp_path: Path) -> None:
    out = succeeds("zoo", "--build", runs, "--into", tmp_path)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {f"{run.name}.safetensors": (run / "model.safetensors").read_bytes() for run in runs.iterdir()}
    assert f"2 models, {sum(map(len, found.values())):,} bytes in all." in out


def test_build_from_a_folder_without_runs_is_one_sentence(tmp_path: Path) -> None:
    assert "There are no finished runs in" in complaint("zoo", "--build", tmp_path, "--into", tmp_path)


def test_list_of_the_packages_own_zoo_agrees_with_its_names(tmp_path: Path) -> None:
    out = succeeds("zoo", "--json", tmp_path / "z.json")
    assert [row["name"] for row in read_json(tmp_path / "z.json")] == list(shelf.zoo_names())
    assert f"{len(shelf.zoo_names())} models." in out
