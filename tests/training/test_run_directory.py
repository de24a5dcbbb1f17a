"""Run directories: what is refused and never touched, kills at any moment, damage, checkpoints that keep every bit."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from plans import (
    ADAM,
    POOLS,
    TINY,
    contents,
    fingerprint,
    short_run,
    tiny_run,
    train_short,
    train_until,
    without_digests,
)
from ridgeformer import InputError, LinearTransformer, TrainConfig
from ridgeformer.core.model_file import load_model
from ridgeformer.core.notation import Array
from ridgeformer.training import run_directory, train
from ridgeformer.training.run_directory import RunDirectory
from support import refused


class Cut(NamedTuple):
    """A run that was stopped after three of five stages."""

    folder: Path
    whole: dict[str, str]
    """Files of the run that was not stopped."""
    weights: Array
    """Its result."""

    def copy(self, to: Path) -> Path:
        """A copy of the folder, to be damaged."""
        return shutil.copytree(self.folder, to)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Cut:
    folder = tmp_path_factory.mktemp("cut")
    weights = train(TINY, out=folder / "whole").model.flatten()
    train_until(12, TINY, folder / "run", checkpoint_seconds=0.0)
    return Cut(folder / "run", fingerprint(folder / "whole"), weights)


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").iterdir())


def test_train_into_an_existing_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train_short(POOLS, folder)
    before = fingerprint(folder)
    refused("already holds a run", train_short, replace(POOLS, seed=1), folder)
    assert fingerprint(folder) == before
    train_short(replace(POOLS, seed=1), folder, overwrite=True)
    assert fingerprint(folder) != before


def test_second_process_on_a_run_directory_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with RunDirectory(folder).locked():
        code = (
            "import sys\nfrom ridgeformer import InputError\nfrom ridgeformer.training import TrainConfig, train\n"
            "try:\n    train(TrainConfig(), out=sys.argv[1])\n"
            "except InputError as refused:\n    sys.exit(str(refused))\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Another process is working on the run" in done.stderr


def test_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    refused("Cannot write", train_short, POOLS, tmp_path / "file" / "run")


def test_resume_where_no_run_is_says_so(tmp_path: Path) -> None:
    refused("holds no run", RunDirectory(tmp_path).config)


def test_resume_where_no_run_is_makes_no_folder(tmp_path: Path) -> None:
    refused("holds no run", train, TINY, out=tmp_path / "run", resume=True)
    assert not list(tmp_path.iterdir())


# --- foreign files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("config", [None, "", "{}", '{"seed": 3, "layers": 2}', '{"layers": 1', "[1]"])
def test_folder_with_foreign_files_is_refused_and_left_as_it_is(
    tmp_path: Path, config: str | None, overwrite: bool
) -> None:
    for name in ("model.safetensors", "result.json", "history.jsonl", "checkpoints/step-000000001.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("foreign")
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    before = contents(tmp_path)
    refused("is not empty", train, TINY, out=tmp_path, overwrite=overwrite)
    assert contents(tmp_path) == before


def test_overwrite_leaves_foreign_files_beside_a_run_alone(tmp_path: Path, cut: Cut) -> None:
    folder = cut.copy(tmp_path / "run")
    mine = ["notes.txt", "model.json", "big.part", ".notes.txt.abcdefgh.part", ".config.json.ABC.part"]
    mine += ["checkpoints/best.safetensors", "checkpoints/step-1.safetensors", "checkpoints/step-000000001.txt"]
    for name in mine:
        (folder / name).write_text("foreign")
    train(TINY, out=folder, overwrite=True)
    files = contents(folder)
    assert [files[name] for name in mine] == [b"foreign"] * len(mine)
    assert load_model(folder / "model.safetensors").flatten().tobytes() == cut.weights.tobytes()


def test_run_is_made_in_an_empty_folder_and_beside_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    train(TINY, out=tmp_path)
    assert RunDirectory(tmp_path).finished_result()


def test_leftovers_of_killed_processes_are_removed_by_the_next_run(tmp_path: Path, cut: Cut) -> None:
    folder = cut.copy(tmp_path / "run")
    leftovers = [
        folder / ".result.json.a_b0c1d2.part",
        folder / "checkpoints/.step-000000013.safetensors.abcdefgh.part",
    ]
    for path in leftovers:
        path.write_bytes(b"half")
    train(TINY, out=folder, resume=True)
    assert not any(path.exists() for path in leftovers)


class Killed(BaseException):
    """The process ends here."""


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("fault", [Killed(), FULL], ids=["killed", "full disk"])
def test_overwrite_ended_at_any_moment_leaves_the_old_run_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, given: bool
) -> None:
    old, new = tiny_run(0, given), tiny_run(1, given)
    wholes = {}
    for name, run in (("old", old), ("new", new)):
        train(run, out=tmp_path / name)
        wholes[name] = fingerprint(tmp_path / name)
    ends: list[str] = []
    unlink = os.unlink
    for moment in itertools.count():
        folder = shutil.copytree(tmp_path / "old", tmp_path / str(moment))
        calls = itertools.count()

        def dying(function: Callable[..., Any], moment: int = moment, calls: Any = calls) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                if next(calls) >= moment and not (fault is FULL and function is unlink):  # for which there is room
                    raise fault
                return function(*arguments, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("unlink", "replace", "mkdir", "fsync", "chmod"):
                patch.setattr(os, name, dying(getattr(os, name)))
            try:
                RunDirectory(folder).create(new.config, overwrite=True, given=new.given)
            except (Killed, InputError):
                pass
            else:
                break
        left = [path for path in folder.rglob("*") if path.suffix == ".part"]
        assert fault is not FULL or not left
        directory = RunDirectory(folder)
        ends.append("old" if directory.config() == old.config else "new")
        run = replace(old if ends[-1] == "old" else new, given=None)
        if ends[-1] == "old":
            assert directory.finished_result()
        else:
            assert not directory.finished_result()
        train(run, out=folder, resume=True)
        assert fingerprint(folder) == wholes[ends[-1]]
        assert not [path for path in folder.rglob("*") if path.suffix in (".part", ".unfinished")]
    assert [end for end, _ in itertools.groupby(ends)] == ["old", "new"]
    assert len(ends) > 10


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does one thing and ends
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, where it is loaded; the child writes files only
def test_overwrite_killed_twice_never_mixes_the_starts_of_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is killed once its claim is written, the second before it has one."""
    first, second, folder = tiny_run(1, warm=True), tiny_run(2, warm=True), tmp_path / "run"
    train(tiny_run(0, warm=True), out=folder)
    train(first, out=tmp_path / "whole")
    write_signed = run_directory._write_signed

    def die_after(path: Path, values: dict[str, Any]) -> None:
        write_signed(path, values)
        os._exit(9)

    def die_before(path: Path, values: dict[str, Any]) -> None:
        os._exit(9)

    for run, dying in ((first, die_after), (second, die_before)):
        if (child := os.fork()) == 0:
            monkeypatch.setattr(run_directory, "_write_signed", dying)
            RunDirectory(folder).create(run.config, overwrite=True, given=run.given)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    train(replace(first, given=None), out=folder, resume=True)
    assert fingerprint(folder) == fingerprint(tmp_path / "whole")


