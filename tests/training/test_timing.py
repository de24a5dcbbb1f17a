"""timing.jsonl: how long training took, over interruptions, apart from the files that are the same every time."""

from __future__ import annotations

from pathlib import Path

import pytest

import ridgeformer as rf
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.steps import StepInfo
from ridgeformer.training.train import TrainingInterruptedError

CONFIG = rf.TrainConfig(kind="diag", layers=1, dim=3, examples=6, recipe="paper", steps=400, batch=8, sequences=100)


def test_every_row_of_the_history_has_a_time_and_times_grow(tmp_path: Path) -> None:
    rf.train(CONFIG, out=tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    seconds = directory.read_seconds()
    assert list(seconds) == [row["total"] for row in directory.read_history()] == [100, 200, 300, 400]
    times = list(seconds.values())
    assert times == sorted(times)
    assert times[0] >= 0


def test_a_resumed_run_counts_on_from_where_it_was(tmp_path: Path) -> None:
    def stop(info: StepInfo) -> None:
        if info.total == 250:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterruptedError):
        rf.train(CONFIG, out=tmp_path / "run", callbacks=[stop])
    directory = RunDirectory(tmp_path / "run")
    file = directory.timing
    file.write_text(file.read_text().replace('"total": 200, "seconds": ', '"total": 200, "seconds": 1000'))
    rf.train(CONFIG, out=tmp_path / "run", resume=True)
    seconds = directory.read_seconds()
    assert seconds[100] < 1000 <= seconds[200] <= seconds[300] <= seconds[400]


def test_a_torn_line_is_left_out_and_a_missing_file_is_no_times(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.read_seconds() == {}
    directory.timing.write_text('{"total": 1, "seconds": 2.5}\n[]\n{"total": 2, "sec')
    assert directory.read_seconds() == {1: 2.5}


def test_overwriting_a_run_forgets_its_times(tmp_path: Path) -> None:
    rf.train(CONFIG, out=tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    directory.timing.write_text('{"total": 77, "seconds": 1.0}\n')
    rf.train(CONFIG, out=tmp_path / "run", overwrite=True)
    assert 77 not in directory.read_seconds()
