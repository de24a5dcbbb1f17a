"""``python -m ridgeformer`` as a process of its own, for the tests of its commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer.cli.main import main

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("RIDGEFORMER_THREADS")},
    "PYTHONPATH": os.pathsep.join([str(Path(rf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    "COLUMNS": "140",  # help is wrapped to this
}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "ridgeformer", *map(str, arguments)]


def ridgeformer(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments), env=ENVIRONMENT, capture_output=True, text=True, check=False, cwd=cwd, timeout=120
    )


def start(*arguments: object, group: bool = False) -> subprocess.Popen[str]:
    """Begin a command, in a process group of its own if wanted, as a shell does."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*arguments), env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True, start_new_session=group
    )


def succeeds(*arguments: object, cwd: Path | None = None) -> str:
    """What a command prints that must not fail."""
    done = ridgeformer(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def complaint(*arguments: object, cwd: Path | None = None) -> str:
    """The one sentence of a command that is to refuse what it is given."""
    done = ridgeformer(*arguments, cwd=cwd)
    assert done.returncode == 2
    assert done.stderr.startswith("ridgeformer: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


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


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the entry point in this process."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    code = left.value.code
    assert isinstance(code, int)
    return code, printed.out, printed.err


def refuses(capsys: pytest.CaptureFixture[str], hint: str, *arguments: object) -> None:
    """The entry point answers with one sentence that has the hint in it, and exit code 2."""
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert hint in err
    assert err.startswith("ridgeformer: ")
    assert err.count("\n") == 1