def test_overwrite_from_a_model_with_nan_weights_leaves_the_old_run(tmp_path: Path, cut: Cut) -> None:
    folder = cut.copy(tmp_path / "run")
    before = contents(folder)
    run = tiny_run(1, warm=True)
    assert run.given is not None
    spoiled = run.given.unflatten(np.full(run.given.size, np.nan, run.given.dtype))
    refused("NaN", RunDirectory(folder).create, run.config, True, spoiled)
    assert contents(folder) == before


def test_folder_left_by_a_kill_before_the_claim_of_a_new_run_is_free(tmp_path: Path) -> None:
    (tmp_path / "start.safetensors.unfinished").write_bytes(b"half")
    train(TINY, out=tmp_path)
    assert not (tmp_path / "start.safetensors.unfinished").exists()


# --- settings and start -----------------------------------------------------------------------------------------------


def test_config_with_another_value_is_noticed_before_there_is_a_checkpoint(tmp_path: Path) -> None:
    RunDirectory(tmp_path).create(TINY.config, overwrite=False)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    refused("damaged, or was changed by hand", RunDirectory(tmp_path).config)
    assert TrainConfig.from_file(path) == replace(TINY.config, seed=1)  # as a file for --config it is as good as any


def test_result_with_another_value_does_not_count(tmp_path: Path) -> None:
    train(TINY, out=tmp_path)
    path = tmp_path / "result.json"
    assert RunDirectory(tmp_path).finished_result()
    path.write_text(path.read_text().replace('"steps": 20', '"steps": 21'))
    assert RunDirectory(tmp_path).finished_result() is None


def test_files_of_older_versions_without_a_digest_are_read(tmp_path: Path, cut: Cut) -> None:
    folder = cut.copy(tmp_path / "run")
    values = json.loads((folder / "config.json").read_text())
    del values["sha256"]
    (folder / "config.json").write_text(json.dumps(values))
    train(TINY, out=folder, resume=True)
    assert fingerprint(folder) == cut.whole


