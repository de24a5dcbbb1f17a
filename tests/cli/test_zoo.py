"""``ridgeformer zoo``: listing, JSON and building from runs."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

import ridgeformer as rf
from ridgeformer import zoo as shelf
from ridgeformer.training.config import TrainConfig
from running import Capture, Patch, read_json, refuses, succeeds


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny finished runs."""
    folder = tmp_path_factory.mktemp("runs")
    for layers in (1, 2):
        config = TrainConfig("diag", layers, dim=3, examples=6, recipe="paper", steps=5, batch=4, sequences=100)
        rf.train(config, out=folder / f"diag-{layers}-uniform-5")
    return folder


def test_list_has_a_row_for_each_model_and_json_all_that_is_known(tmp_path: Path, capsys: Capture) -> None:
    text = succeeds(capsys, "zoo", "--json", tmp_path / "z.json")
    rows = read_json(tmp_path / "z.json")
    assert [row["name"] for row in rows] == list(shelf.zoo_names())
    assert f"{len(rows)} models." in text
    for row in rows:
        assert row["name"] in text
        loss = row["evaluation"]["adjusted_loss"]
        assert ("∞" if loss is None else f"{loss:.4g}") in text
        assert row["sha256"][:12] not in text


def test_list_at_80_columns_has_whole_names_and_numbers_and_sha256_on_request(
    capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for flags in ((), ("--sha256",)):
        text = succeeds(capsys, "zoo", "diag-2", "full-7", *flags)
        assert "…" not in text
        assert all(len(line) <= 80 for line in text.splitlines())
        assert "diag-1" not in text
        for entry in shelf.zoo_entries():
            if "diag-2" in entry.name:
                assert f"{entry.evaluation['adjusted_loss']:.4g}" in text
                assert f"{entry.evaluation['sequences']:,}" in text
                assert (entry.sha256[:12] in text) == bool(flags)


def test_build_puts_the_models_of_runs_into_a_folder(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    out = succeeds(capsys, "zoo", "--build", runs, "--into", tmp_path / "new")
    built = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert built == {f"{run.name}.safetensors": (run / "model.safetensors").read_bytes() for run in runs.iterdir()}
    assert f"2 models, {sum(map(len, built.values())):,} bytes in all." in out


def test_build_without_a_folder_adds_to_the_package(
    runs: Path, tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    succeeds(capsys, "zoo", "--build", runs)
    assert "diag-2-uniform-5" in succeeds(capsys, "zoo")
    shelf.zoo_names.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("nonexistent",), "No model of the zoo has 'nonexistent' in its name"),
        (("--into", "somewhere"), "leave out --into"),
        (("--build", ".", "--into", "there"), "There are no finished runs in"),
        (("--build", ".", "diag-2"), "lists nothing"),
        (("--build", ".", "--json", "z.json"), "lists nothing"),
        (("--json", "nowhere/z.json"), "no folder"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], hint: str, capsys: Capture) -> None:
    refuses(capsys, hint, "zoo", *arguments)


def test_export_writes_the_chosen_models_with_a_card(tmp_path: Path, capsys: Capture) -> None:
    out = succeeds(capsys, "zoo", "diag-2-uniform-5", "--export", tmp_path / "hub")
    names = {path.name for path in (tmp_path / "hub").iterdir()}
    assert {"README.md", "config.json", "diag-2-uniform-5.safetensors"} <= names
    assert not any(name.startswith("full") for name in names)
    assert "config.json and README.md in" in out


def test_export_together_with_build_is_refused(tmp_path: Path, capsys: Capture) -> None:
    refuses(capsys, "--build lists nothing: leave out --export.", "zoo", "--build", tmp_path, "--export", tmp_path)
