"""``ridgeformer train``: train one model, or continue a run that was stopped."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import count, pairwise
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ridgeformer.baselines import baselines_for
from ridgeformer.cli import terminal
from ridgeformer.cli.evaluate import paper_loss
from ridgeformer.core.distributions import load_noise
from ridgeformer.core.storage import read_whole, strict_json
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import evaluate
from ridgeformer.reproduction.cells import zoo_name
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.stages import StepInfo
from ridgeformer.training.train import TrainResult, tensorboard_log, train
from ridgeformer.zoo import load

_BAYES_SEQUENCES = 16_384  # to show the Bayes limit within a percent or two after half a second
_ENGINE_HELP = (
    "kernels: compiled code of this package, for gdpp, diag and full. torch: PyTorch, also for other layers, with "
    "other options (needs ridgeformer[torch]); see 'ridgeformer train --engine torch --help'."
)


def train_command(arguments: Sequence[str]) -> Callable[..., None]:
    """The command. If the arguments have --config, the settings in that file are the defaults of the options."""
    parts = [(*argument.partition("="), following) for argument, following in pairwise([*arguments, ""])]
    values = {flag: value if equals else following for flag, equals, value, following in parts}
    if values.get("--engine") == "torch" or _is_of_torch(values.get("--resume")):
        from ridgeformer.cli.train_torch import torch_command  # torch takes seconds to import, and need not be there

        return torch_command({flag for flag in values if flag.startswith("--")})
    file, noise = values.get("--config"), values.get("--noise")
    default = TrainConfig.from_file(Path(file), load_noise(noise) if noise else None) if file else TrainConfig()
    given = {f"--{field.name}" for field in fields(TrainConfig)} & values.keys()

    def command(
        settings: Annotated[TrainConfig, tyro.conf.OmitArgPrefixes] = default,
        out: terminal.Folder = None,
        resume: terminal.Folder = None,
        overwrite: bool = False,
        config: terminal.File = None,
        threads: terminal.Count = None,
        engine: Annotated[Literal["kernels", "torch"], tyro.conf.arg(help=_ENGINE_HELP)] = "kernels",
        tensorboard: terminal.Folder = None,
        json: terminal.File = None,
    ) -> None:
        """Train one model, measure it on fresh sequences, and save it.

        The model sees contexts of n examples (x, y) with y = <w, x> + noise, and predicts y for one more x. Each
        context has its own weights w and its own noise level σ, which the model is not told.

        The run can be interrupted at any time; --resume continues it.

        Args:
            settings: What to train.
            out: Folder for the run; by default a new folder in runs/, named after what is trained.
            resume: Continue the run in this folder, with the settings it was started with.
            overwrite: Replace the run that is already in --out.
            config: Read settings from a JSON file; options on the command line take precedence.
            threads: Threads to use; by default one for each core. The result does not depend on it.
            tensorboard: Also log losses for TensorBoard in this folder (needs ridgeformer[tensorboard]).
            json: Also write the result as JSON.
        """
        if resume is not None:
            own = {"--noise"} if settings.own_prior else set()  # a user's own prior, which no file can restore
            chosen = {"--out": out, "--overwrite": overwrite, "--config": config, **dict.fromkeys(given - own, True)}
            terminal.refuse("--resume continues a run in its folder with its own settings", chosen)
        elif overwrite and out is None:
            raise InputError("--overwrite replaces the run in --out: name that folder.")
        run_training(settings, out or resume, resume is not None, overwrite, threads, tensorboard, json)

    return command


def _is_of_torch(folder: str | None) -> bool:
    """Whether the run in a folder was begun with --engine torch."""
    with contextlib.suppress(InputError, ValueError, RecursionError):
        values = strict_json(read_whole(Path(folder or "", "config.json"), 1 << 20))
        return isinstance(values, dict) and values.get("engine") == "torch"
    return False


def run_training(
    config: TrainConfig,
    out: Path | None,
    resume: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    tensorboard: Path | None = None,
    json: Path | None = None,
) -> None:
    """Train with a progress display, then print the result and where the files are.

    With ``resume`` the settings are those of the run in ``out``. Without ``out`` a new folder is chosen.
    """
    terminal.check_files(json)
    start = None if resume or config.start is None else load(config.start)  # refused before there is a folder
    out = _free_folder(config) if out is None else out
    config = RunDirectory(out).config(config.own_prior) if resume else config
    with contextlib.ExitStack() as stack:
        display = stack.enter_context(TrainingDisplay(config))
        callbacks: list[Callable[[StepInfo], object]] = [display.show_step]
        if tensorboard is not None:
            callbacks.append(stack.enter_context(tensorboard_log(tensorboard)))
        result = train(
            config,
            out=out,
            resume=resume,
            overwrite=overwrite,
            callbacks=callbacks,
            on_message=lambda message: terminal.warn(f"ridgeformer: {message}"),
            threads=threads,
            given=start,
        )
    _print_result(config, result, display)
    files = ", ".join(str(out / name) for name in ("model.safetensors", "result.json", "history.jsonl"))
    terminal.say(f"Files: {files}", to_copy=True)
    follow_up = f"ridgeformer evaluate {out / 'model.safetensors'} --baselines --profile"
    terminal.say(f"Try next: {follow_up}", to_copy=True)
    terminal.write_json(json, {"config": config.as_json(), **result.as_json()})


def _size(config: TrainConfig) -> str:
    """What is trained: diag, 4 layers, 2 registers."""
    registers = f", {config.registers} registers" if config.registers else ""
    return f"{config.kind}, {config.layers} layers{registers}"


def _free_folder(config: TrainConfig) -> Path:
    """A folder in runs that is not there yet, named like a model of the zoo: full-7-uniform-5, full-7-uniform-5-2."""
    size = {"heads": config.heads, "registers": config.registers}
    name = zoo_name(config.kind, config.layers, config.noise_spec, config.seed, **size)
    specs = config.task.specs
    name = "-".join([name, *(str(specs[part]) for part in ("features", "weights", "noise_shape") if part in specs)])
    name += "-mixture" * (config.mixture is not None)
    name = re.sub(r"[^\w.+-]+", "-", name).strip("-")  # a prior of one's own may have any spec
    return next(
        folder for number in count(1) if not (folder := Path("runs", name + f"-{number}" * (number > 1))).exists()
    )


class TrainingDisplay(terminal.Progress):
    """A callback of `ridgeformer.train`: losses, the Bayes limit and the paper's number, speed and time left.

    All are adjusted losses: the loss above that of the oracle, which is ridge regression that knows σ. In a stage that
    trains on the paper's sampled objective the losses contain the oracle's loss, so its mean is subtracted.
    """

    def __init__(self, config: TrainConfig) -> None:
        stages = stages_of(config)
        self._sampled = {stage.name for stage in stages if getattr(stage, "objective", "exact") == "sampled"}
        self._name = f"{_size(config)}, {config.noise_spec}"
        task = config.task
        self.yardstick, predictor = next(iter(baselines_for(task, ("bayes", "adarr")).items()))  # not all have a limit
        self.bayes = evaluate(predictor, task, _BAYES_SEQUENCES)
        printed = paper_loss(config.kind, config.layers, config.heads, config.registers, config.task)
        paper = "" if printed is None else f", paper {printed:g}"
        self._limits = f"{self.yardstick} {self.bayes.adjusted_loss:.3g}{paper}"
        self._first: tuple[int, float] | None = None  # step, and when it was done
        super().__init__(sum(stage.steps for stage in stages))

    def show_step(self, info: StepInfo) -> None:
        """Show a step."""
        first, started = self._first = self._first or (info.total, time.monotonic())
        speed = (info.total - first) / max(time.monotonic() - started, 1e-9)
        self.show(f"{self.text(info)}, {speed:.0f} steps/s", info.total, kept=first - 1)

    def text(self, info: StepInfo) -> str:
        """What is said of a step."""
        oracle = self.bayes.loss - self.bayes.adjusted_loss if info.stage in self._sampled else 0.0
        losses = f"adjusted loss {info.loss - oracle:.4g}, smoothed {info.smoothed - oracle:.4g}"
        return f"{self._name} · {info.stage}: {losses} ({self._limits})"


def _print_result(config: TrainConfig, result: TrainResult, display: TrainingDisplay) -> None:
    """The result of the run, with the paper's number and the Bayes limit; AdaRR if the task has no Bayes limit."""
    bayes = display.bayes
    measured, label = result.evaluation, _size(config)
    tail = (terminal.number_text(value) for value in (measured.median, measured.p99, measured.maximum))
    loss = (terminal.number_text(measured.adjusted_loss), terminal.number_text(measured.standard_error, 2))
    rows = [[label, *loss, *tail, f"trained here in {result.seconds:.0f} s"]]
    printed = paper_loss(config.kind, config.layers, config.heads, config.registers, config.task)
    if printed is not None:
        rows.insert(0, [label, f"{printed:g}", "", "", "", "", "printed in the paper"])
    rows.append([display.yardstick, f"{bayes.adjusted_loss:.3g}", "", "", "", "", f"on {bayes.sequences:,} sequences"])
    title = f"Adjusted loss on {measured.sequences:,} fresh sequences, {config.task.setting}"
    heads = ("model", "adjusted loss", "± s.e.", "median", "p99", "largest", "source")
    terminal.print_table(title, heads, rows, words=(0, 6))
