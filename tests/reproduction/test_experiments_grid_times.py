"""How long a grid took: pauses, repetitions and torn lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from ridgeformer.reproduction.grid_times import note_times, read_times

from ridgeformer.core.validation import InputError
from ridgeformer.reproduction.cells import Cell

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
    with (tmp_path / "grid.jsonl").open("a") as file:
        file.write('{"cell": "diag-1-unif')
    found = read_times(tmp_path, [FIRST, SECOND])
    assert found is not None
    assert found.cells == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot write"):
        note_times(tmp_path / "missing", FIRST, 0.0, 1.0, 1.0)
