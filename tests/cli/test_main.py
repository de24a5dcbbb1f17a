"""The entry point: help of all commands, exit codes, and whatever can happen to its streams."""

from __future__ import annotations

import inspect
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer import __main__ as door
from ridgeformer.cli import main
from ridgeformer.core.validation import InterruptedRunError, RidgeformerError
from running import Capture, Patch, call, refuses, shell, start, succeeds
from support import run_python

FLAGS = {
    "train": "out resume overwrite config threads tensorboard json kind layers heads noise dim examples seed recipe "
    "start steps batch rate precision sequences",
    "evaluate": "noise examples sequences seed baselines profile layerwise shift json csv",
    "explain": "out json check as-code latex simplest no-ablate noise examples sequences seed",
    "reproduce": "train baselines kinds layers columns seeds no-beyond out sequences workers no-report json",
    "report": "out formats figures no-page",
    "zoo": "sha256 build into export json",
    "bench": "repeats quick only training ablations json",
}


@pytest.mark.parametrize("name", FLAGS)
def test_help_of_a_command_names_its_flags(name: str, capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = succeeds(capsys, name, "--help")
    for flag in FLAGS[name].split():
        assert f"--{flag}" in out
    assert "--settings" not in out  # flags carry no prefix of the config they fill
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("usage:"))


def test_help_names_every_command_and_version_is_the_packages(capsys: Capture) -> None:
    out = succeeds(capsys, "--help")
    assert all(f" {name} " in out for name in FLAGS)
    assert succeeds(capsys, "--version") == f"ridgeformer {rf.__version__}\n"


@pytest.mark.parametrize("name", main.COMMANDS)
def test_summary_of_a_command_is_the_first_paragraph_of_its_help(name: str) -> None:
    """Read from the file; the command itself is not imported for the list of commands."""
    whole = inspect.getdoc(main.find_command(name))
    assert whole is not None
    assert main._summary(name).__doc__ == whole.partition("\n\n")[0]


def test_list_of_commands_imports_none_of_them() -> None:
    code = """
import contextlib, sys
from ridgeformer.cli.main import COMMANDS, main
with contextlib.suppress(SystemExit):
    main(["--help"])
print("imported:", *(name for name in COMMANDS if f"ridgeformer.cli.{name}" in sys.modules))
"""
    assert run_python(code).splitlines()[-1].split() == ["imported:"]


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("train", "--layres", "3"), ("zoo", "--json")])
def test_what_cannot_be_parsed_has_exit_code_2(arguments: tuple[str, ...], capsys: Capture) -> None:
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert "Traceback" not in err
    assert "--layers" in err or "--layres" not in arguments  # the nearest flag


@pytest.mark.parametrize("arguments", [("train", "--out", ""), ("zoo", "--json="), ("report", "--out", "")])
def test_value_that_is_empty_is_refused(arguments: tuple[str, ...], capsys: Capture) -> None:
    refuses(capsys, "needs a value, not an empty text.", *arguments)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RidgeformerError("It broke."), 2, "ridgeformer: It broke.\n"),
        (InterruptedRunError("Go on."), 130, "ridgeformer: Go on.\n"),
        (KeyboardInterrupt(), 130, "ridgeformer: interrupted.\n"),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left"), 2, "ridgeformer: Cannot write to standard output: No space left.\n"),
    ],
)
def test_errors_are_one_sentence_on_stderr_with_their_exit_codes(
    error: BaseException, code: int, text: str, capsys: Capture, monkeypatch: Patch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("ridgeformer.cli.zoo.zoo", fail)
    assert call(capsys, "zoo") == (code, "", text)


def test_ctrl_c_during_import_is_one_line(capsys: Capture, monkeypatch: Patch) -> None:
    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "ridgeformer.cli.main", Interrupted())
    with pytest.raises(SystemExit) as left:
        door.main()
    assert left.value.code == 130
    assert capsys.readouterr().err == "ridgeformer: interrupted.\n"


def test_ctrl_c_while_the_package_itself_is_imported_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt")
    done = shell(f"PYTHONPATH={tmp_path}:$PYTHONPATH ridgeformer zoo", tmp_path)
    assert done.returncode == 130
    assert done.stderr == "ridgeformer: interrupted.\n"


# --- in a process of its own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code", "complaint"),
    [
        ("ridgeformer --help | true", 141, ""),
        ("ridgeformer --version >&-", 2, "ridgeformer: Standard output is closed, so there is nowhere to print.\n"),
        (
            "ridgeformer zoo diag-1 > /dev/full",
            2,
            "ridgeformer: Cannot write to standard output: No space left on device.\n",
        ),
        ("PYTHONIOENCODING=cp1252 ridgeformer evaluate diag-1-uniform-5 --sequences 20 > out", 0, ""),
    ],
)
def test_output_that_cannot_be_written_is_no_traceback(line: str, code: int, complaint: str, tmp_path: Path) -> None:
    done = shell(line, tmp_path)
    assert (done.returncode, done.stderr) == (code, complaint)


def test_ctrl_c_while_kernels_compile_ends_at_once(tmp_path: Path) -> None:
    """On a terminal, or what is taken for one: it says what it is doing, and does not wait until it is done."""
    flags = ("--kind", "diag", "--layers", 2, "--dim", 3, "--examples", 8, "--steps", 9, "--out", tmp_path / "run")
    process = start("train", *flags, RIDGEFORMER_CACHE_DIR=str(tmp_path), FORCE_COLOR="1")
    assert process.stderr is not None
    seen = ""
    while "compiling, about 10 s, once" not in seen:
        read = process.stderr.readline()
        assert read, seen
        seen += read
    time.sleep(0.3)  # into the midst of it
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("ridgeformer: interrupted.\n")  # the run itself would say at which step
    assert "Traceback" not in err
