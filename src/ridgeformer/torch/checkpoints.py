"""Runs of torch on disk: the folders of `ridgeformer.training.run_directory`, with checkpoints of another form.

A checkpoint is one safetensors file: the weights, the weights to go back to, and the state of the optimiser. Numbers
are JSON in its metadata. Nothing is pickled. A digest of the whole file shows whether it is damaged.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.storage import read_whole, write_whole
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.torch.settings import TorchRun
from ridgeformer.training.checkpoints import LARGEST_FILE
from ridgeformer.training.run_directory import RunDirectory

_KEY = "ridgeformer-torch-checkpoint"
_NO_DIGEST = "0" * 64  # stands in the place of a file's digest while that is computed


@dataclass
class Counts:
    """Where a run stands, besides its tensors."""

    total: int = 0
    """Steps done: the number names each step's contexts."""
    skipped: int = 0
    """Steps whose gradient was not used."""
    bad_in_a_row: int = 0
    rewinds: int = 0
    """Times the run went back to safe weights and halved its step size."""
    rate_factor: float = 1.0
    smoothed: float = math.nan
    """Running mean of the saturated loss."""
    lowest: float = math.inf
    """Lowest value of ``smoothed``."""


@dataclass(frozen=True)
class Snapshot:
    """All that a run knows at one step."""

    counts: Counts
    module: Mapping[str, torch.Tensor]
    """Its state_dict."""
    safe: Mapping[str, torch.Tensor]
    """The module's weights when training last went well."""
    optimiser: Mapping[str, Any] = field(default_factory=dict)
    """Its state_dict."""

    @property
    def total(self) -> int:
        """Steps done."""
        return self.counts.total


class TorchDirectory(RunDirectory):
    """The files of one run of torch."""

    def _parse_config(self, values: Any, source: str, prior: NoisePrior | None) -> TorchRun:
        return TorchRun.from_json(values, source)

    def _write_checkpoint(self, path: Path, state: Snapshot, rest: tuple[int, str, dict[str, Any]]) -> None:
        tensors = {f"module/{name}": tensor for name, tensor in state.module.items()}
        tensors |= {f"safe/{name}": tensor for name, tensor in state.safe.items()}
        numbers: dict[str, dict[str, Any]] = {}
        for number, values in state.optimiser["state"].items():
            for name, value in values.items():
                if isinstance(value, torch.Tensor):
                    tensors[f"optimiser/{number}/{name}"] = value
                else:
                    numbers.setdefault(str(number), {})[name] = value
        metadata = {"sha256": _NO_DIGEST, "counts": asdict(state.counts), "rest": rest}
        metadata |= {"groups": state.optimiser["param_groups"], "optimiser": numbers}
        # Tensors may share memory with those in use, which safetensors allows as long as they are contiguous.
        contiguous = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
        data = safetensors.torch.save(contiguous, metadata={_KEY: json.dumps(metadata)})
        write_whole(path, data.replace(_NO_DIGEST.encode(), hashlib.sha256(data).hexdigest().encode(), 1))

    def _read_checkpoint(self, path: Path, run: Any) -> tuple[Snapshot, int, str, dict[str, Any]]:
        data = read_whole(path, LARGEST_FILE)
        try:
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            metadata = json.loads(header["__metadata__"][_KEY])
            digest = metadata["sha256"]
            if hashlib.sha256(data.replace(digest.encode(), _NO_DIGEST.encode(), 1)).hexdigest() != digest:
                raise ValueError("the digest is that of another file")
            parts: dict[str, dict[str, torch.Tensor]] = {"module": {}, "safe": {}, "optimiser": {}}
            for name, tensor in safetensors.torch.load(data).items():
                part, _, rest = name.partition("/")
                parts[part][rest] = tensor
            state: dict[int, dict[str, Any]] = {int(number): dict(v) for number, v in metadata["optimiser"].items()}
            for name, tensor in parts["optimiser"].items():
                number, _, entry = name.partition("/")
                state.setdefault(int(number), {})[entry] = tensor
            optimiser = {"state": state, "param_groups": metadata["groups"]}
            snapshot = Snapshot(Counts(**metadata["counts"]), parts["module"], parts["safe"], optimiser)
            length, history_digest, config = metadata["rest"]
            return snapshot, whole_number("history_bytes", length, 0), history_digest, config
        except (
            safetensors.SafetensorError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as broken:
            raise InputError(f"{path} is damaged, or not a checkpoint of this run.") from broken
