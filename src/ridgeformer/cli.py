"""The command line: thin commands over the package. Errors are one sentence on stderr and exit code 2."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ridgeformer._version import __version__
from ridgeformer.bench.config import BenchConfig
from ridgeformer.demonstration import Demonstration, DemonstrationConfig, demonstrate
from ridgeformer.errors import RidgeformerError
from ridgeformer.storage import write_whole

_OutputPath = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


def bench(
    config: Annotated[BenchConfig, tyro.conf.OmitArgPrefixes], json: _OutputPath = None, markdown: _OutputPath = None
) -> int:
    """Measure speed, memory and growth on this machine, against JAX and PyTorch where they are installed (4 minutes).

    Args:
        config: What to measure.
        json: Also write the rows and the machine as JSON.
        markdown: Also write them as a Markdown page.
    """
    from ridgeformer.bench import run_bench

    report = run_bench(config)
    report.print(_console())
    if json is not None:
        _write_json(json, report.as_json())
    if markdown is not None:
        write_whole(markdown, report.as_markdown().encode())
    return 0


def reproduce(config: Annotated[DemonstrationConfig, tyro.conf.OmitArgPrefixes], json: _OutputPath = None) -> int:
    """Train one model of the paper's Table 1 from scratch and measure it on a million fresh sequences (half a minute).

    Args:
        config: Which model, and how long.
        json: Also write the result as JSON.
    """
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=errors, disable=not errors.is_terminal) as progress:
        bar = progress.add_task(f"full, {config.layers} layers, U(0, 5)", total=config.steps)

        def on_step(done: int, loss: float) -> None:
            if done % 100 == 0 or done == config.steps:
                progress.update(bar, completed=done, description=f"full, {config.layers} layers: loss {loss:.4f}")

        result = demonstrate(config, on_step)
    _console().print(_demonstration_table(result))
    if json is not None:
        _write_json(json, result.as_json())
    return 0


def _demonstration_table(result: Demonstration) -> Table:
    title = f"Adjusted loss on {result.sequences:,} fresh sequences, σ ~ U(0, 5) unknown, d = 10, n = 20"
    table = Table("predictor", "adjusted loss", "± s.e.", "median", "largest", "source", title=title)
    table.add_row("predicting zero", f"{result.untrained_loss:.4f}", "", "", "", "measured")
    if result.paper is not None:
        table.add_row(f"full, {result.model.layers} layers, paper", f"{result.paper:.3f}", "", "", "", "printed")
    measured = (result.adjusted_loss, result.standard_error, result.median, result.maximum)
    numbers = [f"{measured[0]:.4f}", f"{measured[1]:.4f}", f"{measured[2]:.4f}", f"{measured[3]:.2f}"]
    label = f"full, {result.model.layers} layers, trained here in {result.seconds:.0f} s"
    table.add_row(label, *numbers, "measured")
    return table


def _console() -> Console:
    """Tables at full width when they go to a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


_COMMANDS: dict[str, Callable[..., int]] = {"reproduce": reproduce, "bench": bench}


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``ridgeformer`` command."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        sys.stdout.write(f"ridgeformer {__version__}\n")
        return
    try:
        code: int = tyro.extras.subcommand_cli_from_dict(
            _COMMANDS,
            prog="ridgeformer",
            description="Linear transformers that solve noisy regressions in their context.",
            args=arguments,
        )
    except RidgeformerError as wrong:
        sys.stderr.write(f"ridgeformer: {wrong}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("ridgeformer: interrupted.\n")
        sys.exit(130)
    sys.exit(code)
