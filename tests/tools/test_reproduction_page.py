"""The measured parts of the reproduction's page: times, cells that are worse than printed, and the texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import reproduction_page as page
from made_up_results import write_results
from reproduction_page import read_times
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.claims import Claim, ClaimsRecord
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.table1 import Entry, Table1


def note_times(folder: Path, cell: Cell, started: float, finished: float, busy: float) -> None:
    """As a sweep leaves them: a row when a cell is begun, one when it is finished."""
    (folder / cell.name).mkdir(parents=True, exist_ok=True)
    with (folder / cell.name / "attempts.jsonl").open("a") as file:
        for row in ({"started": started, "from_step": 0}, {"started": started, "finished": finished, "busy": busy}):
            file.write(json.dumps(row) + "\n")


def entry(
    method: str, layers: int | None, noise: str, loss: float, heads: int = 1, error: float = 1e-4, registers: int = 0
) -> Entry:
    printed = printed_loss(method, layers, noise) if (heads, registers) == (1, 0) else None
    tail, ratio = (loss / 2, 3 * loss, 9 * loss, 0), loss / 0.039
    return Entry(method, layers, noise, loss, error, *tail, printed, ratio, heads, registers=registers)


def test_texts_have_what_is_worse_and_the_best_beyond() -> None:
    table = Table1(
        (
            entry("full", 7, "uniform:5", 0.0414),
            entry("diag", 7, "uniform:5", 1.0),
            entry("full", 12, "uniform:5", 0.0399),
            entry("full", 7, "uniform:5", 0.0405, heads=2),
            entry("bayes", None, "uniform:5", 0.039),
        ),
        sequences=1000,
        seed=1,
    )
    assert page.worse(table).splitlines()[2:] == [
        "| DIAG 7 | U5 | 0.047 ± 0 | 1 ± 0.0001 | +9525.0 | 9 | worse |",
    ]
    assert page.worse(Table1(table.entries[2:], 1000, 1)) == "None."
    text = page.beyond(table)
    assert "* U5: FULL 12, 0.0399 (1.023×), largest loss 0.359." in text
    assert "| FULL 7 × 2 heads | 0.0405 (1.038×) |" in text


def test_registers_have_tables_by_their_number_and_by_prior() -> None:
    plain = (
        entry("diag", 4, "uniform:5", 0.0598),
        entry("full", 4, "uniform:5", 0.0564),
        entry("full", 12, "uniform:5", 0.0402),
        entry("bayes", None, "uniform:5", 0.039),
        entry("bayes", None, "uniform:0", 0.0),
    )
    wide = (
        entry("diag", 4, "uniform:5", 0.055, registers=1),
        entry("diag", 4, "uniform:5", 0.05, registers=2),
        entry("diag", 12, "uniform:5", 0.04, registers=2),
        entry("diag", 4, "uniform:0", 1.5e-4, registers=2),
    )
    assert page.registers(Table1(plain, 1000, 1)) == "None was measured."
    assert page.registers(Table1((*plain, *wide), 1000, 1)).splitlines() == [
        "U5:",
        "",
        "| layers | DIAG | r = 1 | r = 2 | FULL | Bayes limit |",
        "| --- | --- | --- | --- | --- | --- |",
        "| 4 | 0.0598 | 0.0550 | 0.0500 | 0.0564 | 0.0390 |",
        "| 12 |  |  | 0.0400 | 0.0402 | 0.0390 |",
        "",
        "Two registers, all priors:",
        "",
        "| layers | U0 | U5 |",
        "| --- | --- | --- |",
        "| 4 | 1.50e-04 | 0.0500 |",
        "| 12 |  | 0.0400 |",
        "| Bayes limit | 0 | 0.0390 |",
        "| best ÷ limit |  | 1.026× |",
    ]
    # Deeper models and heads are another block.
    assert page.beyond(Table1((*plain, *wide), 1000, 1)) == page.beyond(Table1(plain, 1000, 1))


def test_blocks_of_a_results_folder_are_all_that_the_page_has(tmp_path: Path) -> None:
    write_results(tmp_path)
    claims = ClaimsRecord((Claim("It works.", "confirmed", "1 of 1."),))
    (tmp_path / "claims.json").write_text(json.dumps(claims.as_json()))
    table = Table1((entry("diag", 4, "uniform:5", 0.0598), entry("bayes", None, "uniform:5", 0.039)), 1000, 1)
    (tmp_path / "table1.json").write_text(json.dumps(table.as_json()))
    blocks = page.reproduction_blocks(tmp_path)
    assert set(blocks) == {
        "table 1",
        "worse",
        "beyond",
        "registers",
        "claims",
    }  # no runs, so the times stay as they are
    assert "| DIAG 4 | **0.0598** (0.059) |" in blocks["table 1"]
    assert blocks["table 1"].startswith("1 models against the paper's numbers: 0 better, 0 same, ")
    assert "| DIAG 4 | U5 | 0.059 ± " in blocks["worse"]
    assert "| It works. | confirmed | 1 of 1. |" in blocks["claims"]
    (tmp_path / "runs").mkdir()
    note_times(tmp_path / "runs", Cell("gdpp", 1, "uniform:5"), 0.0, 60.0, 30.0)
    times = {name: text for name, text in page.reproduction_blocks(tmp_path).items() if name not in blocks}
    assert set(times) == {"time of the grid"}
    assert times["time of the grid"].startswith("1 models of the paper's grid took 1 minutes on ")
    assert "The workers had 50% of a core each" in times["time of the grid"]


# --- times ------------------------------------------------------------------------------------------------------------

FIRST, SECOND, THIRD = (Cell(kind, 1, "uniform:5") for kind in ("gdpp", "diag", "full"))


def test_wall_time_is_that_of_the_union_and_pauses_do_not_count(tmp_path: Path) -> None:
    note_times(tmp_path, FIRST, 100.0, 110.0, 5.0)
    note_times(tmp_path, SECOND, 104.0, 120.0, 10.0)
    note_times(tmp_path, THIRD, 1000.0, 1007.0, 7.0)
    found = read_times(tmp_path, (FIRST, SECOND, THIRD))
    assert found is not None
    assert (found.cells, found.wall_seconds, found.worker_seconds, found.core_seconds) == (3, 27.0, 33.0, 22.0)
    assert found.idle_seconds == pytest.approx(18.0)
    assert found.by_kind == {"gdpp": 5.0, "diag": 10.0, "full": 7.0}
    assert found.slowest == (SECOND.name, 10.0)


def test_a_cell_that_was_trained_again_counts_once_and_others_do_not(tmp_path: Path) -> None:
    note_times(tmp_path, FIRST, 0.0, 50.0, 40.0)
    note_times(tmp_path, FIRST, 60.0, 65.0, 4.0)
    note_times(tmp_path, SECOND, 0.0, 9.0, 9.0)
    found = read_times(tmp_path, [FIRST])
    assert found is not None
    assert (found.cells, found.core_seconds) == (1, 4.0)


def test_a_torn_line_is_left_out_and_nothing_is_none(tmp_path: Path) -> None:
    assert read_times(tmp_path, [FIRST]) is None
    note_times(tmp_path, FIRST, 0.0, 1.0, 1.0)
    with (tmp_path / FIRST.name / "attempts.jsonl").open("a") as file:
        file.write('{"started": 1')
    found = read_times(tmp_path, [FIRST, SECOND])
    assert found is not None
    assert found.cells == 1
