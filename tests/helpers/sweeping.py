"""Sweeps of tiny cells, what they leave on disk, and the processes that train them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.sweeps.cell_work import read_rows
from running import ENVIRONMENT

FINAL = ("config.json", "history.jsonl", "model.safetensors", "result.json", "measures.json")
MAIN = """
import json, sys
import ridgeformer as rf

def show(event):
    if event.what != "running":
        print(event.what, event.cell.name, flush=True)

if __name__ == "__main__":
    study, out, cluster, seconds = json.loads(sys.argv[1])
    result = rf.sweep(study, out=out, cluster=cluster, on_event=show, on_message=print, checkpoint_seconds=seconds)
    sys.exit(2 if result.failed else 0)
"""


def tiny(seeds: int, steps: int, **fields: Any) -> dict[str, Any]:
    """A study of three layers times so many seeds, each layer started from the one before."""
    common = {"kind": "diag", "dim": 3, "examples": 8, "recipe": "paper", "batch": 64, "sequences": 200}
    grid = {**common, "steps": steps, "layers": [1, 2, 3], "seed": list(range(seeds)), "start": "previous layer"}
    return {"grid": {**grid, **fields}, "measure": {"noise": ["fixed:1"], "sequences": 200}}


def start_main(
    study: dict[str, Any],
    out: Path,
    address: str | None = None,
    seconds: float = 0.2,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[str]:
    """A sweep in a process of its own, with more variables of the environment."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, json.dumps([study, str(out), address, seconds])],
        env={**ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trained_here(study: dict[str, Any], folder: Path) -> Path:
    assert not rf.sweep(study, out=folder).failed
    return folder


# --- files ------------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    """All that a sweep leaves that must not depend on where it ran."""
    return {str(path.relative_to(folder)): path.read_bytes() for name in FINAL for path in folder.glob(f"*/{name}")}


def attempts(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {path.parent.name: read_rows(path) for path in folder.glob("*/attempts.jsonl")}


def checkpoints(folder: Path) -> dict[str, int]:
    """The newest checkpoint of every cell."""
    found: dict[str, int] = {}
    for path in folder.glob("*/checkpoints/step-*.safetensors"):
        name, step = path.parents[1].name, int(path.stem.removeprefix("step-"))
        found[name] = max(step, found.get(name, 0))
    return found


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def check_whole(folder: Path, local: Path, cells: int) -> None:
    """Everything is there, the same as when nothing disturbed it, and nobody holds on to anything."""
    assert len(list(folder.glob("*/result.json"))) == cells
    assert contents(folder) == contents(local)
    assert not any(is_locked(path) for path in folder.rglob("*lock"))
    for name, rows in attempts(folder).items():
        assert sum("finished" in row for row in rows) == 1, name
        assert "finished" in rows[-1], name  # nobody touched it afterwards


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "sweep.lock"}


# --- processes --------------------------------------------------------------------------------------------------------


def workers_of(parent: int) -> set[int]:
    """Ids of the training processes that a process has."""
    try:
        children = {int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}
    except OSError:
        return set()
    return {child for child in children if b"spawn_main" in command_line(child)}


def command_line(process: int) -> bytes:
    """That of a process, empty if it is gone, or dead and not yet fetched by its parent."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class Deadly:
    """A noise prior that kills the process in which it is drawn from, as one without memory is killed."""

    spec: str = "deadly"

    def sample(self, rng: Any, size: int) -> Array:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return rf.Fixed(1).quadrature(nodes)
