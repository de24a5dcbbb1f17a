"""Callbacks: functions that are told of every step. Here is one that logs for TensorBoard; any function will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from ridgeformer.core.validation import InputError
from ridgeformer.training.stages import StepInfo

_EVERY = 10  # steps: a run has tens of thousands


class Callback(Protocol):
    """Anything that can be called with a `StepInfo`; its result is not used.

    Called after every step, in the order of the list. What it raises ends the training; raise KeyboardInterrupt to stop
    a run that is kept in a folder so that it can go on later.

    Examples:
        >>> import ridgeformer as rf
        >>> losses = []
        >>> config = rf.TrainConfig(kind="diag", layers=1, recipe="paper", steps=3, batch=8, sequences=100)
        >>> _ = rf.train(config, callbacks=lambda info: losses.append(info.loss))
        >>> len(losses)
        3
    """

    def __call__(self, info: StepInfo, /) -> object:
        """What to do after a step."""
        ...


def callback_list(callbacks: Any) -> list[Callback]:
    """One callback or several as a list; anything else is an `InputError`."""
    several = [callbacks] if callable(callbacks) else callbacks
    if isinstance(several, str) or not isinstance(several, Sequence) or not all(map(callable, several)):
        raise InputError(f"callbacks must be a function of a StepInfo or a list of such functions, not {callbacks!r}.")
    return list(several)


class TensorBoardLog:
    """Writes loss, smoothed loss and step size as scalars, and every skipped or rewound step.

    Needs the extra ``ridgeformer[tensorboard]``; raises `InputError` without it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as missing:
            raise InputError("Logging for TensorBoard needs: pip install 'ridgeformer[tensorboard]'.") from missing
        self._writer: Any = SummaryWriter(str(folder))

    def __enter__(self) -> TensorBoardLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()

    def __call__(self, info: StepInfo) -> None:
        """Log a step."""
        if info.total % _EVERY == 0:
            for name in ("loss", "smoothed", "rate"):
                self._writer.add_scalar(name, getattr(info, name), info.total)
        for name in ("skipped", "rewound"):
            if getattr(info, name):
                self._writer.add_scalar(name, 1.0, info.total)
