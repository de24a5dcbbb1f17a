"""Hostile files: damaged ones, ones whose author knows the format, and what a fuzzer finds that follows the code."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attacks import Tally, twisted
from readers import Reader, hostile, make_readers
from running import HELPED

FUZZ = Path(__file__).with_name("fuzz.py")
_OTHERS = ("model", "checkpoint")


def attack(reader: Reader, name: str, count: int, tally: Tally) -> None:
    """So many hostile files for one reader."""
    for _ in range(count):
        data, forged = hostile(reader, tally.random)

        def what(data: bytes = data) -> str:
            return f"{name} {data[:3000]!r}"

        with tally.case("forged" if forged else "damaged", what):
            if finding := reader.check(data, forged):
                tally.find(finding[0], f"{finding[1]}: {what()}")


def test_twisted_values_share_nothing_that_a_later_twist_changes() -> None:
    rng, values = random.Random(0), [{"a": [1, {"b": 2}]} for _ in range(300)]
    for _ in range(20):  # with shared leaves some of these come to hold themselves
        values = [twisted(value, rng) for value in values]
    assert all(isinstance(json.dumps(value), str) for value in values)


@pytest.mark.attack("hostile model files", small=1500, full=200_000, parts=8)
def test_hostile_model_file_is_refused_in_a_sentence_or_is_a_model(tally: Tally, scratch: Path) -> None:
    attack(make_readers(scratch)["model"](), "model", tally.wanted, tally)
    assert tally.outcomes["went through"] > 0  # some forged ones are models


@pytest.mark.attack("hostile checkpoints", small=500, full=40_000, parts=4)
def test_hostile_checkpoint_is_refused_in_a_sentence_or_is_a_state_of_the_run(tally: Tally, scratch: Path) -> None:
    attack(make_readers(scratch)["checkpoint"](), "checkpoint", tally.wanted, tally)


@pytest.mark.attack("hostile records", small=300, full=8_000, parts=4)
def test_hostile_record_is_refused_in_a_sentence_or_can_be_drawn(tally: Tally, scratch: Path) -> None:
    makers = {name: make for name, make in make_readers(scratch).items() if name not in _OTHERS}
    for name, make in makers.items():
        attack(make(), name, -(-tally.wanted // len(makers)), tally)


@pytest.mark.attack("hostile model files", small=200, full=60_000, parts=3)
def test_fuzzer_finds_no_model_file_that_is_not_read_or_refused(tally: Tally, scratch: Path) -> None:
    fuzz("model", tally, scratch)


@pytest.mark.attack("hostile checkpoints", small=200, full=20_000, parts=2)
def test_fuzzer_finds_no_checkpoint_that_is_not_read_or_refused(tally: Tally, scratch: Path) -> None:
    fuzz("checkpoint", tally, scratch)


@pytest.mark.attack("hostile records", small=100, full=6_500, parts=13)
def test_fuzzer_finds_no_record_that_is_not_read_or_refused(tally: Tally, scratch: Path) -> None:
    names = sorted(make_readers(scratch).keys() - {*_OTHERS})
    fuzz(names[tally.part % len(names)], tally, scratch)


def fuzz(name: str, tally: Tally, folder: Path) -> None:
    """Let Atheris search for a file that one reader cannot cope with."""
    if importlib.util.find_spec("atheris") is None:
        tally.wanted = 0
        pytest.skip("atheris is not installed: readers are attacked by the mutators of this project alone")
    command = [sys.executable, str(FUZZ), name, str(tally.wanted), str(tally.random.randrange(1, 1 << 31)), str(folder)]
    done = subprocess.run(command, env=HELPED, capture_output=True, text=True, errors="replace", check=False)
    runs = re.search(r"Done (\d+) runs", done.stderr)
    tally.cases["by atheris"] += int(runs[1]) if runs else 0
    if done.returncode or not runs:
        kind = "hangs" if "timeout" in done.stderr else "tracebacks"
        tally.find(kind, f"{name}: {(done.stdout + done.stderr)[-3000:]}")
