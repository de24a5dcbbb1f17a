"""``ridgeformer train``: one model, from random weights or from where a run was stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from ridgeformer.cli.terminal import File, Folder, check_folders, output_console, write_json
from ridgeformer.core.validation import InputError
from ridgeformer.training.config import TrainConfig


def train_command(default: TrainConfig) -> Callable[..., int]:
    """The command, with the settings that flags start from."""

    def train(
        settings: Annotated[TrainConfig, tyro.conf.OmitArgPrefixes] = default,
        out: Folder = None,
        resume: Folder = None,
        overwrite: bool = False,
        config: File = None,
        threads: int | None = None,
        tensorboard: Folder = None,
        json: File = None,
    ) -> int:
        """Train one model and measure it on fresh sequences.

        Args:
            settings: What to train.
            out: Keep the run in this folder; it can then go on after any interruption.
            resume: Go on with the run in this folder; all other settings are taken from it.
            overwrite: Replace a run that is already in --out.
            config: Read settings from a JSON file; flags given beside it win.
            threads: Threads to use; the result does not depend on it.
            tensorboard: Also log losses for TensorBoard in this folder (needs ridgeformer[tensorboard]).
            json: Also write the result as JSON.
        """
        return run_training(settings, out, resume, overwrite, threads, tensorboard, json)

    return train


def run_training(
    config: TrainConfig,
    out: Path | None = None,
    resume: Path | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    tensorboard: Path | None = None,
    json: Path | None = None,
) -> int:
    """Train with a progress display, print the verdict and where the files are."""
    from ridgeformer.cli.training_progress import TrainProgress, result_table
    from ridgeformer.training.recipes import legs
    from ridgeformer.training.run_directory import RunDirectory
    from ridgeformer.training.train import train

    check_folders(json)
    if resume is not None:
        if out is not None or overwrite:
            raise InputError("--resume goes on with a run where it is: leave out --out and --overwrite.")
        out, config = resume, RunDirectory(resume).config()
    errors = Console(stderr=True)
    steps = sum(leg.steps for leg in legs(config))
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(TrainProgress(config, steps, errors))
        callbacks: list[Callable[..., None]] = [progress]
        if tensorboard is not None:
            from ridgeformer.training.tensorboard import TensorBoardLog

            callbacks.append(stack.enter_context(TensorBoardLog(tensorboard)))
        result = train(
            config,
            out=out,
            resume=resume is not None,
            overwrite=overwrite,
            callbacks=callbacks,
            on_message=lambda message: errors.print(f"ridgeformer: {message}", highlight=False),
            threads=threads,
        )
    console = output_console()
    console.print(result_table(config, result, progress.bayes_limit))
    if out is not None:
        files = ", ".join(str(out / name) for name in ("model.safetensors", "result.json", "history.jsonl"))
        console.print(f"Files: {files}", soft_wrap=True, highlight=False)
        console.print(
            f"Try next: ridgeformer evaluate {out / 'model.safetensors'} --baselines --profile",
            soft_wrap=True,
            highlight=False,
        )
    if json is not None:
        write_json(json, {"config": config.as_json(), **result.as_json()})
    return 0


def config_from_arguments(arguments: list[str]) -> TrainConfig:
    """The settings in the file named by --config, if there is one: what the other flags start from."""
    for number, argument in enumerate(arguments):
        if argument.startswith("--config="):
            return TrainConfig.from_file(Path(argument.removeprefix("--config=")))
        if argument == "--config" and number + 1 < len(arguments):
            return TrainConfig.from_file(Path(arguments[number + 1]))
    return TrainConfig()
