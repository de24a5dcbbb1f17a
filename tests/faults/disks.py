"""Training on disks that are full, read-only or somebody else's. Run as a program, in a mount namespace of its own.

What is mounted here is seen by no other process and is gone with this one. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from attacks import Tally
from plans import contents, tiny_run, train_until
from ridgeformer import InputError, LinearTransformer, load
from ridgeformer.training import train
from ridgeformer.training.run_directory import RunDirectory

NOBODY = 65534
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROOM = 64  # pages that a run and all its files need at most, twice
_INODES = 40  # likewise
TRAIN = ("train", "--kind", "diag", "--layers", "1", "--dim", "3", "--examples", "6", "--recipe", "paper")
TRAIN_SIZES = ("--batch", "8", "--steps", "400", "--sequences", "1000")
GRID = ("reproduce", "--train", "--kinds", "gdpp", "--layers", "1", "--columns", "uniform:5", "--seeds", "0")
GRID_SIZES = ("--sequences", "2000", "--no-report")


def mount(*arguments: object) -> None:
    """The command of the system."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


@contextmanager
def disk(folder: Path) -> Iterator[Path]:
    """A small disk of memory."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={_ROOM * _PAGE},nr_inodes={_INODES},mode=777", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(folder: Path, pages: int) -> None:
    """Leave room for so many pages."""
    free = os.statvfs(folder).f_bfree - pages
    (folder / "filler").write_bytes(bytes(max(free, 0) * _PAGE))


def use_up_names(folder: Path, files: int) -> None:
    """Leave room for so many files."""
    (folder / "fillers").mkdir()
    for number in range(os.statvfs(folder).f_ffree - files):
        (folder / "fillers" / str(number)).touch()


def make_room(folder: Path) -> None:
    """As somebody does who is told that a disk is full."""
    (folder / "filler").unlink(missing_ok=True)
    shutil.rmtree(folder / "fillers", ignore_errors=True)


class Attack:
    """Runs on disks in bad condition."""

    def __init__(self, tally: Tally, folder: Path) -> None:
        self.tally, self.folder, self.number = tally, folder, 0
        self.runs = {(seed, warm): tiny_run(seed, warm) for seed in (0, 1) for warm in (False, True)}
        self.results = {}
        for key, run in self.runs.items():
            train(run, out=folder / f"whole {key}")
            train_until(12, run, folder / f"stopped {key}", checkpoint_seconds=0.0)
            self.results[key] = _result(folder / f"whole {key}")
        self.model = folder / "whole (0, False)" / "model.safetensors"

    def full(self) -> None:
        """A disk gets full while a run is begun, resumed or replaced, or while a model is saved."""
        rng = self.tally.random
        what, warm = rng.choice(("begun", "resumed", "replaced", "a model saved")), rng.random() < 0.5
        self.number += 1
        with disk(self.folder / f"disk {self.number}") as place:
            out = place / "run"
            if what in ("resumed", "replaced"):
                source = f"stopped {(0, warm)}" if what == "resumed" else f"whole {(1, warm)}"
                shutil.copytree(self.folder / source, out)
            if what == "a model saved":
                load(self.folder / f"whole {(1, warm)}" / "model.safetensors").save(place / "model.safetensors")
            if rng.random() < 0.75:
                pages = rng.randrange(24)
                fill(place, pages)
                told = f"{what}, warm: {warm}, room for {pages} pages"
            else:
                files = rng.randrange(14)
                use_up_names(place, files)
                told = f"{what}, warm: {warm}, room for {files} files"
            act = self._save if what == "a model saved" else self._train
            act(place, what, warm, told)

    def _train(self, place: Path, what: str, warm: bool, told: str) -> None:
        out, run, tally = place / "run", self.runs[0, warm], self.tally
        resume, overwrite = what == "resumed", what == "replaced"
        with tally.case(f"full: {what}", lambda: told):
            try:
                train(run, out=out, resume=resume, overwrite=overwrite, checkpoint_seconds=0.0)
            except InputError as error:
                if "Cannot write" not in str(error) or "No space left" not in str(error):
                    tally.find("tracebacks", f"{told}: {error}")
                raise
        if left := [path.name for path in place.rglob("*.part")]:
            tally.find("leftovers", f"{told}: {left}")
        with tally.case("went on", lambda: told, counted=False):
            there = RunDirectory(out).exists()
            seed = RunDirectory(out).config().seed if there else 0
            if seed == 1 and _result(out) != self.results[1, warm]:
                tally.find("unreadable runs", f"{told}: the old run is not what it was")
            if what != "begun" and not there:
                tally.find("unreadable runs", f"{told}: there is no run any more")
            make_room(place)
            train(replace(self.runs[seed, warm], given=None if there else run.given), out=out, resume=there)
            if _result(out) != self.results[seed, warm]:
                tally.find("differing bits", told)
            if left := [path.name for path in out.rglob("*") if path.suffix in (".part", ".unfinished")]:
                tally.find("leftovers", f"{told}, then resumed: {left}")

    def _save(self, place: Path, what: str, warm: bool, told: str) -> None:
        path, old = place / "model.safetensors", (place / "model.safetensors").read_bytes()
        model = load(self.folder / f"whole {(0, warm)}" / "model.safetensors")
        with self.tally.case("full: a model saved", lambda: told):
            model.save(path)
        if path.read_bytes() != old and load(path).flatten().tobytes() != model.flatten().tobytes():
            self.tally.find("silently different weights", told)
        if left := list(place.glob("*.part")):
            self.tally.find("leftovers", f"{told}: {left}")

    def command(self) -> None:
        """The commands on a full disk: one sentence and exit code 2, or all is well; and with room it goes on."""
        self.number += 1
        pages, grid = self.tally.random.randrange(24), self.tally.random.random() < 0.25
        with disk(self.folder / f"disk {self.number}") as place:
            fill(place, pages)
            told = f"{'reproduce --train' if grid else 'train'}, room for {pages} pages"
            for attempt in range(2):
                command = [
                    sys.executable,
                    "-m",
                    "ridgeformer",
                    *(GRID + GRID_SIZES if grid else TRAIN + TRAIN_SIZES),
                    "--out",
                    str(place / "run"),
                ]
                if not grid and RunDirectory(place / "run").exists():
                    command = [*command[:3], "train", "--resume", str(place / "run")]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.tally.cases["full: a command"] += attempt == 0
                if "Traceback" in done.stderr or done.returncode not in ((0, 2) if attempt == 0 else (0,)):
                    self.tally.find("tracebacks", f"{told}, attempt {attempt}: {done.returncode} {done.stderr[-1500:]}")
                make_room(place)
                mount("-o", f"remount,size={64 * _ROOM * _PAGE},nr_inodes=0", place)

    def read_only(self, as_nobody: bool) -> None:
        """A disk that cannot be written to, or a folder that belongs to somebody else."""
        self.number += 1
        rng = self.tally.random
        what, kind = rng.choice(("begun", "resumed", "replaced")), "somebody else's" if as_nobody else "read-only"
        with disk(self.folder / f"disk {self.number}") as place:
            out = place / "run"
            if what != "begun":
                shutil.copytree(
                    self.folder / (f"stopped {(0, False)}" if what == "resumed" else "whole (1, False)"), out
                )
            place.chmod(0o555)
            before = contents(place)
            if not as_nobody:
                mount("-o", "remount,ro", place)
            resume, overwrite = what == "resumed", what == "replaced"

            def refused() -> None:
                for act in (
                    lambda: train(self.runs[0, False], out=out, resume=resume, overwrite=overwrite),
                    lambda: self._any.save(place / "m"),
                ):
                    try:
                        act()
                    except InputError as error:
                        if "Cannot write" not in str(error):
                            self.tally.find("tracebacks", f"{kind}, {what}: {error}")
                    else:
                        self.tally.find("foreign files touched", f"{kind}, {what}: was written")
                if what == "replaced":
                    load(out / "model.safetensors")
                    assert RunDirectory(out).finished_result()

            with self.tally.case(f"{kind}: {what}"):
                _as_nobody(refused) if as_nobody else refused()
            if contents(place) != before:
                self.tally.find("foreign files touched", f"{kind}, {what}")

    @property
    def _any(self) -> LinearTransformer:
        return LinearTransformer.init("diag", layers=1, dim=3)


def _as_nobody(act: Callable[[], None]) -> None:
    """Do something without the rights of root, for as long as it takes."""
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        act()
    finally:
        os.setresuid(0, 0, 0)


def _result(folder: Path) -> dict[str, bytes]:
    files = contents(folder)
    return {name: files.get(name, b"") for name in ("config.json", "history.jsonl", "model.safetensors", "result.json")}


def main(wanted: int, seed: int, part: int, folder: Path) -> None:
    """So many disks, and what came of them, on standard output."""
    tally = Tally("full and read-only disks", wanted, seed, part)
    folder.chmod(0o755)  # nobody has to get as far as the disks
    attack = Attack(tally, folder)
    maybe_nobody = os.getuid() == 0 and Path("/proc/self/uid_map").read_text().split()[-1] == "4294967295"
    while tally.done < wanted:
        kind = tally.random.random()
        if kind < 0.02:
            attack.command()
        elif kind < 0.8:
            attack.full()
        else:
            attack.read_only(as_nobody=maybe_nobody and kind < 0.9)
    sys.stdout.write(json.dumps(tally.as_json()))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
