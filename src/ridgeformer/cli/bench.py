"""``ridgeformer bench``: speed on this machine, of the kernels and of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from ridgeformer.bench.config import BenchConfig
from ridgeformer.cli.terminal import File, check_folders, output_console, write_json
from ridgeformer.core.storage import write_whole


def bench(
    config: Annotated[BenchConfig, tyro.conf.OmitArgPrefixes],
    training: bool = False,
    ablations: bool = False,
    json: File = None,
    markdown: File = None,
) -> int:
    """Measure speed, memory and growth on this machine, against JAX and PyTorch where they are installed (4 minutes).

    Args:
        config: What to measure.
        training: Instead, train models from scratch and measure the time to a good loss (12 minutes).
        ablations: Instead, leave out the ingredients of the training recipes one by one (10 minutes).
        json: Also write the rows and the machine as JSON.
        markdown: Also write them as a Markdown page; for training, between the markers of docs/training.md.
    """
    check_folders(json, markdown)
    if training or ablations:
        return _bench_training(training, ablations, json, markdown)
    from ridgeformer.bench import run_bench

    report = run_bench(config)
    report.print(output_console())
    if json is not None:
        write_json(json, report.as_json())
    if markdown is not None:
        write_whole(markdown, report.as_markdown().encode())
    return 0


def _bench_training(training: bool, ablations: bool, json: Path | None, markdown: Path | None) -> int:
    import training_page

    from ridgeformer.bench.machine import OthersWatch, describe_machine
    from ridgeformer.reproduction import training_targets

    errors, console, watch = Console(stderr=True), output_console(), OthersWatch()

    def show(trial: training_targets.Trial) -> None:
        loss, name = trial.evaluation.adjusted_loss, f"{trial.model} {trial.layers} {trial.noise}"
        errors.print(f"{name}, {trial.what}: {loss:.4g} in {trial.seconds:.0f} s", highlight=False, soft_wrap=True)

    reached = training_targets.time_to_target(show) if training else []
    left_out = training_targets.ablations(show) if ablations else []
    if reached:
        console.print(training_page.target_table(reached))
    if left_out:
        console.print(training_page.ablation_table(left_out))
    machine = describe_machine()
    if json is not None:
        trials = {"targets": [trial.as_json() for trial in reached], "ablations": [t.as_json() for t in left_out]}
        write_json(json, {"machine": machine, **trials})
    if markdown is not None:
        busy = watch.share()
        text = f"{machine['cores']} cores of {machine['cpu']}"
        text += "" if busy is None else f", of which other processes used {busy:.0%} meanwhile"
        training_page.write_training_page(markdown, reached, left_out, text)
    return 0
