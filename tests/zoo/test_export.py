"""The zoo as a folder for others: files, index and model card."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import ridgeformer as rf
from ridgeformer import zoo
from ridgeformer.zoo.export import export_zoo, model_card

CHOSEN = ("diag-2-uniform-5", "diag-4-uniform-5", "diag-4-uniform-5-seed-1", "full-7-categorical-1+3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export")
    (out / ".gitattributes").write_text("kept")
    written = export_zoo([entry for entry in zoo.zoo_entries() if entry.name in CHOSEN], out)
    assert written == sum(path.stat().st_size for path in out.iterdir()) - len("kept")
    return out


def test_export_has_every_model_as_it_is_and_leaves_other_files_alone(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.safetensors")} == set(CHOSEN)
    assert (folder / ".gitattributes").read_text() == "kept"
    for name in CHOSEN:
        model = rf.load(folder / f"{name}.safetensors")
        assert (model.flatten() == rf.load(name).flatten()).all()


def test_index_says_what_each_file_is_and_how_good(folder: Path) -> None:
    models = json.loads((folder / "config.json").read_text(encoding="utf-8"))["models"]
    for one in models:
        model, data = rf.load(one["name"]), (folder / one["file"]).read_bytes()
        assert one["sha256"] == hashlib.sha256(data).hexdigest()
        assert (one["kind"], one["layers"], one["dim"], one["examples"]) == (model.kind, model.layers, 10, 20)
        assert one["parameters"] == model.size
        assert one["adjusted_loss"] == model.info["evaluation"]["adjusted_loss"]


def test_card_has_metadata_measurements_limits_and_the_paper(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    fields = {name: json.loads(value) for name, _, value in (line.partition(": ") for line in head.splitlines())}
    assert fields["license"] == "apache-2.0"
    assert fields["library_name"] == "ridgeformer"
    results = fields["model-index"][0]["results"]
    measured = {one["metrics"][0]["name"]: one["metrics"][0]["value"] for one in results}
    # The best of each noise prior, never a further seed.
    assert set(measured) == {"diag-4-uniform-5", "full-7-categorical-1+3"}
    assert measured["diag-4-uniform-5"] == rf.load("diag-4-uniform-5").info["evaluation"]["adjusted_loss"]
    for part in (
        "## Training data",
        "## Limits",
        "arxiv.org/abs/2402.14180",
        "Apache-2.0",
        f"version {rf.__version__}",
    ):
        assert part in body
    assert all(f"| {name}.safetensors |" in body for name in CHOSEN)


def test_loss_that_is_not_finite_is_said_and_never_the_best() -> None:
    records = json.loads(json.dumps([_record("a", None), _record("b", 0.5)]))
    card = model_card(records)
    assert "| a.safetensors | 10 | 20 | 8 | not finite |" in card
    assert '"name": "b", "value": 0.5' in card
    assert '"name": "a", "value"' not in card


def _record(name: str, loss: float | None) -> dict[str, object]:
    sizes = {"layers": 2, "dim": 10, "examples": 20, "parameters": 8, "sequences": 1000, "noise": "uniform:5"}
    losses = {"adjusted_loss": loss, "standard_error": loss, "largest_loss": loss}
    return {"name": name, "file": f"{name}.safetensors", **sizes, **losses}
