"""The package's models as PyTorch modules, with the same files; other kinds of layers; training; attacks.

It needs the extra ``ridgeformer[torch]``. Nothing else in the package imports it, except the command ``train`` with
``--engine torch`` and the benchmark, and these only when they run.

Files: `module` (what all modules share), `linear` (the paper's model), `attention` and `transformer` (other layers),
`files` (reading and writing modules), `settings`, `steps`, `training` and `checkpoints` (runs), `attacks`.
"""

from __future__ import annotations

from ridgeformer.core.validation import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("ridgeformer.torch needs PyTorch: pip install 'ridgeformer[torch]'.") from missing

from ridgeformer.torch.attacks import AttackResult, attack
from ridgeformer.torch.attention import ATTENTIONS, Attention
from ridgeformer.torch.files import load, shipped_names
from ridgeformer.torch.linear import LinearTransformer, from_model
from ridgeformer.torch.module import InContextModule, ModulePredictor
from ridgeformer.torch.settings import TrainSettings
from ridgeformer.torch.training import TorchResult, resume_run, train
from ridgeformer.torch.transformer import Architecture, Transformer

__all__ = [
    "ATTENTIONS",
    "Architecture",
    "AttackResult",
    "Attention",
    "InContextModule",
    "LinearTransformer",
    "ModulePredictor",
    "TorchResult",
    "TrainSettings",
    "Transformer",
    "attack",
    "from_model",
    "load",
    "resume_run",
    "shipped_names",
    "train",
]
