"""``ridgeformer sweep``: train all models of a study, on one machine or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import tyro

from ridgeformer.cli import terminal
from ridgeformer.core.validation import RidgeformerError
from ridgeformer.sweeps import Event, Study, SweepResult, read_study
from ridgeformer.sweeps import sweep as run_sweep
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import stages_of

_MOST_NAMED = 3  # cells that are named in a line


def sweep(
    study: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="STUDY")]],
    out: terminal.Folder = None,
    workers: terminal.Count = None,
    cluster: Annotated[str | None, terminal.argument("ADDRESS")] = None,
    check: bool = False,
    overwrite: bool = False,
    json: terminal.File = None,
) -> None:
    """Train and measure all models of a study, several at the same time.

    A study is a TOML or JSON file with a grid: options of 'ridgeformer train', each with one value or a list of values,
    and what to measure. Each combination of values is a cell of the grid. See docs/cluster.md.

    You can interrupt the command at any time. The same command continues; finished cells are not trained again. Then
    'ridgeformer collect' makes one table and a plot of the results.

    Args:
        study: The study, a .toml or .json file.
        out: Folder for the runs, one subfolder for each cell; by default sweeps/ and the name of the study.
        workers: Processes that train at the same time, by default one for each core; on a batch system, number of jobs.
        cluster: Train on a cluster: a Dask scheduler (tcp://host:8786), a batch system (slurm) or a dask-jobqueue file.
        check: Only check the study, and print what would be trained.
        overwrite: Train cells again whose folders hold runs with other settings.
        json: Also write the names of the cells and their outcomes as JSON.
    """
    terminal.check_files(json)
    chosen = read_study(study)
    folder = Path("sweeps", study.stem) if out is None else out
    if check:
        for cell in chosen.cells:
            terminal.say(f"{cell.name}{f' starts from {cell.parent}' if cell.parent else ''}", to_copy=True)
        terminal.say(f"{len(chosen.cells)} cells; nothing is trained.")
        return
    result = show_sweep(chosen, folder, workers, cluster, overwrite)
    terminal.write_json(json, {**vars(result), "out": str(folder)})
    new = len(result.finished) - len(result.kept)
    terminal.say(
        f"{len(result.finished)} of {len(chosen.cells)} cells are done, {new} of them now: {folder}", to_copy=True
    )
    check_failures(result, len(chosen.cells))
    terminal.say(f"Try next: ridgeformer collect {folder}", to_copy=True)


def show_sweep(
    study: Study, folder: Path, workers: int | None, cluster: str | None, overwrite: bool = False
) -> SweepResult:
    """Run a sweep under a progress display."""
    with SweepDisplay(study) as display:
        return run_sweep(
            study,
            out=folder,
            workers=workers,
            cluster=cluster,
            overwrite=overwrite,
            on_event=display.show_event,
            on_message=lambda message: terminal.warn(f"ridgeformer: {message}"),
        )


def check_failures(result: SweepResult, cells: int) -> None:
    """Raise an error of one sentence if cells failed; each failure was already reported when it happened."""
    if result.failed:
        names = ", ".join(list(result.failed)[:_MOST_NAMED]) + ", …" * (len(result.failed) > _MOST_NAMED)
        skipped = f", and {len(result.skipped)} that start from them were skipped" if result.skipped else ""
        raise RidgeformerError(f"{len(result.failed)} of {cells} cells failed{skipped}: {names}.")


def expected_seconds(config: TrainConfig) -> float:
    """Rough training time on one core, for the estimate of the time left; measured on an AMD EPYC of 2023."""
    contexts = sum(stage.contexts for stage in stages_of(config))
    size = config.heads * (1 + 0.2 * config.registers) * (1.5 if config.kind == "full" else 1.0)
    return 1.0 + 1e-6 * contexts * (0.9 + 0.2 * config.layers * size)


class SweepDisplay(terminal.Progress):
    """Shows the events of `ridgeformer.sweep`: one bar for all cells, how many are done, and which are running."""

    def __init__(self, study: Study) -> None:
        self._expected: Mapping[str, float] = {cell.name: expected_seconds(cell.config) for cell in study.cells}
        self._running: dict[str, float] = {}  # shares of those at work
        self._done = self._kept = 0.0
        self._counts = dict.fromkeys(("kept", "finished", "failed", "skipped"), 0)
        super().__init__(sum(self._expected.values()))

    def show_event(self, event: Event) -> None:
        """Show an event."""
        name = event.cell.name
        if event.what in self._counts:
            self._running.pop(name, None)
            self._counts[event.what] += 1
            self._done += self._expected[name]
            if event.what == "kept":
                self._kept += self._expected[name]
            if event.what == "failed":
                terminal.warn(f"ridgeformer: {name}: {event.message}")
        else:
            self._running[name] = event.share
        at_work = sum(share * self._expected[name] for name, share in self._running.items())
        self.show(self.text(), self._done + at_work, self._kept)

    def text(self) -> str:
        """How many cells are done, failed, skipped and running."""
        done = self._counts["kept"] + self._counts["finished"]
        lost = [f", {self._counts[what]} {what}" for what in ("failed", "skipped") if self._counts[what]]
        names = list(self._running)[:_MOST_NAMED] + ["…"] * (len(self._running) > _MOST_NAMED)
        running = f", {len(self._running)} running: {', '.join(names)}" if names else ""
        return f"{done} of {len(self._expected)} done{''.join(lost)}{running}"