@pytest.mark.parametrize("damage", ["missing", "cut off", "of another model"])
def test_run_whose_copy_of_its_start_is_gone_takes_the_same_weights_from_elsewhere_or_refuses(
    tmp_path: Path, damage: str
) -> None:
    run, other = tiny_run(0, warm=True), tiny_run(1, warm=True).given
    assert other is not None
    train(run, out=tmp_path / "whole")
    train_until(6, run, tmp_path / "run")
    copy = tmp_path / "run" / "start.safetensors"
    if damage == "of another model":
        other.save(copy)
    else:
        copy.write_bytes(copy.read_bytes()[:100])
    if damage == "missing":
        copy.unlink()
    refused("model that this run started from", train, replace(run, given=other), out=tmp_path / "run", resume=True)
    train(run, out=tmp_path / "run", resume=True)
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "whole")


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", ["history.jsonl", "timing.jsonl"])
def test_history_that_is_a_link_is_read_but_what_it_links_to_is_never_written(
    tmp_path: Path, cut: Cut, link: Callable[[Path, Path], None], name: str
) -> None:
    """As in a copy of a run that was made with hard links, such as backups are."""
    folder, foreign = cut.copy(tmp_path / "run"), tmp_path / "foreign"
    (folder / name).rename(foreign)
    before = foreign.read_bytes()
    link(foreign, folder / name)
    train(TINY, out=folder, resume=True)
    assert foreign.read_bytes() == before
    assert fingerprint(folder) == cut.whole


def test_lock_that_is_a_symbolic_link_is_refused_and_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "foreign")
    refused("Cannot write", train, TINY, out=tmp_path / "run")
    assert not (tmp_path / "foreign").exists()


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_checkpoints_of_older_versions_without_a_digest_still_load(tmp_path: Path, cut: Cut) -> None:
    folder = cut.copy(tmp_path / "run")
    messages: list[str] = []
    for path in (folder / "checkpoints").iterdir():
        without_digests(path)
    train(TINY, out=folder, resume=True, on_message=messages.append)
    assert not messages
    assert fingerprint(folder) == cut.whole


@pytest.mark.parametrize(
    "change",
    [
        {"stage": 6},
        {"stage": -1},
        {"stage": 3.0},
        {"step": 4},
        {"total": "12"},
        {"kind": "full"},
        {"adam": [1, 0.9]},
        {"adam": None},
        {"curvature": [0.5, 0]},
        {"smoothed": "0.5"},
        {"rewinds": True},
        {"total": 10**400},
        {"adam": [1, 1e308, 0.999, 1e-8]},
        {"adam": [1, 0.9, -1.0, 1e-8]},
        {"adam": [1, 0.9, 0.999, 0.0]},
        {"rate_factor": -1.0},
    ],
    ids=str,
)
def test_checkpoint_with_fields_that_do_not_fit_the_run_is_passed_over_like_a_damaged_one(
    tmp_path: Path, cut: Cut, change: dict[str, object]
) -> None:
    folder = cut.copy(tmp_path / "run")
    messages: list[str] = []
    path = newest(folder)
    without_digests(path, lambda numbers: numbers.update(change))
    train(TINY, out=folder, resume=True, on_message=messages.append)
    assert [path.name in message for message in messages] == [True]
    assert fingerprint(folder) == cut.whole


def test_checkpoint_of_a_run_with_other_settings_is_refused(tmp_path: Path, cut: Cut) -> None:
    other = replace(TINY, config=replace(TINY.config, seed=1))
    train_until(14, other, tmp_path / "other")
    (stray,) = (tmp_path / "other" / "checkpoints").iterdir()
    folder = cut.copy(tmp_path / "run")
    shutil.copy(stray, folder / "checkpoints")
    refused("other settings", train, TINY, out=folder, resume=True)


def test_damaged_checkpoints_do_not_push_out_good_ones(tmp_path: Path, cut: Cut) -> None:
    folder = cut.copy(tmp_path / "run")
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(b"nonsense")
    train_until(4, TINY, folder, resume=True, checkpoint_seconds=0.0)
    assert sorted(path.stem for path in (folder / "checkpoints").iterdir()) == [f"step-00000000{n}" for n in (2, 3, 4)]


# --- damage -----------------------------------------------------------------------------------------------------------

HISTORY_DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "short": lambda data: data[:-40],
    "extended with NUL bytes": lambda data: data[:-40] + b"\0" * 60,
    "NUL bytes after it": lambda data: data + b"\0" * 60,
    "a digit changed": lambda data: data.replace(b"8", b"7"),
    "not text": lambda data: b"\xff\xfe" + data,
    "a line that is no row": lambda data: b"[]\n" + data,
    "deep": lambda data: b"[" * 100_000 + data,
}


