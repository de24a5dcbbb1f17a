"""What the paper says of its results, held against ours: each claim with its numbers and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ridgeformer.analysis import diagonal_fit
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task
from ridgeformer.evaluation import profile
from ridgeformer.reproduction.cells import LAYERS, Cell
from ridgeformer.reproduction.records import Prose, Record
from ridgeformer.reproduction.table1 import Entry, Table1, header, number

_NOISY = tuple(f"uniform:{level}" for level in range(1, 8))
_CLOSE = 1.1  # two losses are called alike if they are within 10 % of each other
_TWO_LAYER_LEVELS = tuple(0.5 * k for k in range(13))  # σ = 0 … 6
_OUTSIDE = (4.0, 5.0)  # σ beyond {1, 3}
_LEVEL_SEQUENCES = 20_000


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
        _four_beat_adarr(table),
        _five_match_tunedrr(table),
        _categorical(table, by_name),
        _two_layers(by_name),
        _diagonal_heavy(by_name),
    ]
    return [claim for claim in claims if claim is not None]


def _verdict(holds: Sequence[bool]) -> str:
    return "confirmed" if all(holds) else "partly" if any(holds) else "refuted"


def _diag_like_full(table: Table1) -> Claim | None:
    pairs: list[tuple[Entry, Entry]] = []
    for noise in _NOISY:
        for depth in LAYERS:
            diag, full = table.entry("diag", depth, noise), table.entry("full", depth, noise)
            if diag is not None and full is not None:
                pairs.append((diag, full))
    if not pairs:
        return None
    ratios = [a.adjusted_loss / b.adjusted_loss for a, b in pairs]
    close = [1 / _CLOSE <= ratio <= _CLOSE for ratio in ratios]
    (least_a, _), least = min(zip(pairs, ratios, strict=True), key=lambda item: item[1])
    (most_a, _), most = max(zip(pairs, ratios, strict=True), key=lambda item: item[1])
    return Claim(
        "DIAG is about as good as FULL on uniform noise.",
        _verdict(close),
        f"{sum(close)} of {len(close)} cells within 10 %; DIAG over FULL from {least:.3f} ({least_a.layers} layers, "
        f"{header(least_a.noise)}) to {most:.3f} ({most_a.layers} layers, {header(most_a.noise)}).",
    )


def _gdpp_like_constrr(table: Table1) -> Claim | None:
    noises = [noise for noise in table.columns if noise != "uniform:0"]
    ratios = {}
    for noise in noises:
        model, ridge = table.entry("gdpp", 7, noise), table.entry("constrr", None, noise)
        if model is not None and ridge is not None:
            ratios[noise] = model.adjusted_loss / ridge.adjusted_loss
    if not ratios:
        return None
    text = ", ".join(f"{header(noise)} {ratio:.4f}" for noise, ratio in ratios.items())
    close = [1 / _CLOSE <= ratio <= _CLOSE for ratio in ratios.values()]
    return Claim("GD++ ends at ConstRR.", _verdict(close), f"GD++ with 7 layers over ConstRR: {text}.")


def _four_beat_adarr(table: Table1) -> Claim | None:
    return _beats(table, "Four layers beat AdaRR for σmax ≥ 4.", "adarr", (4,), [f"uniform:{k}" for k in range(4, 8)])


def _five_match_tunedrr(table: Table1) -> Claim | None:
    return _beats(table, "Five layers and more match or beat TunedRR.", "tunedrr", (5, 6, 7), _NOISY)


def _beats(table: Table1, statement: str, baseline: str, layers: Sequence[int], noises: Sequence[str]) -> Claim | None:
    held, text = [], []
    for method in ("diag", "full"):
        for noise in noises:
            ridge = table.entry(baseline, None, noise)
            for depth in layers:
                entry = table.entry(method, depth, noise)
                if entry is None or ridge is None:
                    continue
                held.append(entry.adjusted_loss <= ridge.adjusted_loss)
                if not held[-1]:
                    losses = f"{number(entry.adjusted_loss)} against {number(ridge.adjusted_loss)}"
                    text.append(f"{method.upper()} {depth} {header(noise)} {losses}")
    if not held:
        return None
    misses = "; not so: " + ", ".join(text) if text else ""
    return Claim(statement, _verdict(held), f"{sum(held)} of {len(held)} cells{misses}.")


def _categorical(table: Table1, models: Mapping[str, LinearTransformer]) -> Claim | None:
    diag, full = table.entry("diag", 7, "categorical:1+3"), table.entry("full", 7, "categorical:1+3")
    both = {name: models.get(f"{name}-7-categorical-1+3") for name in ("diag", "full")}
    there = {name: model for name, model in both.items() if model is not None}
    if diag is None or full is None or len(there) < 2:
        return None
    outside = profile(there, Task(noise="categorical:1+3"), _OUTSIDE, _LEVEL_SEQUENCES).evaluations
    losses = {name: [evaluation.adjusted_loss for evaluation in found] for name, found in outside.items()}
    better_outside = [d < f for d, f in zip(losses["diag"], losses["full"], strict=True)]
    beyond = "; ".join(
        f"at σ = {level:g} DIAG {number(d)}, FULL {number(f)}"
        for level, d, f in zip(_OUTSIDE, losses["diag"], losses["full"], strict=True)
    )
    return Claim(
        "On {1, 3} FULL is better than DIAG in distribution, and DIAG extrapolates better.",
        _verdict([full.adjusted_loss < diag.adjusted_loss, *better_outside]),
        f"In distribution DIAG {number(diag.adjusted_loss)}, FULL {number(full.adjusted_loss)}; {beyond}.",
    )


def _two_layers(models: Mapping[str, LinearTransformer]) -> Claim | None:
    chosen = {kind: models.get(f"{kind}-2-uniform-5") for kind in ("diag", "full")}
    there = {name: model for name, model in chosen.items() if model is not None}
    if not there:
        return None
    found = profile(there, Task(noise="uniform:5"), _TWO_LAYER_LEVELS, _LEVEL_SEQUENCES).evaluations
    held, text = [], []
    for name, evaluations in found.items():
        losses = [evaluation.adjusted_loss for evaluation in evaluations]
        place = losses.index(min(losses))
        held.append(0 < place < len(losses) - 1)
        text.append(
            f"{name.upper()} is best at σ = {_TWO_LAYER_LEVELS[place]:g} ({number(losses[place])}), against "
            f"{number(losses[0])} at 0 and {number(losses[10])} at 5"
        )
    return Claim("Two layers model a single noise level.", _verdict(held), "; ".join(text) + ".")


def _diagonal_heavy(models: Mapping[str, LinearTransformer]) -> Claim | None:
    model = models.get("full-4-categorical-1+3")
    if model is None:
        return None
    fit = diagonal_fit(model)
    shares = [remainder.diagonal_share for remainder in fit.remainders]
    ranks = [remainder.effective_rank for remainder in fit.remainders]
    heavy, low = [share > 0.5 for share in shares], [rank <= model.dim // 2 for rank in ranks]
    return Claim(
        "FULL weights are heavy on the diagonal, with a low-rank part (4 layers, {1, 3}).",
        _verdict([*heavy, *low]),
        f"Share of squares on the diagonal, P and Q of each layer: {', '.join(f'{share:.2f}' for share in shares)}; "
        f"singular values that hold 90 % of the rest: {', '.join(map(str, ranks))} of {model.dim + 1}.",
    )
