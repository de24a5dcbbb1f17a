"""Damaged run directories: they are read, resumed to the same bits, or refused in a sentence, and harm nothing else."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from attacks import Tally, damaged
from plans import TINY, contents, tiny_run, train_until
from ridgeformer import InputError
from ridgeformer.training import train
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.stages import Run

ONLY_COPIES = ("config.json", "config.json.unfinished", "start.safetensors", "start.safetensors.unfinished", "lock")
"""What a run cannot go on without: nothing else on disk says the same. (The lock is where it keeps others off.)"""

REASONS = ("swapped", "a folder in place of")
"""What is reason enough to refuse as well: one of the files above may have changed places, or a file has no place."""


class Case(NamedTuple):
    """A run as a process that was stopped left it."""

    run: Run
    folder: Path
    weights: bytes
    """Its result."""


def make_cases(folder: Path) -> dict[str, Case]:
    """Runs that were stopped at every stage of their lives."""
    runs = {"cold": TINY, "warm": tiny_run(3, warm=True)}
    cases = {}
    for name, run in runs.items():
        weights = train(run, out=folder / f"{name} whole").model.flatten().tobytes()
        train_until(12, run, folder / name / "stopped", checkpoint_seconds=0.0)
        RunDirectory(folder / name / "created").create(run.config, overwrite=False, given=run.given)
        shutil.copytree(folder / f"{name} whole", folder / name / "finished")
        shutil.copytree(folder / f"{name} whole", folder / name / "claimed")
        _claim(RunDirectory(folder / name / "claimed"), run)
        for path in (folder / name).iterdir():
            cases[f"{name}, {path.name}"] = Case(replace(run, given=None), path, weights)
    return cases


def _claim(directory: RunDirectory, run: Run) -> None:
    """As a process leaves it that was killed right after it claimed the folder of an old run."""
    if (child := os.fork()) == 0:
        carry_out = RunDirectory._carry_out

        def die(directory: RunDirectory, claim: Path, staged: Path) -> None:
            if claim.exists():
                os._exit(0)
            carry_out(directory, claim, staged)

        setattr(RunDirectory, "_carry_out", die)  # noqa: B010  # mypy allows no assignment
        directory.create(run.config, overwrite=True, given=run.given)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def harm(path: Path, rng: random.Random, foreign: Path) -> str:
    """Damage one file, as disks and people do; returns what was done."""
    files = [one for one in path.parent.iterdir() if one.is_file() and not one.is_symlink()]
    others = sorted(one for one in files if one.stat().st_nlink == 1)  # else a swap would write into the foreign file

    def rewrite() -> None:
        data = path.read_bytes()
        path.write_bytes(damaged(data, rng, [one.read_bytes() for one in others]))

    def swap() -> None:
        other = rng.choice(others or [path])
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)

    def replace_by(make: Callable[[], object]) -> Callable[[], object]:
        def act() -> None:
            path.unlink()
            make()

        return act

    def swell() -> None:
        with path.open("r+b") as file:
            file.truncate(2**31)  # a sparse file of 2 GiB

    ways: dict[str, Callable[[], object]] = {
        "a fault in the bytes of": rewrite,
        "swapped with another:": swap,
        "removed:": path.unlink,
        "emptied:": lambda: path.write_bytes(b""),
        "a pipe in place of": replace_by(lambda: os.mkfifo(path)),
        "a folder in place of": replace_by(path.mkdir),
        "a link to a foreign file in place of": replace_by(lambda: path.symlink_to(foreign)),
        "a hard link to a foreign file in place of": replace_by(lambda: os.link(foreign, path)),
        "a link to nothing in place of": replace_by(lambda: path.symlink_to(foreign.parent / "nothing")),
        "a link to itself in place of": replace_by(lambda: path.symlink_to(path)),
        "swollen:": swell,
    }
    name = rng.choices(list(ways), [10] + [1] * (len(ways) - 1))[0]
    ways[name]()
    return f"{name} {path.name}"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # children do one thing and end
@pytest.mark.attack("damaged run directories", small=150, full=12_000, parts=8)
def test_damaged_run_directory_is_read_and_resumed_to_the_same_bits_or_refused(tally: Tally, scratch: Path) -> None:
    cases = make_cases(scratch / "cases")
    foreign = scratch / "foreign" / "file"
    foreign.parent.mkdir()
    foreign.write_bytes(b'{"total": 3, "seconds": 1.0}\n')
    rng = tally.random
    while tally.done < tally.wanted:
        name = rng.choice(list(cases))
        case, folder = cases[name], scratch / "run"
        shutil.copytree(case.folder, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        harmed = rng.sample(files, rng.choice((1, 1, 2)))
        ways = [harm(path, rng, foreign) for path in harmed if path.is_file() and not path.is_symlink()]
        told = "; ".join([name, *ways])
        (folder / "notes.txt").write_text("foreign")
        _resume(tally, case, folder, {path.name for path in harmed}, told)
        if contents(foreign.parent) != {"file": b'{"total": 3, "seconds": 1.0}\n'}:
            tally.find("foreign files touched", told)
            foreign.write_bytes(b'{"total": 3, "seconds": 1.0}\n')
        if (folder / "notes.txt").read_text() != "foreign":
            tally.find("foreign files touched", told)
        shutil.rmtree(folder)
    assert tally.outcomes["went through"] > tally.outcomes["refused"] > 0


def _resume(tally: Tally, case: Case, folder: Path, harmed: set[str], what: str) -> None:
    """Read a damaged run, and go on with it."""
    directory = RunDirectory(folder)
    with tally.case("read", lambda: what, counted=False):
        directory.finished_result()
        directory.read_seconds()
    refused = True
    with tally.case("resumed", lambda: what):
        try:
            config = directory.config()  # as `ridgeformer train --resume` does, which knows no more
            if config != case.run.config:
                tally.find("silently different weights", f"{what}: other settings: {config}")
            model = train(replace(case.run, config=config), out=folder, resume=True).model
            refused = False
        except InputError as error:
            if not harmed & {*ONLY_COPIES} and not any(way in what for way in REASONS):
                tally.find("unreadable runs", f"{what}: {error}")
            raise
        if model.flatten().tobytes() != case.weights:
            tally.find("silently different weights", what)
        left = [path.name for path in folder.rglob("*") if path.suffix in (".part", ".unfinished")]
        if left:
            tally.find("leftovers", f"{what}: {left}")
    if refused:
        with tally.case("replaced", lambda: what, counted=False):
            train(case.run if case.run.config.start is None else TINY, out=folder, overwrite=True)