@pytest.mark.parametrize("name", ["history.jsonl", "timing.jsonl"])
@pytest.mark.parametrize("damage", HISTORY_DAMAGE)
def test_damaged_history_or_times_never_prevent_resuming(tmp_path: Path, cut: Cut, name: str, damage: str) -> None:
    folder = cut.copy(tmp_path / "run")
    messages: list[str] = []
    file = folder / name
    before = file.read_bytes()
    spoiled = HISTORY_DAMAGE[damage](before)
    assert spoiled != before
    file.unlink()
    if spoiled is not None:
        file.write_bytes(spoiled)
    result = train(TINY, out=folder, resume=True, on_message=messages.append)
    after, files = file.read_bytes(), fingerprint(folder)
    assert files["model.safetensors"] == cut.whole["model.safetensors"]
    assert files["result.json"] == cut.whole["result.json"]
    assert b"\0" not in after
    assert result.history == RunDirectory(folder).read_history()
    assert len(messages) == (name == "history.jsonl" and damage != "NUL bytes after it")
    assert len(RunDirectory(folder).read_seconds()) >= 2


# --- what is not the same run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [{"seed": 1}, {"batch": 16}, {"layers": 3}])
def test_resume_with_another_config_is_refused(tmp_path: Path, other: dict[str, int]) -> None:
    train_until(20, short_run(POOLS), tmp_path / "run")
    changed = replace(POOLS, **other)  # type: ignore[arg-type]
    refused("other settings", train_short, changed, tmp_path / "run", resume=True)


def test_resume_after_the_recipe_changed_is_refused(tmp_path: Path) -> None:
    run = short_run(ADAM)
    train_until(40, run, tmp_path / "run")  # within the main stage
    shorter = [replace(stage, steps=min(stage.steps, 10)) for stage in run.stages]  # as a newer version might
    refused("another version of the recipe", train, short_run(ADAM, shorter), out=tmp_path / "run", resume=True)


def test_resume_of_a_run_of_an_older_version_is_refused(tmp_path: Path) -> None:
    """Its checkpoints have a plan of their own, and "leg" for stage."""
    train_until(10, short_run(ADAM), tmp_path / "run")
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    without_digests(path)
    data = path.read_bytes().replace(b'\\"stage\\"', b'\\"leg\\"  ').replace(b'\\"kind\\"', b'\\"dink\\"')
    path.write_bytes(data.replace(short_run(ADAM).plan.encode(), b"0123456789abcdef"))
    refused("another version of the recipe", train_short, ADAM, tmp_path / "run", resume=True)


def test_paper_recipe_from_a_given_model_starts_there() -> None:
    names = {"recipe": "paper", "steps": 1, "batch": 8, "sequences": 10, "start": "a name"}
    config = TrainConfig(kind="full", layers=1, dim=3, examples=8, **names)  # type: ignore[arg-type]
    given = LinearTransformer.init("full", layers=1, dim=3, scale=0.3, seed=9)
    trained = train(config, given=given).model
    np.testing.assert_allclose(trained.flatten(), given.flatten(), atol=1e-3)  # one step of size 1e-4


# --- timing.jsonl: how long training took, over interruptions --------------------------------------------------------

PAPER = TrainConfig(kind="diag", layers=1, dim=3, examples=6, recipe="paper", steps=400, batch=8, sequences=100)


def test_every_row_of_the_history_has_a_time_and_a_resumed_run_counts_on_from_where_it_was(tmp_path: Path) -> None:
    train_until(250, PAPER, tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    file = directory.timing
    file.write_text(file.read_text().replace('"total": 200, "seconds": ', '"total": 200, "seconds": 1000'))
    train(PAPER, out=tmp_path / "run", resume=True)
    seconds = directory.read_seconds()
    assert list(seconds) == [row["total"] for row in directory.read_history()] == [100, 200, 300, 400]
    assert 0 <= seconds[100] < 1000 <= seconds[200] <= seconds[300] <= seconds[400]


def test_a_torn_line_is_left_out_and_a_missing_file_is_no_times(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.read_seconds() == {}
    directory.timing.write_text('{"total": 1, "seconds": 2.5}\n[]\n{"total": 2, "sec')
    assert directory.read_seconds() == {1: 2.5}


def test_overwriting_a_run_forgets_its_times(tmp_path: Path) -> None:
    train(PAPER, out=tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    directory.timing.write_text('{"total": 77, "seconds": 1.0}\n')
    train(PAPER, out=tmp_path / "run", overwrite=True)
    assert list(directory.read_seconds()) == [100, 200, 300, 400]
