"""SIGKILL at any moment of a run's life. What is left goes on to the same bits, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attacks import Tally
from plans import contents
from ridgeformer.training.run_directory import RunDirectory
from running import HELPED, start

VICTIM = Path(__file__).with_name("victim.py")
PHASES: dict[str, tuple[list[str], int]] = {
    "at the start": (["/run"], 44),
    "while training": ([], 20),
    "while a checkpoint is written": (["/checkpoints"], 120),
    "while the result is written": (["model.safetensors", "result.json"], 8),
    "while an old run is replaced": (["/run"], 44),
}
"""Which file operations count (none: steps do), and after how many of them at most the process dies."""
LONGEST = 60.0  # seconds that anything here may take on a busy machine


class Victim:
    """The process that starts trainings and has them killed."""

    def __init__(self) -> None:
        command = [sys.executable, str(VICTIM)]
        self.process = subprocess.Popen(
            command, env=HELPED, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def train(self, out: Path, **order: Any) -> tuple[int, str]:
        """(exit code, or minus the signal; error message)."""
        usual = {"seed": 0, "warm": False, "resume": False, "overwrite": False, "after": 0, "files": [], "delay": None}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({**usual, **order, "out": str(out)}) + "\n")
        answer = json.loads(self.process.stdout.readline())
        return answer["status"], answer["message"]


@contextmanager
def victim() -> Iterator[Victim]:
    one = Victim()
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def result_of(folder: Path) -> dict[str, bytes]:
    """All that a finished run leaves and that is the same every time."""
    files = contents(folder)
    last = max(name for name in files if name.startswith("checkpoints/"))
    return {name: files[name] for name in ("config.json", "history.jsonl", "model.safetensors", "result.json", last)}


@pytest.mark.attack("SIGKILLs", small=40, full=800, parts=4)
def test_run_that_is_killed_at_any_moment_goes_on_to_the_same_bits(tally: Tally, scratch: Path) -> None:
    rng = tally.random
    with victim() as process:
        wholes = {}
        for seed in (0, 1):
            for warm in (False, True):
                assert process.train(scratch / "whole", seed=seed, warm=warm)[0] == 0
                wholes[seed, warm] = result_of(scratch / "whole")
                shutil.move(scratch / "whole", scratch / f"whole {seed} {warm}")
        while tally.done < tally.wanted:
            phase, warm, out = rng.choice(list(PHASES)), rng.random() < 0.5, scratch / "run"
            replaces = phase == "while an old run is replaced"
            order: dict[str, Any] = {"seed": 0, "warm": warm}
            if replaces:
                shutil.copytree(scratch / f"whole 1 {warm}", out)
                (out / "notes.txt").write_text("foreign")
                order["overwrite"] = True
            files, most = PHASES[phase]
            told = f"{phase}, warm: {warm}"
            for _ in range(rng.randrange(1, 5)):  # one kill after another
                after, delay = rng.randrange(1, most + 1), rng.choice((None, rng.randrange(3000)))
                status, message = process.train(out, **order, files=files, after=after, delay=delay)
                told += f", after {after} + {delay} µs: {status}"
                tally.cases[phase] += status == -signal.SIGKILL
                if status > 0:
                    tally.find("tracebacks" if status == 3 else "unreadable runs", f"{told}: {message}")
                if status != -signal.SIGKILL:
                    break
                order = {"seed": _seed(out, order), "warm": warm}
                there = RunDirectory(out).exists()
                order |= {"resume": there} if there or not replaces else {"overwrite": True}
            _finish(process, out, order, told, tally)
            with tally.case(phase, lambda told=told: told, counted=False):  # type: ignore[misc]
                if result_of(out) != wholes[_seed(out, order), warm]:
                    tally.find("differing bits", told)
                left = [path.name for path in out.rglob("*") if path.suffix in (".part", ".unfinished")]
                if left:
                    tally.find("leftovers", f"{told}: {left}")
                if replaces and (out / "notes.txt").read_text() != "foreign":
                    tally.find("foreign files touched", told)
            shutil.rmtree(out)


def _seed(out: Path, order: dict[str, Any]) -> int:
    """Of the run that is there, or is to be made; 1 is the old one where one is replaced."""
    directory = RunDirectory(out)
    return directory.config().seed if directory.exists() else order["seed"]


def _finish(process: Victim, out: Path, order: dict[str, Any], told: str, tally: Tally) -> None:
    """Go on with what is there, if anything is, or begin again."""
    status, message = process.train(out, **{**order, "resume": RunDirectory(out).exists(), "overwrite": False})
    if status:
        tally.find("tracebacks" if status == 3 else "unreadable runs", f"{told}, then {status}: {message}")


# --- the command itself -----------------------------------------------------------------------------------------------

TRAIN = ("train", "--kind", "diag", "--layers", 1, "--dim", 3, "--examples", 6, "--recipe", "paper", "--batch", 8)
TRAIN += ("--steps", 4000, "--sequences", 1000, "--threads", 1)  # type: ignore[assignment]
GRID = ("reproduce", "--train", "--kinds", "gdpp", "--layers", 2, "--columns", "uniform:5", "--seeds", 0)
GRID += ("--sequences", 2000, "--no-report", "--workers", 2)  # type: ignore[assignment]
FINAL = ("config.json", "history.jsonl", "model.safetensors", "result.json")


def run_command(*arguments: object) -> tuple[float, subprocess.CompletedProcess[str]]:
    """(seconds, the command to its end)."""
    began, process = time.monotonic(), start(*arguments, group=True)
    out, err = process.communicate(timeout=4 * LONGEST)
    return time.monotonic() - began, subprocess.CompletedProcess([], process.returncode, out, err)


def kill_after(seconds: float, *arguments: object) -> tuple[int, str, bool]:
    """(exit code, errors, whether processes of the command are still there a moment after it was killed)."""
    process = start(*arguments, group=True)
    time.sleep(seconds)
    process.kill()
    _, err = process.communicate(timeout=LONGEST)
    ends = time.monotonic() + LONGEST
    while alive := _session(process.pid):
        if time.monotonic() > ends:
            os.killpg(process.pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    return process.returncode, err, alive


def _session(leader: int) -> bool:
    """Whether any process is left of those that a command started, and that they started."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            return True
    return False


