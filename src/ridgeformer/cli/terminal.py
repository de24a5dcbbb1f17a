"""What all commands share: kinds of arguments, the console, JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, shortened

File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]

_PIPE_WIDTH = 140  # columns of the widest table of numbers


def output_console(pipe_width: int = _PIPE_WIDTH) -> Console:
    """Tables at full width when they go to a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=pipe_width)


def check_folders(*files: Path | None) -> None:
    """Refuse files that could not be written later for want of a folder, before any work is done."""
    for file in files:
        if file is not None and not file.parent.is_dir():
            raise InputError(f"There is no folder {shortened(str(file.parent))} to write {file.name} in.")


def write_json(path: Path, value: Any) -> None:
    """Write a value as a JSON file, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
