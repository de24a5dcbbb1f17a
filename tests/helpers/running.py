"""The ``ridgeformer`` command for its tests: in this process where that will do, since a new one costs a second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer.baselines import BASELINES, ConstRR, TunedRR
from ridgeformer.cli.main import main

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("RIDGEFORMER_THREADS")},
    "PYTHONPATH": os.pathsep.join([str(Path(rf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
}

HELPED = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), ENVIRONMENT["PYTHONPATH"]])}
"""For programs of the tests, which import these helpers."""


def call(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the entry point in this process."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    code = left.value.code
    assert isinstance(code, int)
    return code, printed.out, printed.err


def succeeds(capsys: Capture, *arguments: object) -> str:
    """What a command prints that must not fail."""
    code, out, err = call(capsys, *arguments)
    assert code == 0, err
    return out


def refuses(capsys: Capture, hint: str, *arguments: object) -> str:
    """The one sentence, with the hint in it, with which a command refuses what it is given before any work."""
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert hint in err
    assert err.startswith("ridgeformer: ")
    assert err.count("\n") == 1
    return err


def start(*arguments: object, group: bool = False, **environment: str) -> subprocess.Popen[str]:
    """Begin a command in a process of its own, in a process group of its own if wanted, as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "ridgeformer", *map(str, arguments)],
        env={**ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=group,
    )


def shell(line: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which ``ridgeformer`` is the command; its exit code is that of the first part of a pipe."""
    setup = f'ridgeformer() {{ "{sys.executable}" -m ridgeformer "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", f"{setup}{line}\nexit ${{PIPESTATUS[0]}}"],
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=cwd,
        timeout=60,
    )


def leave_untuned(monkeypatch: Patch) -> None:
    """Baselines of the registry with fixed parameters: tuning takes ten seconds a prior, and has tests of its own."""
    for name, baseline in {"constrr": ConstRR(1.25), "tunedrr": TunedRR(1.5, 2.5)}.items():
        monkeypatch.setitem(BASELINES._entries, name, replace(BASELINES[name], make=partial(_fixed, baseline)))


def _fixed(baseline: Any, task: rf.Task) -> Any:
    return baseline


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.002)
    return True


def read_json(path: Path) -> Any:
    """Strict: NaN and Infinity are not JSON."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
