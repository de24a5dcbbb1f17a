"""Tables of training trials: on the terminal, and in the page `docs/training.md` between its markers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markdown import markdown_table, replace_block
from rich.table import Table

from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.training_targets import Trial

_TARGET_HEAD = ("model", "seed", "adjusted loss", "± s.e.", "largest", "seconds", "target", "within", "met", "paper")
_ABLATION_HEAD = ("model", "what", "adjusted loss", "± s.e.", "median", "largest", "seconds")


def target_rows(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """Text of the cells, one tuple a trial."""
    rows: list[tuple[str, ...]] = []
    for trial in trials:
        found, printed = trial.evaluation, printed_loss(trial.model, trial.layers, trial.noise)
        rows.append(
            (
                _model(trial),
                str(trial.seed),
                f"{found.adjusted_loss:.4g}",
                f"{found.standard_error:.1g}",
                f"{found.maximum:.3g}",
                f"{trial.seconds:.0f}",
                f"{trial.target:g}",
                f"{trial.allowed:g} s",
                "yes" if trial.met else "no",
                "" if printed is None else f"{printed:g}",
            )
        )
    return rows


def ablation_rows(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """Text of the cells, one tuple a trial."""
    rows: list[tuple[str, ...]] = []
    for trial in trials:
        found = trial.evaluation
        numbers = (
            f"{found.adjusted_loss:.4g}",
            f"{found.standard_error:.1g}",
            f"{found.median:.4g}",
            f"{found.maximum:.3g}",
        )
        rows.append((_model(trial), trial.what, *numbers, f"{trial.seconds:.0f}"))
    return rows


def target_table(trials: Sequence[Trial]) -> Table:
    """For the terminal."""
    return _table("Time to target, on 1,000,000 fresh sequences", _TARGET_HEAD, target_rows(trials))


def ablation_table(trials: Sequence[Trial]) -> Table:
    """For the terminal."""
    return _table("What the ingredients are worth, on 1,000,000 fresh sequences", _ABLATION_HEAD, ablation_rows(trials))


def write_training_page(page: Path, targets: Sequence[Trial], trials: Sequence[Trial], machine: str) -> None:
    """Put the tables between their markers in the page."""
    if targets:
        text = f"Measured on {machine}.\n\n" + markdown_table(_TARGET_HEAD, target_rows(targets))
        replace_block(page, "time to target", text)
    if trials:
        text = f"Measured on {machine}.\n\n" + markdown_table(_ABLATION_HEAD, ablation_rows(trials))
        replace_block(page, "ablations", text)


def _model(trial: Trial) -> str:
    return f"{trial.model}, {trial.layers} layers, {trial.noise}"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*head, title=title)
    for row in rows:
        table.add_row(*row)
    return table
