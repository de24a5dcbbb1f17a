"""Writing the measured parts of our pages: markers, and each page from the files that commands leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
import write_docs
from made_up_results import made_up_baselines
from ridgeformer.bench import BenchConfig, BenchReport, Row, Target
from ridgeformer.evaluation import Evaluation
from ridgeformer.reproduction.training_targets import Trial, TrialsRecord
from support import refused
from write_docs import main, replace_block

DOCS = Path(write_docs.__file__).parents[1] / "docs"


def test_replace_block_leaves_the_rest_alone_and_can_be_repeated(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before = "# Τitle\n\nσ, two\nlines\n"
    after = "\n\n<!-- begin other -->kept<!-- end other -->\n\nEnd without newline"
    page.write_text(f"{before}<!-- begin a table -->\nold\n<!-- end a table -->{after}", encoding="utf-8")
    for text in ("| new |", "| newer |"):
        replace_block(page, "a table", text)
        assert (
            page.read_text(encoding="utf-8")
            == f"{before}<!-- begin a table -->\n\n{text}\n\n<!-- end a table -->{after}"
        )


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("", "has no place for a table"),
        ("<!-- begin t -->", "has no place for a table"),
        ("<!-- end t --> <!-- begin t -->", "has no place for a table"),
        ("<!-- begin u --><!-- end u -->", "has no place for a table"),
        (None, "Cannot read .*: No such file"),
    ],
)
def test_replace_block_without_a_page_or_its_markers_is_one_sentence_and_changes_nothing(
    tmp_path: Path, content: str | None, hint: str
) -> None:
    page = tmp_path / "page.md"
    if content is not None:
        page.write_text(content)
    refused(hint, replace_block, page, "t", "text")
    assert [path.read_text() for path in tmp_path.iterdir()] == ([] if content is None else [content])


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("training.md", ["time to target", "seeds", "ablations"]),
        ("evaluation.md", ["baseline cells", "Bayes limits"]),
        ("reliability.md", ["attacks"]),
        (
            "reproduction.md",
            [
                *("table 1", "time of the grid", "time beyond the paper", "time with registers"),
                *("beyond", "registers", "worse", "protocol", "tails", "claims"),
            ],
        ),
    ],
)
def test_pages_of_this_project_have_the_markers(name: str, blocks: list[str]) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    for block in blocks:
        assert 0 <= text.find(f"<!-- begin {block} -->") < text.find(f"<!-- end {block} -->")


def copied(name: str, folder: Path) -> Path:
    page = folder / name
    page.write_bytes((DOCS / name).read_bytes())
    return page


def outside(text: str, *blocks: str) -> list[str]:
    """A page without its blocks."""
    parts = []
    for block in blocks:
        before, _, rest = text.partition(f"<!-- begin {block} -->")
        text = rest.partition(f"<!-- end {block} -->")[2]
        parts.append(before)
    return [*parts, text]


def written(record: Any, path: Path) -> Path:
    path.write_text(json.dumps(record.as_json()), encoding="utf-8")
    return path


def test_training_page_gets_what_was_measured_and_nothing_else(tmp_path: Path) -> None:
    page, blocks = copied("training.md", tmp_path), ("time to target", "ablations")
    original = page.read_text(encoding="utf-8")
    losses = np.array([0.05, 0.05])
    trials = [
        Trial("recipe", "diag", 4, "uniform:5", 2, Evaluation.of(k * losses, losses), 10.0, 0.06, 60.0) for k in (1, 2)
    ]
    record = TrialsRecord({"cpu": "Xeon", "cores": 2}, 0.1, tuple(trials), ())
    assert main(["training", str(written(record, tmp_path / "t.json")), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "Measured on 2 cores of Xeon, of which other processes used 10% meanwhile." in text
    rows = [line for line in text.splitlines() if line.startswith("| diag, 4 layers, uniform:5 | 2 | ")]
    assert [row.split(" | ")[-2] for row in rows] == ["yes", "no"]
    assert outside(text, *blocks) == outside(original, *blocks)
    assert text.partition("<!-- begin ablations -->")[2] == original.partition("<!-- begin ablations -->")[2]
    record = TrialsRecord({"cpu": "Xeon", "cores": 2}, None, (), tuple(trials[:1]))
    assert main(["training", str(written(record, tmp_path / "t.json")), "--page", str(page)]) == 0
    assert "Measured on 2 cores of Xeon.\n\n| model | what |" in page.read_text(encoding="utf-8")


def test_evaluation_page_gets_both_tables(tmp_path: Path) -> None:
    page, blocks = copied("evaluation.md", tmp_path), ("baseline cells", "Bayes limits")
    original = page.read_text(encoding="utf-8")
    assert main(["evaluation", str(written(made_up_baselines(), tmp_path / "b.json")), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "On 1,000 sequences:\n\n| baseline |" in text
    assert "On 500 sequences:\n\n| σ | Bayes limit |" in text
    assert "| AdaRR | uniform:7 | 0.068 | 0.08010 | 0.00010 | 0.0010 | no |" in text
    assert outside(text, *blocks) == outside(original, *blocks)


def test_file_that_is_no_record_is_one_sentence_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.json").write_text('{"record": "trials"}')
    assert main(["evaluation", str(tmp_path / "b.json")]) == 2
    assert capsys.readouterr().err == f"write_docs: {tmp_path / 'b.json'}: this is not a record of baselines.\n"


def test_page_of_performance_has_a_well_formed_table_per_section(tmp_path: Path) -> None:
    rows = (
        Row("step", "JAX, tokens", 46.53, target=Target(10, aim=20), seconds=0.0845, note="a | b"),
        Row("growth", "d = 5", 1.0, group="features", seconds=0.0003),
        Row("growth", "d = 10", 2.7, group="features", seconds=0.0009),
    )
    report = BenchReport(BenchConfig(quick=True, only=("step", "growth")), {"cpu": "Some CPU"}, rows, seconds=12.3)
    file, page = tmp_path / "bench.json", tmp_path / "page.md"
    file.write_text(json.dumps(report.as_json()), encoding="utf-8")
    assert BenchReport.from_json(json.loads(file.read_text(encoding="utf-8"))) == report
    assert main(["performance", str(file), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "quick run" in text
    assert "1 of 1 targets met in 12 s." in text
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert [len(table) for table in tables] == [3, 4]
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    file.write_text("{}")
    assert main(["performance", str(file), "--page", str(page)]) == 2
    assert page.read_text(encoding="utf-8") == text


def test_reliability_page_gets_a_row_for_each_attack(tmp_path: Path) -> None:
    page, file = copied("reliability.md", tmp_path), tmp_path / "faults.json"
    original = page.read_text(encoding="utf-8")
    attack = {
        "name": "SIGKILLs",
        "cases": {"at the start": 900, "later": 334},
        "findings": {"hangs": 0, "leftovers": 2},
    }
    record = {"seed": 5, "python": "3.11.7", "cores": 2, "seconds": 90, "unfinished": 0, "attacks": [attack]}
    file.write_text(json.dumps(record), encoding="utf-8")
    assert main(["reliability", str(file), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "Seed 5, 2 cores, 1.5 minutes, Python 3.11.7." in text
    assert "| SIGKILLs | 1,234 | 900 at the start, 334 later | 0 | 2 |" in text
    assert outside(text, "attacks") == outside(original, "attacks")
    for wrong in ("{}", "[", '{"attacks": []}'):
        file.write_text(wrong)
        assert main(["reliability", str(file), "--page", str(page)]) == 2
    assert page.read_text(encoding="utf-8") == text


def test_page_of_seeds_says_how_far_each_depth_is_from_the_best_known_and_keeps_other_rows(tmp_path: Path) -> None:
    for seed in (101, 102):
        config = rf.TrainConfig(kind="gdpp", layers=1, noise="uniform:5", seed=seed, sequences=2000)
        rf.train(config, out=tmp_path / f"runs/gdpp-{seed}")
    page = tmp_path / "page.md"
    kept = [f"| {cell} | 10 | 0.1 | 0.1 | 0.2 | 0.3% | 9 | 10 | 1.5 |" for cell in ("FULL | 1", "DIAG | 3", "DIAG | 2")]
    old = [f"| kind | layers |{' x |' * 8}", f"|{' --- |' * 10}", "| GD++ | 1 | old |", *kept]
    page.write_text("\n".join(["<!-- begin seeds -->", *old, "<!-- end seeds -->\n"]))
    assert main(["seeds", str(tmp_path / "runs"), "--page", str(page)]) == 0
    *_, row, third, second, first, _, _, _ = page.read_text().split("\n")
    assert [first, second, third] == kept
    cells = [cell.strip() for cell in row.strip("| ").split("|")]
    name, layers, count, best, lowest, highest, worst, *within, largest = cells
    both = [rf.load(tmp_path / f"runs/gdpp-{seed}/model.safetensors").info["evaluation"] for seed in (101, 102)]
    assert largest == f"{max(one['maximum'] for one in both):.3g}"
    assert (name, layers, count) == ("GD++", "1", "2")
    known = [rf.load(f"gdpp-1-uniform-5{end}").info["evaluation"]["adjusted_loss"] for end in ("", "-seed-3")]
    assert float(best) <= min(float(lowest), *known) + 1e-5
    assert float(lowest) <= float(highest)
    assert float(worst.rstrip("%")) == pytest.approx(100 * (float(highest) / float(best) - 1), abs=0.06)
    assert int(within[0]) <= int(within[1]) <= 2
