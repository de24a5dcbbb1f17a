"""The command line: thin commands over the package. Errors are one sentence on stderr and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import tyro

from ridgeformer._version import __version__
from ridgeformer.cli.bench import bench
from ridgeformer.cli.evaluate import evaluate
from ridgeformer.cli.explain import explain
from ridgeformer.cli.report import report
from ridgeformer.cli.reproduce import reproduce
from ridgeformer.cli.train import config_from_arguments, train_command
from ridgeformer.cli.zoo import zoo
from ridgeformer.core.validation import InterruptedRunError, RidgeformerError

_INTERRUPTED = 130  # what a shell gives for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``ridgeformer`` command."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        sys.stdout.write(f"ridgeformer {__version__}\n")
        return
    try:
        commands: dict[str, Callable[..., int]] = {
            "train": train_command(config_from_arguments(arguments)),
            "evaluate": evaluate,
            "explain": explain,
            "reproduce": reproduce,
            "report": report,
            "zoo": zoo,
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
        sys.exit(_INTERRUPTED if isinstance(wrong, InterruptedRunError) else 2)
    except KeyboardInterrupt:
        sys.stderr.write("ridgeformer: interrupted.\n")
        sys.exit(_INTERRUPTED)
    sys.exit(code)
