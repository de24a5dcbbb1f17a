"""A callback that logs a run for TensorBoard. Needs the extra ``ridgeformer[tensorboard]``."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from ridgeformer.core.validation import InputError
from ridgeformer.training.steps import StepInfo

_EVERY = 10  # steps: a run has tens of thousands


class TensorBoardLog:
    """Writes loss, smoothed loss and step size as scalars, and every skipped or rewound step."""

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