@pytest.mark.attack("SIGKILLs", small=2, full=48, parts=2)
def test_command_that_is_killed_at_any_time_goes_on_to_the_same_bits(tally: Tally, scratch: Path) -> None:
    seconds, done = run_command(*TRAIN, "--out", scratch / "whole")
    assert done.returncode == 0, done.stderr
    whole, number = result_of(scratch / "whole"), 0
    while tally.done < tally.wanted:
        out, number = scratch / str(number), number + 1
        for _ in range(min(tally.random.randrange(1, 5), tally.wanted)):
            how = ("train", "--resume", out) if RunDirectory(out).exists() else (*TRAIN, "--out", out)
            code, err, _ = kill_after(tally.random.uniform(0, 1.1 * seconds), *how)
            tally.cases["of 'ridgeformer train'"] += code == -signal.SIGKILL
            if code not in (0, -signal.SIGKILL) or "Traceback" in err:
                tally.find("tracebacks", f"{how}: {code} {err[-2000:]}")
        how = ("train", "--resume", out) if RunDirectory(out).exists() else (*TRAIN, "--out", out)
        _, done = run_command(*how)
        if done.returncode:
            tally.find("unreadable runs", f"{how}: {done.returncode} {done.stderr[-2000:]}")
        elif result_of(out) != whole:
            tally.find("differing bits", str(how))
        elif left := list(out.rglob("*.part")):
            tally.find("leftovers", f"{how}: {left}")


@pytest.mark.attack("SIGKILLs", small=1, full=40, parts=2)
def test_grid_that_is_killed_at_any_time_goes_on_to_the_same_bits(tally: Tally, scratch: Path) -> None:
    began, done = time.time(), run_command(*GRID, "--out", scratch / "whole")[1]
    assert done.returncode == 0, done.stderr
    models = list((scratch / "whole").rglob("model.safetensors"))
    seconds = max(path.stat().st_mtime for path in models) - began  # of training; the table takes longer the first time
    cells = [path.parent.relative_to(scratch / "whole") for path in models]
    number = 0
    while tally.done < tally.wanted:
        out, number = scratch / str(number), number + 1
        command = (*GRID, "--out", out)
        for _ in range(min(tally.random.randrange(2, 6), tally.wanted)):
            code, err, alive = kill_after(tally.random.uniform(0.2, 1.2) * seconds, *command)
            tally.cases["of 'ridgeformer reproduce --train'"] += code == -signal.SIGKILL
            if code not in (0, -signal.SIGKILL) or "Traceback" in err:
                tally.find("tracebacks", f"{command}: {code} {err[-2000:]}")
            if alive:
                tally.find("leftovers", f"{command}: processes that go on after it is killed")
        _, done = run_command(*command)
        if done.returncode:
            tally.find("unreadable runs", f"{command}: {done.returncode} {done.stderr[-2000:]}")
        for cell, name in ((cell, name) for cell in cells for name in FINAL):
            if (out / cell / name).read_bytes() != (scratch / "whole" / cell / name).read_bytes():
                tally.find("differing bits", f"{cell / name}: {command}")
        if left := [*out.rglob("*.part"), *out.rglob("*.unfinished")]:
            tally.find("leftovers", f"{command}: {left}")
