"""``ridgeformer report``: what it writes and prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_up_results import made_up, write_results
from ridgeformer.cli.report import report
from running import Capture, Patch, call, refuses, succeeds


def test_report_of_the_default_folder_draws_into_its_subfolder(tmp_path: Path, capsys: Capture) -> None:
    """As a user does it: no argument, the folder that 'ridgeformer reproduce' writes by default."""
    write_results(tmp_path / "reproduction")
    out = succeeds(capsys, "report", "--no-page", "--formats", "svg", "--figures", "shift")
    assert out == "Figures shift as svg in reproduction/report\n"
    assert [path.name for path in (tmp_path / "reproduction" / "report").iterdir()] == ["figure-shift.svg"]


def test_report_writes_chosen_figures_and_formats_and_then_the_page(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    asked: list[tuple[Path, Path]] = []

    def fake(results: Path, out: Path) -> Path:
        asked.append((results, out))
        return out / "index.html"

    monkeypatch.setattr("ridgeformer.page.write_page", fake)
    weights = made_up("weights").as_json()
    another = {**weights["models"][0], "name": "[bold]x[/]"}
    folder = write_results(tmp_path / "r", weights=weights | {"models": [another]})
    code, out, err = call(
        capsys, "report", folder, "--out", tmp_path / "o", "--figures", "4", "depth", "--formats", "svg", "pdf"
    )
    assert (code, err) == (0, "")
    names = {path.name for path in (tmp_path / "o").iterdir()}
    assert names == {f"figure-{name}.{suffix}" for name in ("4", "depth") for suffix in ("svg", "pdf")}
    assert asked == [(folder, tmp_path / "o")]
    lines = out.splitlines()
    assert lines[0] == "Figure 4: full-4-categorical-1+3 is missing; this is [bold]x[/]."  # text, not markup
    assert lines[1] == f"Figures 4, depth as svg, pdf in {tmp_path / 'o'}"
    assert lines[2] == f"Page: {tmp_path / 'o' / 'index.html'}"


def test_report_of_some_records_names_the_commands_for_the_others(tmp_path: Path, capsys: Capture) -> None:
    folder = write_results(tmp_path / "r", "training", "table1", "profiles", "readouts", "weights")
    report(folder, formats=("svg",), page=False)
    printed = capsys.readouterr().out
    command = f"make it with: ridgeformer reproduce --train --out {folder}"
    assert f"Figure training: There is no training.json in {folder}; {command}" in printed.splitlines()
    assert printed.splitlines()[-1] == f"Figures shift as svg in {folder / 'report'}"


def test_report_of_no_folder_is_one_sentence_with_the_command(tmp_path: Path, capsys: Capture) -> None:
    text = refuses(capsys, "make it with: ridgeformer reproduce --out reproduction", "report")
    assert "There is no folder 'reproduction' with results" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--figures", "9"), "figure must be one of 1, 2, 3, 4, 5, 6, 7, bayes, training, depth, shift, not '9'."),
        (("--figures", "trainin"), "Did you mean 'training'?"),
        (("--formats", "gif"), "format must be one of svg, png, pdf, not 'gif'."),
        (("--figures", "training"), "ridgeformer reproduce --train --out"),
        (("--out", "/proc/report"), "Cannot write /proc/report"),
    ],
)
def test_report_refuses_what_it_cannot_draw_with_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = write_results(tmp_path / "r", "training")
    refuses(capsys, sentence, "report", folder, *arguments)


def test_report_of_a_damaged_record_is_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    folder = write_results(tmp_path / "r")
    (folder / "table1.json").write_text('{"record": "table1", "entries": [{"method": "full"')
    refuses(capsys, f"ridgeformer: {folder / 'table1.json'} is cut off or is not JSON", "report", folder)
