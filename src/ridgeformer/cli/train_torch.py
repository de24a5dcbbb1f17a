"""``ridgeformer train --engine torch``: any module of `ridgeformer.torch`; imported only when it is asked for."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import tyro

from ridgeformer.baselines import baselines_for
from ridgeformer.cli import terminal
from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.mixture import load_mixture
from ridgeformer.core.storage import plain
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import evaluate
from ridgeformer.torch import Architecture, TorchResult, TrainSettings, resume_run, train
from ridgeformer.torch.checkpoints import TorchDirectory
from ridgeformer.torch.module import choose_device
from ridgeformer.torch.training import task_of
from ridgeformer.training.stages import StepInfo
from ridgeformer.training.train import tensorboard_log

_BAYES_SEQUENCES = 16_384  # to show the Bayes limit within a percent or two after half a second


def torch_command(given: set[str]) -> Callable[..., None]:
    """The command; ``given`` are the flags that the user wrote."""

    def command(
        architecture: Annotated[Architecture, tyro.conf.OmitArgPrefixes],
        settings: Annotated[TrainSettings, tyro.conf.OmitArgPrefixes],
        noise: NoisePrior | str = "uniform:5",
        examples: int | str = 20,
        features: terminal.Spec = None,
        weights: terminal.Spec = None,
        noise_shape: terminal.Spec = None,
        mixture: terminal.Spec = None,
        engine: str = "torch",
        device: str = "auto",
        out: terminal.Folder = None,
        resume: terminal.Folder = None,
        overwrite: bool = False,
        tensorboard: terminal.Folder = None,
        json: terminal.File = None,
    ) -> None:
        """Train one module with PyTorch, measure it on fresh sequences, and save it.

        Args:
            architecture: What to train.
            settings: How to train it.
            noise: Distribution of the noise level σ, such as uniform:5 or categorical:1+3.
            examples: Number of examples in a context, n, or a range such as 10..40.
            features: Distribution of the features x, such as kappa:10; by default N(0, I).
            weights: Distribution of the true weights w, such as sparse:3; by default N(0, I).
            noise_shape: Shape of the noise at a given level σ, such as student:5; by default Gaussian.
            mixture: Train on several tasks at once, such as '3*base | features=kappa:10'.
            engine: torch: PyTorch. Without this option the compiled code of this package trains gdpp, diag and full.
            device: cpu, cuda, mps and so on; auto takes an accelerator if there is one.
            out: Folder for the run; by default a new folder in runs/, named after what is trained.
            resume: Continue the run in this folder, with the settings it was started with.
            overwrite: Replace the run that is already in --out.
            tensorboard: Also log losses for TensorBoard in this folder (needs ridgeformer[tensorboard]).
            json: Also write the result as JSON.
        """
        terminal.check_files(json)
        choose_device(device)
        if resume is not None:
            allowed = {"--resume", "--engine", "--device", "--tensorboard", "--json"}
            terminal.refuse(
                "--resume continues a run in its folder with its own settings", dict.fromkeys(given - allowed, True)
            )
            run = TorchDirectory(resume).config()
            task, settings = task_of(run.task), run.settings
            name = f"{run.module.get('kind')}, {run.module.get('layers')} layers, {task.prior.spec}"
        else:
            if overwrite and out is None:
                raise InputError("--overwrite replaces the run in --out: name that folder.")
            parts = {"features": features, "weights": weights, "noise_shape": noise_shape}
            given_parts: dict[str, Any] = {part: spec for part, spec in parts.items() if spec is not None}
            task = Task(architecture.dim, examples, noise, **given_parts)
            task = task if mixture is None else load_mixture(mixture, task)
            name = f"{architecture.kind}, {architecture.layers} layers, {task.prior.spec}"
        folder = resume or out or _free_folder(architecture, task)
        with contextlib.ExitStack() as stack:
            display = stack.enter_context(_Display(name, task, settings.steps))
            callbacks: list[Callable[[StepInfo], object]] = [display.show_step]
            if tensorboard is not None:
                callbacks.append(stack.enter_context(tensorboard_log(tensorboard)))
            options: dict[str, Any] = {"callbacks": callbacks, "device": device}
            options["on_message"] = lambda message: terminal.warn(f"ridgeformer: {message}")
            if resume is not None:
                result = resume_run(folder, **options)
            else:
                dtype = "float64" if settings.precision == "float64" else "float32"
                module = architecture.make(seed=settings.seed, dtype=dtype)
                result = train(module, task, settings, out=folder, overwrite=overwrite, **options)
        _print_result(name, task, result, display)
        files = ", ".join(str(folder / file) for file in ("model.safetensors", "result.json", "history.jsonl"))
        terminal.say(f"Files: {files}", to_copy=True)
        terminal.say(f"Try next: ridgeformer evaluate {folder / 'model.safetensors'} --baselines", to_copy=True)
        terminal.write_json(json, {**TorchDirectory(folder).config().as_json(), **plain(result.as_json())})

    return command


def _free_folder(architecture: Architecture, task: Task) -> Path:
    """A folder in runs that is not there yet, named after what is trained: softmax-4-uniform-5."""
    name = re.sub(r"[^\w.+-]+", "-", f"{architecture.kind}-{architecture.layers}-{task.prior.spec}").strip("-")
    return next(
        folder for number in count(1) if not (folder := Path("runs", name + f"-{number}" * (number > 1))).exists()
    )


class _Display(terminal.Progress):
    """A callback of `ridgeformer.torch.train`: losses, the Bayes limit, speed and time left."""

    def __init__(self, name: str, task: Task, steps: int) -> None:
        self._name = name
        self.yardstick, predictor = next(iter(baselines_for(task, ("bayes", "adarr")).items()))  # not all have a limit
        self.bayes = evaluate(predictor, task, _BAYES_SEQUENCES)
        self._first: tuple[int, float] | None = None  # step, and when it was done
        super().__init__(steps)

    def show_step(self, info: StepInfo) -> None:
        """Show a step."""
        first, started = self._first = self._first or (info.total, time.monotonic())
        speed = (info.total - first) / max(time.monotonic() - started, 1e-9)
        limit = f"{self.yardstick} {self.bayes.adjusted_loss:.3g}"
        text = f"{self._name}: adjusted loss {info.loss:.4g}, smoothed {info.smoothed:.4g} ({limit})"
        self.show(f"{text}, {speed:.0f} steps/s", info.total, kept=first - 1)


def _print_result(name: str, task: Task, result: TorchResult, display: _Display) -> None:
    measured, bayes, number = result.evaluation, display.bayes, terminal.number_text
    loss = (number(measured.adjusted_loss), number(measured.standard_error, 2))
    tail = (number(value) for value in (measured.median, measured.p99, measured.maximum))
    rows = [[name, *loss, *tail, f"trained here in {result.seconds:.0f} s"]]
    rows.append([display.yardstick, f"{bayes.adjusted_loss:.3g}", "", "", "", "", f"on {bayes.sequences:,} sequences"])
    title = f"Adjusted loss on {measured.sequences:,} fresh sequences, {task.setting}"
    heads = ("model", "adjusted loss", "± s.e.", "median", "p99", "largest", "source")
    terminal.print_table(title, heads, rows, words=(0, 6))
