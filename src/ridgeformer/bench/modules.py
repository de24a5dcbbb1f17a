"""Section ``torch``: the modules of `ridgeformer.torch` against other ways to write them, and as contexts grow long.

We compare with the paper's model in the formulation of Ahn et al. (NeurIPS 2023), whose code multiplies N × N
scores by a mask and the values in three `einsum`s; and torch's own `nn.TransformerEncoder` of the same width and depth.
All in one process with one thread, in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from ridgeformer.bench.machine import Call, best_times, run_python, run_with_blas_threads
from ridgeformer.bench.rows import DIM, BenchConfig, Row, Target, exponent_row
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task

NOT_INSTALLED = "not installed; pip install 'ridgeformer[torch]'"
_LAYERS = 4
_RACE_LENGTHS = (20, 100, 1000)
_TOKENS = 5120  # in a batch of the race, whatever the length of its contexts
_GROWTH_LENGTHS = (100, 316, 1000, 3162, 10_000)
_OURS_GRAM, _OURS_TOKENS = "our module, Gram form", "our module, token form"
_KINDS = {"linear, Gram form": "full", "linear, tokens": "linear", "elu + 1": "elu", "softmax": "softmax"}
# Small enough that nothing overflows, at any length: times do not depend on the weights.
_SCALE = 5e-4


def torch_rows(config: BenchConfig) -> list[Row]:
    """Races for forward passes and steps, growth with N in time and memory, and two options of training."""
    if find_spec("torch") is None:
        return [Row("torch", "PyTorch", None, note=NOT_INSTALLED)]
    rows: list[Row] = []
    for length in _RACE_LENGTHS[:2] if config.quick else _RACE_LENGTHS:
        times = run_with_blas_threads(1, race_times, length, config.samples, config.window)
        for what, seconds in times.items():
            for name, time in seconds.items():
                target = Target(1.0) if name == _OURS_TOKENS and length >= 100 else None
                ratio = time / seconds[_OURS_GRAM]
                rows.append(Row("torch", name, ratio, target=target, group=f"{what}, N = {length}", seconds=time))
    rows += _growth_rows(config)
    options = run_with_blas_threads(1, option_times, config.samples, config.window, not config.quick)
    for name, time in options.items():
        rows.append(Row("torch", name, time / options["float32"], group="step, softmax, MLP, LayerNorm", seconds=time))
    return rows


def _growth_rows(config: BenchConfig) -> list[Row]:
    lengths = _GROWTH_LENGTHS[:2] if config.quick else _GROWTH_LENGTHS
    rows: list[Row] = []
    for label, kind in _KINDS.items():
        seconds: dict[str, float] = run_with_blas_threads(1, step_times, kind, lengths, config.samples, config.window)
        for length in lengths:
            time, memory = seconds[str(length)], run_python(_MEMORY_CODE.format(kind=kind, length=length), _ONE_THREAD)
            note = f"a step on one context; {max(0.0, memory):.0f} MB"
            rows.append(Row("torch", f"N = {length}", time * 1e3, "ms", group=label, note=note))
        rows.append(exponent_row("torch", label, "N", {length: seconds[str(length)] for length in lengths}))
    return rows


# --- what is timed, in processes of their own -------------------------------------------------------------------------


def _contexts(length: int, batch: int) -> tuple[Any, ...]:
    import torch

    drawn = Task(DIM, length, "fixed:1").draw_tokens(batch, seed=0, dtype=np.float32)
    return tuple(torch.from_numpy(array) for array in (drawn.X, drawn.y, drawn.query[:, None], drawn.target[:, None]))


def _step(module: Callable[..., Any], parameters: Sequence[Any], batch: tuple[Any, ...]) -> Call:
    """Loss and gradient by autograd."""
    import torch

    def call() -> object:
        return torch.autograd.grad((module(*batch[:3]) - batch[3]).square().mean(), parameters)

    return call


def ahn_forward(P: Any, Q: Any, X: Any, y: Any, queries: Any) -> Any:
    """Z ← Z + (1/n) Σ over heads of mask(Z Q Zᵀ) Z Pᵀ as their code computes it, n taken into P; P, Q (L, H, p, p)."""
    import torch

    rows = torch.cat([X, queries], dim=1)
    last = torch.cat([y, torch.zeros_like(queries[..., 0])], dim=1)
    Z = torch.cat([rows, last[..., None]], dim=-1)
    mask = torch.eye(Z.shape[1])
    mask[X.shape[1] :] = 0.0  # queries are not looked at
    for layer in range(len(P)):
        update = torch.zeros_like(Z)
        for P_k, Q_k in zip(P[layer], Q[layer], strict=True):
            scores = torch.einsum("bni,ij,bmj->bnm", Z, Q_k.T, Z)
            values = torch.einsum("ij,bnj->bni", P_k, Z)
            update = update + torch.einsum("bnm,ml,bli->bni", scores, mask, values)
        Z = Z + update
    return -Z[:, X.shape[1] :, -1]


def race_times(length: int, repeats: int, window: float) -> dict[str, dict[str, float]]:
    """Seconds of a forward pass and of a step, by name."""
    import torch

    import ridgeformer.torch as rt

    batch = _contexts(length, max(1, _TOKENS // length))
    model = LinearTransformer.init("full", layers=_LAYERS, dim=DIM, scale=_SCALE)
    gram, tokens = (rt.from_model(model, form=form) for form in ("gram", "tokens"))
    P, Q = (torch.tensor(matrix, requires_grad=True) for matrix in model.attention_matrices())
    encoder = _Encoder()
    modules: dict[str, tuple[Callable[..., Any], list[Any]]] = {
        _OURS_GRAM: (gram, list(gram.parameters())),
        _OURS_TOKENS: (tokens, list(tokens.parameters())),
        "Ahn's formulation": (lambda X, y, queries: ahn_forward(P, Q, X, y, queries), [P, Q]),
        "nn.TransformerEncoder": (encoder, encoder.parameters),
    }

    def forward(module: Callable[..., Any]) -> Call:
        def call() -> object:
            with torch.no_grad():
                return module(*batch[:3])

        return call

    return {
        "forward": best_times({name: forward(module) for name, (module, _) in modules.items()}, repeats, window),
        "step": best_times({name: _step(*pair, batch) for name, pair in modules.items()}, repeats, window),
    }


class _Encoder:
    """torch's own encoder on the same tokens, as wide and as deep; softmax attention, MLP and LayerNorm."""

    def __init__(self) -> None:
        from torch import nn

        layer = nn.TransformerEncoderLayer(DIM + 1, 1, DIM + 1, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.parameters = list(self.encoder.parameters())

    def __call__(self, X: Any, y: Any, queries: Any) -> Any:
        import torch

        rows = torch.cat([X, queries], dim=1)
        last = torch.cat([y, torch.zeros_like(queries[..., 0])], dim=1)
        return self.encoder(torch.cat([rows, last[..., None]], dim=-1))[:, X.shape[1] :, -1]


def growing_module(kind: str) -> Any:
    """A module of four layers as it comes, with tiny weights where attention is a sum."""
    import ridgeformer.torch as rt

    if kind == "full":
        return rt.LinearTransformer(kind, layers=_LAYERS, dim=DIM, scale=_SCALE, form="gram")
    module = rt.Architecture(kind, layers=_LAYERS, dim=DIM).make()
    if kind == "linear":
        for parameter in module.parameters():
            parameter.data.mul_(1e-3)
    return module


def step_times(kind: str, lengths: Sequence[int], repeats: int, window: float) -> dict[str, float]:
    """Seconds of a step on one context, by its length."""
    module = growing_module(kind)
    calls = {str(n): _step(module, list(module.parameters()), _contexts(n, 1)) for n in lengths}
    return best_times(calls, min(repeats, 3), window)


def option_times(repeats: int, window: float, compiled: bool) -> dict[str, float]:
    """Seconds of a step of a wide transformer: as it is, in mixed precision, and compiled."""
    import torch

    import ridgeformer.torch as rt
    from ridgeformer.torch.steps import mixed_precision

    wide = rt.Architecture("softmax", _LAYERS, 4, DIM, projections="separate", width=32, mlp=2, norm=True)
    module, batch = wide.make(), _contexts(20, 64)
    parameters = list(module.parameters())
    plain = _step(module, parameters, batch)

    def mixed() -> object:
        with mixed_precision("cpu"):
            return plain()

    calls: dict[str, Call] = {"float32": plain, "mixed with bfloat16": mixed}
    if compiled:
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # no pool of processes that would stay behind
        calls["torch.compile"] = _step(torch.compile(module), parameters, batch)
    return best_times(calls, repeats, window)


_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# The peak of a process never falls, so a step needs at least what it adds to the peak before it.
_MEMORY_CODE = """
import json, sys
from ridgeformer.bench.modules import _contexts, _step, growing_module
def peak():
    import resource
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e3
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
module = growing_module("{kind}")
_step(module, list(module.parameters()), _contexts(20, 1))()
start = peak()
_step(module, list(module.parameters()), _contexts({length}, 1))()
json.dump(peak() - start, sys.stdout)
"""
