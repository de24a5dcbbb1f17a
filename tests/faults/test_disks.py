"""Full and read-only disks: real ones, in memory. What is refused is said, what was there stays, and goes on later."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from attacks import Tally
from running import HELPED

DISKS = Path(__file__).with_name("disks.py")


@cache
def namespace() -> list[str] | None:
    """The command that lets a program mount disks that only it sees: as root, or as one who may act as root there."""
    own = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None:
        return None
    tried = subprocess.run([*own, "mount", "-t", "tmpfs", "tmpfs", "/tmp"], capture_output=True, check=False)
    return own if tried.returncode == 0 else None


@pytest.mark.attack("full and read-only disks", small=40, full=1000, parts=2)
def test_full_or_read_only_disk_is_one_sentence_and_nothing_is_lost(tally: Tally, scratch: Path) -> None:
    if (own := namespace()) is None:
        tally.wanted = 0
        pytest.skip("no disks can be mounted here: that takes Linux, and root or user namespaces")
    numbers = (str(number) for number in (tally.wanted, tally.seed, tally.part))
    command = [*own, sys.executable, str(DISKS), *numbers, str(scratch)]
    done = subprocess.run(command, env=HELPED, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tally.take(json.loads(done.stdout))
    assert tally.outcomes["went through"] > 0
    assert tally.outcomes["refused"] > 0
