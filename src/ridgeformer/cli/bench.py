"""``ridgeformer bench``: speed on this machine, of the kernels and of training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ridgeformer.bench import EXPECTED_SECONDS, SECTIONS, BenchConfig, BenchReport, run_bench
from ridgeformer.bench.machine import OthersWatch, describe_machine
from ridgeformer.bench.rows import NUMBER_HEADS, table_text
from ridgeformer.cli import terminal

if TYPE_CHECKING:
    from rich.console import Console

    from ridgeformer.reproduction.training_targets import Trial

_COLOURS = {True: "green", False: "red", None: None}


def bench(
    config: Annotated[BenchConfig, tyro.conf.OmitArgPrefixes],
    training: bool = False,
    ablations: bool = False,
    json: terminal.File = None,
) -> int:
    """Measure speed, memory and growth on this machine, against JAX and PyTorch where they are installed (4 minutes).

    Args:
        config: What to measure.
        training: Instead, train models from scratch and measure the time to a good loss (12 minutes).
        ablations: Instead, leave out the ingredients of the training recipes one by one (10 minutes).
        json: Also write the rows and the machine as JSON.
    """
    terminal.check_files(json)
    if training or ablations:
        terminal.refuse(
            "--training and --ablations train whole models", {"--repeats, --quick and --only": config != BenchConfig()}
        )
        return _bench_training(training, ablations, json)
    with terminal.Progress(sum(EXPECTED_SECONDS[name] for name in config.sections), redraw=False) as progress:
        report = run_bench(config, lambda name: progress.begin(name, EXPECTED_SECONDS[name]))
    print_bench(report, terminal.output_console())
    if json is not None:
        terminal.write_json(json, report.as_json())
    return 0


def print_bench(report: BenchReport, console: Console) -> None:
    """One table per section, between what the machine is and how many targets were met."""
    machine, others, outcome = report.about()
    terminal.say(console, machine)
    terminal.say(console, others)
    for name, rows in report.sections():
        heads, cells = table_text(rows)
        words = [number for number, head in enumerate(heads) if head not in NUMBER_HEADS]
        ends = [row.group != following.group for row, following in zip(rows, [*rows[1:], rows[-1]], strict=True)]
        terminal.say(console, f"\n{name}: {SECTIONS[name]}")
        terminal.print_table(console, "", heads, cells, words, [_COLOURS[row.met] for row in rows], ends)
    terminal.say(console, f"\n{outcome}")


def _bench_training(training: bool, ablations: bool, json: Path | None) -> int:
    from ridgeformer.reproduction import training_targets

    console, watch = terminal.output_console(), OthersWatch()

    def show(trial: Trial) -> None:
        loss = trial.evaluation.adjusted_loss
        terminal.say(terminal.ERRORS, f"{trial.name}, {trial.what}: {loss:.4g} in {trial.seconds:.0f} s")

    reached = training_targets.time_to_target(show) if training else []
    left_out = training_targets.ablations(show) if ablations else []
    record = training_targets.TrialsRecord(describe_machine(), watch.share(), tuple(reached), tuple(left_out))
    for table, words in zip(record.tables(), ((0,), (0, 1)), strict=True):
        if table.rows:
            terminal.print_table(console, *table, words=words)
    if json is not None:
        terminal.write_json(json, record.as_json())
    return 0
