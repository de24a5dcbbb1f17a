"""``ridgeformer bench``: speed on this machine, of the kernels and of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ridgeformer.bench import EXPECTED_SECONDS, SECTIONS, BenchConfig, BenchReport, run_bench
from ridgeformer.bench.machine import OthersWatch, describe_machine
from ridgeformer.bench.rows import NUMBER_HEADS, table_text
from ridgeformer.cli import terminal
from ridgeformer.reproduction import training_targets

_COLOURS = {True: "green", False: "red", None: None}


def bench(
    config: Annotated[BenchConfig, tyro.conf.OmitArgPrefixes],
    training: bool = False,
    ablations: bool = False,
    json: terminal.File = None,
) -> None:
    """Measure speed and memory on this machine (4 minutes).

    JAX and PyTorch are measured too, if they are installed. One section shows how time grows with the problem size.

    Args:
        config: What to measure.
        training: Instead, train models from scratch and measure the time to a good loss (12 minutes).
        ablations: Instead, train without one ingredient of the training recipes at a time (10 minutes).
        json: Also write the rows and a description of the machine as JSON.
    """
    terminal.check_files(json)
    if training or ablations:
        terminal.refuse(
            "--training and --ablations train whole models", {"--repeats, --quick and --only": config != BenchConfig()}
        )
        _bench_training(training, ablations, json)
        return
    with terminal.Progress(sum(EXPECTED_SECONDS[name] for name in config.sections), redraw=False) as progress:
        report = run_bench(config, lambda name: progress.begin(name, EXPECTED_SECONDS[name]))
    print_bench(report)
    terminal.write_json(json, report.as_json())


def print_bench(report: BenchReport) -> None:
    """A description of the machine, one table for each section, and how many targets were met."""
    machine, others, outcome = report.about()
    terminal.say(machine)
    terminal.say(others)
    for name, rows in report.sections():
        heads, cells = table_text(rows)
        words = [number for number, head in enumerate(heads) if head not in NUMBER_HEADS]
        ends = [row.group != following.group for row, following in zip(rows, [*rows[1:], rows[-1]], strict=True)]
        terminal.say(f"\n{name}: {SECTIONS[name]}")
        terminal.print_table("", heads, cells, words, [_COLOURS[row.met] for row in rows], ends)
    terminal.say(f"\n{outcome}")


def _bench_training(training: bool, ablations: bool, json: Path | None) -> None:
    watch = OthersWatch()

    def shown(trial: training_targets.Trial) -> training_targets.Trial:
        loss = trial.evaluation.adjusted_loss
        terminal.warn(f"{trial.name}, {trial.what}: {loss:.4g} in {trial.seconds:.0f} s")
        return trial

    reached = tuple(map(shown, training_targets.time_to_target())) if training else ()
    left_out = tuple(map(shown, training_targets.ablations())) if ablations else ()
    record = training_targets.TrialsRecord(describe_machine(), watch.share(), reached, left_out)
    for table, words in zip(record.tables(), ((0,), (0, 1)), strict=True):
        if table.rows:
            terminal.print_table(*table, words=words)
    terminal.write_json(json, record.as_json())
