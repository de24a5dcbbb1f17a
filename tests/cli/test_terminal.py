"""Tables at any width, progress with and without a terminal, and files that are refused before any work is done."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from ridgeformer.cli import terminal
from ridgeformer.cli.terminal import Progress, check_files, make_folder, output_console, print_table, write_json
from ridgeformer.core.validation import InputError
from running import Capture, Patch
from support import one_sentence

NUMBERS = [f"{value:.5f} ± {value / 100:.6f}" for value in (0.123456, 12.3456, 123.456, 3.25, 77.75)]
NAME = "full-12-heads-2-categorical-1+3+5-and-quite-a-long-name"


HEADS = ["predictor", *(f"number {i} of five" for i in range(5)), "note"]
ROWS = [[NAME, *NUMBERS, "words of which there are several"], ["[bold]x[/]", *NUMBERS, ""]]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200, 260])
def test_table_of_any_width_fits_with_every_number_whole(width: int, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table("Title", HEADS, ROWS, words=(0, 6))
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines())
    assert all(text.count(number) == 2 for number in NUMBERS)
    assert "…" not in text
    assert "[bold]x[/]" in text  # text, not markup
    assert (text.count("predictor") == 1) == (width >= 200)  # names are repeated where a table is cut
    assert NAME in text or width < 260


def test_table_with_a_heading_of_one_very_long_word_fits(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table("", ["σ", "x" * 90], [["1", "0.12345"]], words=())
    text = capsys.readouterr().out
    assert "0.12345" in text
    assert all(len(line) <= 40 for line in text.splitlines())


def test_console_in_a_pipe_is_wide_unless_columns_says_otherwise(monkeypatch: Patch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output_console().width == 180
    monkeypatch.setenv("COLUMNS", "80")
    assert output_console().width == 80


def test_progress_without_a_terminal_is_a_plain_line_now_and_then(monkeypatch: Patch) -> None:
    clock, text = [0.0], io.StringIO()
    monkeypatch.setattr(terminal, "ERRORS", Console(file=text, width=80))
    monkeypatch.setattr("ridgeformer.cli.terminal.time.monotonic", lambda: clock[0])
    with Progress(100) as progress:
        tell = progress.stage("fresh sequences", 20, 3)
        for clock[0], done in ((4.0, 5), (12.0, 10), (13.0, 11)):
            tell(done)
        progress.begin("shifts", 40)
        clock[0] = 300.0
        progress.show("shifts", 80, kept=60)
    assert text.getvalue().splitlines() == [
        "fresh sequences: 30% done, about 28 s left",
        "shifts: 80% done, about 5 min left",
    ]


def test_progress_on_a_terminal_is_a_bar_below_a_text_that_is_never_cut(monkeypatch: Patch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(terminal, "ERRORS", Console(file=text, width=80, force_terminal=True))
    words = " ".join(f"loss {number}.12345" for number in range(9))
    with Progress(10, redraw=False) as progress:
        progress.begin("step", 4)
        progress.begin(words, 6)
    shown = " ".join(text.getvalue().split())
    assert all(word in shown for word in words.split())
    assert "40%" in shown
    assert "…" not in shown


def test_write_json_is_utf8_with_a_last_newline_and_null_for_what_is_not_finite(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"σ": [1, None, math.inf], "x": {"y": (math.nan, 2.5)}})
    data = (tmp_path / "a.json").read_bytes()
    assert "σ".encode() in data
    assert data.endswith(b"\n")
    assert json.loads(data) == {"σ": [1, None, None], "x": {"y": [None, 2.5]}}


@pytest.mark.parametrize("name", ["nowhere/out.json", ".", "/dev/full", "/proc/out.json"])
def test_file_that_cannot_be_written_is_refused(name: str, tmp_path: Path) -> None:
    check_files(None, Path("fine.json"))
    with pytest.raises(InputError) as caught:
        check_files(Path(name))
    one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made_or_written_is_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "under", Path("/proc/1")):
        with pytest.raises(InputError, match="Cannot write"):
            make_folder(folder)


def test_text_from_files_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say("a \x1b[2J spec")
    terminal.print_table("", ("name", "loss"), [["\x1b]0;title\a model", "0.1"]])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\a" not in printed
    assert "a �[2J spec" in printed
