"""What the paper says about its results, compared with ours: each claim with our numbers and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ridgeformer.analysis import diagonal_fit
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task
from ridgeformer.evaluation import profile
from ridgeformer.reproduction.cells import LAYERS, Cell
from ridgeformer.reproduction.records import Prose, Record
from ridgeformer.reproduction.table1 import Entry, Table1, header, number, row_name

_NOISY = tuple(f"uniform:{level}" for level in range(1, 8))
_CLOSE = 1.1  # two losses are called alike if they are within 10 % of each other
_TWO_LAYER_LEVELS = tuple(0.5 * k for k in range(13))  # σ = 0 … 6
_OUTSIDE = (4.0, 5.0)  # σ beyond {1, 3}
_LEVEL_SEQUENCES = 20_000
_Pairs = list[tuple[Entry, Entry]]


@dataclass(frozen=True)
class Claim:
    """One claim."""

    statement: Prose
    verdict: Prose
    """"confirmed", "partly" or "refuted"."""
    numbers: Prose


@dataclass(frozen=True)
class ClaimsRecord(Record):
    """All claims, as the folder of a reproduction keeps them."""

    record = "claims"
    claims: tuple[Claim, ...]


def check_claims(table: Table1, models: Mapping[Cell, LinearTransformer]) -> list[Claim]:
    """All claims that can be judged from the table and the models that are there."""
    by_name = {cell.name: model for cell, model in models.items()}
    claims = [
        _diag_like_full(table),
        _gdpp_like_constrr(table),
        _beats(table, "Four layers beat AdaRR for σmax ≥ 4.", "adarr", (4,), _NOISY[3:]),
        _beats(table, "Five or more layers match or beat TunedRR.", "tunedrr", (5, 6, 7), _NOISY),
        _categorical(table, by_name),
        _two_layers(by_name),
        _diagonal_heavy(by_name),
    ]
    return [claim for claim in claims if claim is not None]


def _verdict(holds: Sequence[bool]) -> str:
    return "confirmed" if all(holds) else "partly" if any(holds) else "refuted"


def _pairs(table: Table1, methods: Sequence[str], other: str, noises: Sequence[str], layers: Sequence[int]) -> _Pairs:
    """Pairs of a model and another with as many layers, or a baseline; only pairs of which both were measured."""
    pairs = []
    for method, noise, depth in product(methods, noises, layers):
        ours, theirs = table.entry(method, depth, noise), table.entry(other, depth if other in KINDS else None, noise)
        if ours is not None and theirs is not None:
            pairs.append((ours, theirs))
    return pairs


def _ratio(pair: tuple[Entry, Entry]) -> float:
    return pair[0].adjusted_loss / pair[1].adjusted_loss


def _close(pairs: _Pairs) -> list[bool]:
    return [1 / _CLOSE <= _ratio(pair) <= _CLOSE for pair in pairs]


def _diag_like_full(table: Table1) -> Claim | None:
    pairs = sorted(_pairs(table, ["diag"], "full", _NOISY, LAYERS), key=_ratio)
    if not pairs:
        return None
    close, ends = _close(pairs), (pairs[0], pairs[-1])
    least, most = (f"{_ratio(pair):.3f} ({pair[0].layers} layers, {header(pair[0].noise)})" for pair in ends)
    return Claim(
        "DIAG is about as good as FULL on uniform noise.",
        _verdict(close),
        f"The two losses are within 10 % of each other in {sum(close)} of {len(close)} cells; the loss of DIAG "
        f"divided by that of FULL goes from {least} to {most}.",
    )


def _gdpp_like_constrr(table: Table1) -> Claim | None:
    pairs = _pairs(table, ["gdpp"], "constrr", [noise for noise in table.columns if noise != "uniform:0"], (7,))
    if not pairs:
        return None
    text = ", ".join(f"{header(pair[0].noise)} {_ratio(pair):.4f}" for pair in pairs)
    statement = "With enough layers, GD++ is as good as ConstRR."
    return Claim(statement, _verdict(_close(pairs)), f"Loss of GD++ with 7 layers divided by that of ConstRR: {text}.")


def _beats(table: Table1, statement: str, baseline: str, layers: Sequence[int], noises: Sequence[str]) -> Claim | None:
    pairs = _pairs(table, ("diag", "full"), baseline, noises, layers)
    if not pairs:
        return None
    held, misses = [], []
    for ours, ridge in pairs:
        held.append(ours.adjusted_loss <= ridge.adjusted_loss)
        if not held[-1]:
            losses = f"{number(ours.adjusted_loss)} against {number(ridge.adjusted_loss)}"
            misses.append(f"{row_name(*ours.row)} {header(ours.noise)} {losses}")
    text = f". Not true in: {', '.join(misses)}" if misses else ""
    return Claim(statement, _verdict(held), f"True in {sum(held)} of {len(held)} cells{text}.")


def _losses(models: Mapping[str, LinearTransformer], size: str, levels: Sequence[float]) -> dict[str, list[float]]:
    """Adjusted losses at noise levels of the DIAG and FULL of a size, such as 2-uniform-5, as far as they are there."""
    chosen = {kind: models[f"{kind}-{size}"] for kind in ("diag", "full") if f"{kind}-{size}" in models}
    profiles = profile(chosen, Task(), levels, _LEVEL_SEQUENCES).evaluations if chosen else {}
    return {kind: [evaluation.adjusted_loss for evaluation in own] for kind, own in profiles.items()}


def _categorical(table: Table1, models: Mapping[str, LinearTransformer]) -> Claim | None:
    diag, full = table.entry("diag", 7, "categorical:1+3"), table.entry("full", 7, "categorical:1+3")
    losses = _losses(models, "7-categorical-1+3", _OUTSIDE)
    if diag is None or full is None or len(losses) < 2:
        return None
    outside = list(zip(_OUTSIDE, losses["diag"], losses["full"], strict=True))
    beyond = "; ".join(f"at σ = {level:g} DIAG {number(d)}, FULL {number(f)}" for level, d, f in outside)
    return Claim(
        "On {1, 3}, FULL is better at the noise levels of the training, and DIAG at larger ones.",
        _verdict([full.adjusted_loss < diag.adjusted_loss, *(d < f for _, d, f in outside)]),
        f"At levels of the training DIAG {number(diag.adjusted_loss)}, FULL {number(full.adjusted_loss)}; {beyond}.",
    )


def _two_layers(models: Mapping[str, LinearTransformer]) -> Claim | None:
    held, text = [], []
    for kind, losses in _losses(models, "2-uniform-5", _TWO_LAYER_LEVELS).items():
        place = losses.index(min(losses))
        held.append(0 < place < len(losses) - 1)
        text.append(
            f"{kind.upper()} is best at σ = {_TWO_LAYER_LEVELS[place]:g} ({number(losses[place])}), against "
            f"{number(losses[0])} at 0 and {number(losses[10])} at 5"
        )
    if not held:
        return None
    return Claim("Two layers can fit only one noise level.", _verdict(held), "; ".join(text) + ".")


def _diagonal_heavy(models: Mapping[str, LinearTransformer]) -> Claim | None:
    model = models.get("full-4-categorical-1+3")
    if model is None:
        return None
    fit = diagonal_fit(model)
    shares = [remainder.diagonal_share for remainder in fit.remainders]
    ranks = [remainder.effective_rank for remainder in fit.remainders]
    heavy, low = [share > 0.5 for share in shares], [rank <= model.dim // 2 for rank in ranks]
    return Claim(
        "The matrices of FULL are a diagonal plus a small part of low rank (4 layers, {1, 3}).",
        _verdict([*heavy, *low]),
        "Share of the sum of squares that is on the diagonal, for P and Q of each layer: "
        f"{', '.join(f'{share:.2f}' for share in shares)}; number of singular values that hold 90 % of the rest: "
        f"{', '.join(map(str, ranks))} of {model.dim + 1}.",
    )
