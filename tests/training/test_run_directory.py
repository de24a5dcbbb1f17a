"""Run directories: what is refused and never touched, kills at any moment, damage, checkpoints that keep every bit."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import plans
from plans import ADAM, CONFIGS, POOLS, fingerprint, short_run, train_short, train_until
from ridgeformer import InputError, LinearTransformer, TrainConfig
from ridgeformer.core.model_file import load_model
from ridgeformer.core.notation import Array
from ridgeformer.training import train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.run_directory import Checkpoint, RunDirectory, load_checkpoint, save_checkpoint
from ridgeformer.training.stages import Run
from support import refused

TINY = short_run(
    replace(POOLS, layers=1, batch=4, sequences=20),
    [AdamStage(name=str(n), steps=4, rate=1e-3, batch=4, origin="init", init_scale=0.05) for n in range(5)],
    ranked_on=64,
)
"""Five short stages, each with a row of the history."""


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


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


@pytest.mark.parametrize("given", [False, True])
def test_overwrite_killed_at_any_moment_leaves_the_old_run_or_none_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    def run_of(seed: int) -> Run:
        config = replace(TINY.config, seed=seed, start="a name" if given else None)
        model = LinearTransformer.init("diag", layers=1, dim=3, scale=0.05, seed=seed) if given else None
        stages = [replace(TINY.stages[0], origin="given" if given else "init"), *TINY.stages[1:]]
        return short_run(config, stages, ranked_on=64, given=model)

    old, new = run_of(0), run_of(1)
    wholes = {}
    for name, run in (("old", old), ("new", new)):
        train(run, out=tmp_path / name)
        wholes[name] = fingerprint(tmp_path / name)
    ends: list[str] = []
    for moment in itertools.count():
        folder = shutil.copytree(tmp_path / "old", tmp_path / str(moment))
        calls = itertools.count()

        def dying(function: Callable[..., Any], moment: int = moment, calls: Any = calls) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                if next(calls) >= moment:
                    raise Killed
                return function(*arguments, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("unlink", "replace", "mkdir", "fsync", "chmod"):
                patch.setattr(os, name, dying(getattr(os, name)))
            try:
                RunDirectory(folder).create(new.config, overwrite=True, given=new.given)
            except Killed:
                pass
            else:
                break
        directory = RunDirectory(folder)
        if not directory.exists():
            refused("holds no run", train, new, out=folder, resume=True)
            train(new, out=folder)
            ends.append("none")
            assert fingerprint(folder) == wholes["new"]
        else:
            ends.append("old" if directory.config() == old.config else "new")
            run = replace(old if ends[-1] == "old" else new, given=None)
            train(run, out=folder, resume=True)
            assert fingerprint(folder) == wholes[ends[-1]]
        assert not [path for path in folder.rglob("*") if path.suffix in (".part", ".unfinished")]
    assert [end for end, _ in itertools.groupby(ends)] == ["old", "none", "new"]
    assert len(ends) > 15


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoint_gives_back_every_bit_of_the_state(tmp_path: Path, name: str) -> None:
    def parts(value: object) -> dict[str, object]:
        if is_dataclass(value):
            return {f"{f.name}.{k}": v for f in fields(value) for k, v in parts(getattr(value, f.name)).items()}
        return {str(i): v for i, v in enumerate(value)} if isinstance(value, tuple) else {"": value}

    run = short_run(CONFIGS[name])
    state, names = run.start(), set()
    while not run.finished(state):
        checkpoint = Checkpoint(state, 17, "a digest", run.config.as_json())
        save_checkpoint(checkpoint, tmp_path / "one.safetensors")
        again = load_checkpoint(tmp_path / "one.safetensors", run)
        assert again[1:] == checkpoint[1:]
        before, after = parts(state), parts(again.state)
        assert before.keys() == after.keys()
        for field, value in before.items():
            np.testing.assert_array_equal(after[field], value, err_msg=field)  # NaN equals NaN here
            assert np.asarray(after[field]).dtype == np.asarray(value).dtype
        names |= set(before)
        state, _ = run.step(state)
    assert ("curvature.steps." in names) == (name != "Adam")
    assert ("memory.0" in names) == (name == "Adam")


def without_digests(path: Path, change: Callable[[dict[str, Any]], object] = lambda numbers: None) -> None:
    """Rewrite a checkpoint as older versions wrote it, with other values in its fields."""
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = json.loads(header["__metadata__"]["ridgeformer-checkpoint"])
    change(metadata["state"])
    kept = {name: metadata[name] for name in ("state", "history_bytes")}
    tensors = safetensors.numpy.load(data)
    path.write_bytes(safetensors.numpy.save(tensors, {"ridgeformer-checkpoint": json.dumps(kept)}))


def test_every_single_bit_flipped_in_a_checkpoint_is_noticed(tmp_path: Path, cut: Cut) -> None:
    data, path = newest(cut.folder).read_bytes(), tmp_path / "flipped.safetensors"
    assert load_checkpoint(newest(cut.folder), TINY).state.total == 12
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        refused("damaged", load_checkpoint, path, TINY)


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


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoint_with_a_tensor_of_another_shape_precision_or_name_does_not_fit_the_run(
    tmp_path: Path, name: str
) -> None:
    run, path = short_run(CONFIGS[name]), tmp_path / "one.safetensors"
    state, _ = plans.trail_of(run)[25]
    save_checkpoint(Checkpoint(state, 0, None, None), path)
    without_digests(path)
    with safetensors.safe_open(path, "numpy") as file:
        metadata = file.metadata()
    tensors = safetensors.numpy.load_file(path)
    load_checkpoint(path, run)
    for tensor, array in tensors.items():
        rest = {other: tensors[other] for other in tensors if other != tensor}
        shorter, coarser = {tensor: array[..., :-1].copy()}, {tensor: array.astype("float16")}
        for spoiled in ({}, shorter, coarser, {tensor: array, "x": array}):
            path.write_bytes(safetensors.numpy.save(rest | spoiled, metadata))
            refused("damaged", load_checkpoint, path, run)


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


def test_run_directory_with_any_random_damage_resumes_to_the_same_weights_or_says_why_not(
    tmp_path: Path, cut: Cut
) -> None:
    """Bits flipped, files cut, emptied, removed, extended, swapped or replaced, in one or two files at once."""
    rng, ends = np.random.default_rng(13), Counter[str]()
    for number in range(300):
        folder = cut.copy(tmp_path / str(number))
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
        for file in rng.choice(np.array(files), size=rng.integers(1, 3), replace=False):
            _damage(file, rng)
        try:
            model = train(TINY, out=folder, resume=True).model
        except InputError:  # nothing but a damaged config is a reason
            ends["refused" if contents(folder).get("config.json") != contents(cut.folder)["config.json"] else "?"] += 1
        else:
            np.testing.assert_array_equal(model.flatten(), cut.weights)
            ends["same weights"] += 1
        shutil.rmtree(folder)
    assert ends.keys() == {"refused", "same weights"}
    assert ends["same weights"] > 200


def _damage(file: Path, rng: np.random.Generator) -> None:
    data = bytearray(file.read_bytes())
    place = int(rng.integers(len(data)))
    match rng.integers(7):
        case 0:
            data[place] ^= 1 << rng.integers(8)
        case 1:
            del data[place:]
        case 2:
            data += bytes(place)
        case 3:
            data[place : place + 20] = rng.bytes(20)
        case 4:
            other = rng.choice(np.array(sorted(file.parent.glob("*.*"))))
            data[:] = other.read_bytes() if other.is_file() else b""
        case 5 if file.name != "config.json":
            file.unlink()
            os.mkfifo(file)
            return
        case _:
            file.unlink()
            return
    file.write_bytes(data)


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
