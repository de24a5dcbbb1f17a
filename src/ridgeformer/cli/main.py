"""The entry point: it finds the command, and turns any error into one sentence on stderr and an exit code."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import tyro

from ridgeformer import kernels
from ridgeformer._version import __version__
from ridgeformer.cli import terminal
from ridgeformer.core.validation import InputError, InterruptedRunError, RidgeformerError

COMMANDS = ("train", "sweep", "collect", "evaluate", "fit", "curve", "explain", "reproduce", "report", "zoo", "bench")
_WRONG, _INTERRUPTED, _PIPE_CLOSED = 2, 130, 141  # the last two are what a shell gives for Ctrl-C and a closed pipe
_FORMER_FLAGS = {"--model": "--kind", "--models": "--kinds", "--context": "--examples"}
"""Flags that had another name, which still works."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name, and exit with its code; by default the arguments of the process."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        code = _give_up_output(_PIPE_CLOSED)
    except OSError as failed:
        where = "Cannot write to standard output" if failed.filename is None else failed.filename
        code = _give_up_output(_complain(f"{where}: {failed.strerror or failed}."))
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    try:
        if sys.stdout is None:
            raise InputError("Standard output is closed, so there is nowhere to print.")
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # an encoding without σ shows ? rather than failing
        if arguments == ["--version"]:
            sys.stdout.write(f"ridgeformer {__version__}\n")
            return 0
        arguments = _present_flags(arguments)
        with _terminated_like_ctrl_c(), _watching_compilation(), terminal.PRIORS:
            return _parse(arguments) or 0
    except SystemExit as left:  # after --help, and what tyro cannot parse
        return left.code if isinstance(left.code, int) else _WRONG
    except InterruptedRunError as stopped:
        return _complain(str(stopped), _INTERRUPTED)
    except RidgeformerError as wrong:
        return _complain(str(wrong))
    except KeyboardInterrupt:
        return _complain("interrupted.", _INTERRUPTED)


def _parse(arguments: list[str]) -> int | None:
    """Run the command that the first argument names. Only its file is imported; all are only after a mistake."""
    if arguments and arguments[0] in COMMANDS:
        name, *rest = arguments
        command = find_command(name, rest)
        code: int | None = tyro.cli(
            command, prog=f"ridgeformer {name}", description=_wrapped_description(command), args=rest
        )
        return code
    only_help = bool(arguments) and arguments[0] in ("-h", "--help")
    tyro.extras.subcommand_cli_from_dict(
        {name: _summary(name) if only_help else find_command(name, arguments) for name in COMMANDS},
        prog="ridgeformer",
        description="Linear transformers that solve noisy regressions in their context.",
        args=arguments,
    )
    return 0


def _wrapped_description(command: Callable[..., int | None]) -> str:
    """What a command does, from its docstring, in lines that fit the terminal: tyro does not break long lines.

    It joins lines again, except lines that begin with a space. So the second line and those after it are indented.
    """
    width = shutil.get_terminal_size().columns
    text = (inspect.getdoc(command) or "").partition("\n\nArgs:")[0]
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    fill = textwrap.TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False).fill
    return "\n\n".join(map(fill, paragraphs))


def find_command(name: str, arguments: Sequence[str] = ()) -> Callable[..., int | None]:
    """The function behind a command; the flags of train depend on the file that its arguments may name."""
    module = importlib.import_module(f"ridgeformer.cli.{name}")
    command: Callable[..., int | None]
    command = module.train_command(arguments) if name == "train" else getattr(module, name)
    return command


def _summary(name: str) -> Callable[[], None]:
    """A stand-in that only has the first paragraph of a command's help, read from its file without importing it."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    text = next(ast.get_docstring(node) or "" for node in functions if node.name in (name, "command"))

    def stand_in() -> None:
        """Never called."""

    stand_in.__doc__ = text.partition("\n\n")[0]
    return stand_in


def _present_flags(arguments: list[str]) -> list[str]:
    """The arguments with former flags under their present names; values that are empty are refused."""
    present = []
    for before, argument in pairwise(["", *arguments]):
        flag, equals, value = argument.partition("=")
        named = flag if equals else "" if argument else before
        if named.startswith("--") and not value:
            raise InputError(f"{named} needs a value, not an empty text.")
        present.append(_FORMER_FLAGS.get(flag, flag) + equals + value)
    return present


def _complain(sentence: str, code: int = _WRONG) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"ridgeformer: {sentence}\n")
    return code


def _give_up_output(code: int) -> int:
    """Throw away what is still buffered: the interpreter would try to write it again when it exits, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


@contextlib.contextmanager
def _terminated_like_ctrl_c() -> Iterator[None]:
    """Take SIGTERM, which batch systems send some time before they kill, as Ctrl-C: runs are saved.

    A shell starts jobs in the background with Ctrl-C ignored, so its handler may be missing.
    """

    def terminated(number: int, frame: object) -> None:
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)
        else:
            raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminated) if in_main else None
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _watching_compilation() -> Iterator[None]:
    """Say on a terminal, once, that kernels are being compiled; meanwhile Ctrl-C ends the process at once.

    Most of that time is spent inside LLVM, where Python does not see signals. A thread sees them, through a pipe.
    """
    compiling = told = False

    def note(begins: bool) -> None:
        nonlocal compiling, told
        compiling = begins
        if begins and not told and terminal.ERRORS.is_terminal:
            told = True
            terminal.warn("compiling, about 10 s, once")

    def listen() -> None:
        while heard := os.read(reading, 1):
            if compiling and heard[0] in (signal.SIGINT, signal.SIGTERM):
                terminal.ERRORS.show_cursor(True)
                os._exit(_complain("interrupted.", _INTERRUPTED))
        os.close(reading)

    kernels.compile_hooks.append(note)
    in_main = threading.current_thread() is threading.main_thread()
    if in_main:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing)
        threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        kernels.compile_hooks.remove(note)
        if in_main:
            signal.set_wakeup_fd(before)
            os.close(writing)
