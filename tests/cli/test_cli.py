"""The ``ridgeformer`` command: help of all its parts, its exit codes, and the parts without a file of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro
from running import call, complaint, read_json, succeeds

import ridgeformer as rf
from ridgeformer.bench.config import SECTIONS, BenchConfig
from ridgeformer.cli.bench import bench
from ridgeformer.cli.terminal import output_console, write_json
from ridgeformer.core.validation import InterruptedRunError, RidgeformerError
from ridgeformer.evaluation import Evaluation
from ridgeformer.reproduction import training_targets
from ridgeformer.reproduction.training_targets import Trial

FLAGS = {
    "train": "out resume overwrite config threads tensorboard json model layers heads noise dim context seed recipe "
    "start steps batch rate precision sequences",
    "evaluate": "noise context sequences seed baselines profile layerwise shift json csv",
    "explain": "out json check as-code latex simplest no-ablate noise context sequences seed",
    "reproduce": "train baselines models layers columns seeds no-beyond out sequences workers no-report json markdown",
    "report": "out formats figures no-page",
    "zoo": "build into json",
    "bench": "repeats quick only training ablations json markdown",
}


@pytest.mark.parametrize("name", FLAGS)
def test_help_of_a_command_names_its_flags(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, name, "--help")
    assert code == 0
    for flag in FLAGS[name].split():
        assert f"--{flag}" in out
    assert "settings." not in out  # flags carry no prefix of the config they fill


def test_help_names_every_command_in_one_line_each() -> None:
    out = succeeds("--help")
    for name in FLAGS:
        assert f" {name} " in out


def test_version_is_the_packages() -> None:
    assert succeeds("--version") == f"ridgeformer {rf.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("train", "--layres", "3"), ("zoo", "--json")])
def test_what_cannot_be_parsed_has_exit_code_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert "Traceback" not in err


def test_unknown_flag_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--layers" in call(capsys, "train", "--layres", "3")[2]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RidgeformerError("It broke."), 2, "ridgeformer: It broke.\n"),
        (InterruptedRunError("Go on."), 130, "ridgeformer: Go on.\n"),
        (KeyboardInterrupt(), 130, "ridgeformer: interrupted.\n"),
    ],
)
def test_errors_are_one_sentence_on_stderr_with_their_exit_codes(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> int:
        raise error

    monkeypatch.setattr(tyro.extras, "subcommand_cli_from_dict", fail)
    assert call(capsys, "zoo") == (code, "", text)


# --- output -----------------------------------------------------------------------------------------------------------


def test_console_in_a_pipe_is_wide_enough_for_tables() -> None:
    assert output_console().width == 140
    assert output_console(170).width == 170


def test_write_json_is_utf8_with_a_last_newline(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"σ": [1, None]})
    data = (tmp_path / "a.json").read_bytes()
    assert "σ".encode() in data
    assert data.endswith(b"\n")
    assert json.loads(data) == {"σ": [1, None]}


# --- bench ------------------------------------------------------------------------------------------------------------


def test_bench_of_one_quick_section_writes_json_and_markdown(tmp_path: Path) -> None:
    files = tmp_path / "b.json", tmp_path / "b.md"
    out = succeeds(
        "bench", "--quick", "--repeats", "1", "--only", "sampling", "--json", files[0], "--markdown", files[1]
    )
    assert "Share of a step spent drawing contexts" in " ".join(out.split())
    found = read_json(files[0])
    assert {row["section"] for row in found["rows"]} == {"sampling"}
    assert files[1].read_text().startswith("#")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--quick",), BenchConfig(quick=True)),
        (("--repeats", "3", "--only", "step", "memory"), BenchConfig(repeats=3, only=("step", "memory"))),
        ((), BenchConfig()),
    ],
)
def test_bench_flags_fill_its_config(
    flags: tuple[str, ...],
    expected: BenchConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[BenchConfig] = []

    def fake(config: BenchConfig) -> Any:
        seen.append(config)
        raise RidgeformerError("Enough.")

    monkeypatch.setattr("ridgeformer.bench.run_bench", fake)
    assert call(capsys, "bench", *flags)[0] == 2
    assert seen == [expected]


def test_bench_of_an_unknown_section_names_the_nearest() -> None:
    text = complaint("bench", "--only", "memroy")
    assert "Did you mean 'memory'?" in text
    assert all(name in text for name in SECTIONS)


def test_bench_of_training_writes_its_page_between_markers_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = Trial(
        "recipe", "diag", 4, "uniform:5", 0, Evaluation.of(np.full(9, 0.05), np.full(9, 1.0)), 3.0, 0.06, 60.0
    )

    def fake(on_trial: Any) -> list[Trial]:
        on_trial(trial)
        return [trial]

    monkeypatch.setattr(training_targets, "time_to_target", fake)
    monkeypatch.setattr(training_targets, "ablations", fake)
    page, file = tmp_path / "page.md", tmp_path / "t.json"
    page.write_text("top <!-- begin time to target --><!-- end time to target --> middle\n")
    assert bench(BenchConfig(), training=True, json=file, markdown=page) == 0
    text = page.read_text()
    assert text.startswith("top <!-- begin time to target -->\n\nMeasured on ")
    assert text.endswith("<!-- end time to target --> middle\n")
    found = read_json(file)
    assert found["targets"][0]["met"] is True
    assert found["ablations"] == []
    printed = capsys.readouterr()
    assert "Time to target" in printed.out
    assert "diag 4 uniform:5, recipe: 0.05 in 3 s" in printed.err
    assert bench(BenchConfig(), ablations=True) == 0
    assert "What the ingredients are worth" in capsys.readouterr().out
