"""The command line: thin commands over the package. Errors are one sentence on stderr and exit code 2."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ridgeformer._version import __version__
from ridgeformer.bench.config import BenchConfig
from ridgeformer.errors import InputError, RidgeformerError
from ridgeformer.storage import write_whole
from ridgeformer.training.config import TrainConfig

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
_Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]


def _train_command(default: TrainConfig) -> Callable[..., int]:
    def train(
        settings: Annotated[TrainConfig, tyro.conf.OmitArgPrefixes] = default,
        out: _Folder = None,
        resume: _Folder = None,
        overwrite: bool = False,
        config: _File = None,
        threads: int | None = None,
        json: _File = None,
    ) -> int:
        """Train one model and measure it on fresh sequences.

        Args:
            settings: What to train.
            out: Keep the run in this folder; it can then go on after any interruption.
            resume: Go on with the run in this folder; all other settings are taken from it.
            overwrite: Replace a run that is already in --out.
            config: Read settings from a JSON file; flags given beside it win.
            threads: Threads to use; the result does not depend on it.
            json: Also write the result as JSON.
        """
        return _train(settings, out, resume, overwrite, threads, json)

    return train


def _train(
    config: TrainConfig, out: Path | None, resume: Path | None, overwrite: bool, threads: int | None, json: Path | None
) -> int:
    from ridgeformer.training.progress import TrainProgress, result_table
    from ridgeformer.training.recipes import legs
    from ridgeformer.training.run_directory import RunDirectory
    from ridgeformer.training.train import train

    if resume is not None:
        if out is not None or overwrite:
            raise InputError("--resume goes on with a run where it is: leave out --out and --overwrite.")
        out, config = resume, RunDirectory(resume).config()
    errors = Console(stderr=True)
    steps = sum(leg.steps for leg in legs(config))
    with TrainProgress(config, steps, errors) as progress:
        result = train(
            config,
            out=out,
            resume=resume is not None,
            overwrite=overwrite,
            callbacks=[progress],
            on_message=lambda message: errors.print(f"ridgeformer: {message}", highlight=False),
            threads=threads,
        )
    console = _console()
    console.print(result_table(config, result))
    if out is not None:
        console.print(
            f"Files: {out / 'model.safetensors'}, {out / 'result.json'}, {out / 'history.jsonl'}", soft_wrap=True
        )
    if json is not None:
        _write_json(json, {"config": config.as_json(), **result.as_json()})
    return 0


def bench(config: Annotated[BenchConfig, tyro.conf.OmitArgPrefixes], json: _File = None, markdown: _File = None) -> int:
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


def reproduce(layers: int = 4, seed: int = 0, threads: int | None = None, json: _File = None) -> int:
    """Train one model of the paper's Table 1 from scratch and measure it on a million fresh sequences (a minute).

    Args:
        layers: Layers of the full model that is trained on σ ~ U(0, 5).
        seed: Seed of the initial weights and of all contexts.
        threads: Threads to use; the result does not depend on it.
        json: Also write the result as JSON.
    """
    return _train(TrainConfig(model="full", layers=layers, seed=seed), None, None, False, threads, json)


def _console() -> Console:
    """Tables at full width when they go to a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def _default_config(arguments: list[str]) -> TrainConfig:
    """The settings in the file named by --config, if there is one: what the other flags start from."""
    for number, argument in enumerate(arguments):
        if argument.startswith("--config="):
            return TrainConfig.from_file(Path(argument.removeprefix("--config=")))
        if argument == "--config" and number + 1 < len(arguments):
            return TrainConfig.from_file(Path(arguments[number + 1]))
    return TrainConfig()


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``ridgeformer`` command."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        sys.stdout.write(f"ridgeformer {__version__}\n")
        return
    try:
        commands: dict[str, Callable[..., int]] = {
            "train": _train_command(_default_config(arguments)),
            "reproduce": reproduce,
            "bench": bench,
        }
        code: int = tyro.extras.subcommand_cli_from_dict(
            commands,
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
