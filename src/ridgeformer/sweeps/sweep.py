"""`sweep`: train all cells of a study that are not finished yet, on this machine or on a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeformer.core.storage import writing
from ridgeformer.core.validation import InputError, InterruptedRunError, nonnegative, whole_number
from ridgeformer.sweeps.board import Board, Event, OnEvent
from ridgeformer.sweeps.cell_work import is_done, make_job, sweep_lock
from ridgeformer.sweeps.local import run_locally
from ridgeformer.sweeps.study import Study, read_study
from ridgeformer.sweeps.table import collect
from ridgeformer.training.run_directory import RunDirectory


@dataclass(frozen=True)
class SweepResult:
    """The outcome of all cells of a study, as `ridgeformer.sweep` returns it.

    >>> SweepResult(Path("runs"), ("a", "b"), kept=("a",), failed={"c": "It exploded."}, skipped={}).failed
    {'c': 'It exploded.'}
    """

    out: Path
    finished: tuple[str, ...]
    """Names of the cells that are done, in the order of the study."""
    kept: tuple[str, ...]
    """Those of them that were finished before this sweep."""
    failed: dict[str, str]
    """Cells that could not be trained, and why."""
    skipped: dict[str, str]
    """Cells that were not tried, and the failed cell that they would have started from."""

    def table(self) -> list[dict[str, Any]]:
        """A row for each finished cell, with its settings, losses and training time; see `collect`."""
        return collect(self.out, self.finished)


def sweep(
    study: Any,
    *,
    out: str | Path,
    workers: int | None = None,
    cluster: str | Path | None = None,
    overwrite: bool = False,
    on_event: OnEvent = lambda event: None,
    on_message: Callable[[str], object] = lambda message: None,
    checkpoint_seconds: float = 15.0,
) -> SweepResult:
    """Train and measure all cells of a study; those that are finished in ``out`` are kept as they are.

    Parameters
    ----------
    study: a study file (TOML or JSON), a dict of the same form (see `ridgeformer.sweeps.study`), a list of
        `TrainConfig`, or a dict of them by name, in which ``start`` may be the name of another one.
    out: folder in which every cell has a run directory. After any interruption the same call continues.
    workers: processes that train at the same time, by default one for each core; on a cluster, jobs to ask for.
    cluster: None trains in processes of this machine. ``"tcp://host:8786"`` is a Dask scheduler that runs; ``"slurm"``
        and its like ask a batch system for workers, as does a dask-jobqueue config file. See docs/cluster.md.
    overwrite: replace runs with other settings in the folders of cells; otherwise they are an error.
    on_event: called with an `Event` for everything that happens to a cell.
    on_message: called with a sentence when something is wrong that does not end the sweep.
    checkpoint_seconds: time between saves of each cell.

    Returns a `SweepResult`; a cell that fails is in it, and does not stop the others. Raises `InputError` for a study
    that cannot be trained, before anything is, and `InterruptedRunError` on Ctrl-C, after saving.

    Processes are spawned: a script must call this under ``if __name__ == "__main__":``.

    >>> import ridgeformer as rf, tempfile
    >>> grid = {"kind": "gdpp", "layers": [1, 2], "dim": 3, "examples": 6, "sequences": 1000, "start": "previous layer"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = rf.sweep({"grid": grid}, out=folder, workers=1)
    ...     losses = [row["adjusted_loss"] for row in result.table()]
    >>> losses[0] > losses[1]
    True
    """
    study = read_study(study)
    if workers is not None:
        whole_number("workers", workers, 1)
    nonnegative("checkpoint_seconds", checkpoint_seconds)
    folder = Path(out).absolute()
    if _all_done(study, folder):  # then nothing is written, not even a lock
        for cell in study.cells:
            on_event(Event(cell, "kept", 1.0))
        names = tuple(cell.name for cell in study.cells)
        return SweepResult(Path(out), names, names, {}, {})
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with sweep_lock(folder) as (token, cut_leash):
        kept = _already_done(study, folder, overwrite)
        for cell in study.cells:
            if cell.name in kept:
                on_event(Event(cell, "kept", 1.0))
        jobs = {
            cell.name: make_job(cell, study, folder, token, overwrite, checkpoint_seconds)
            for cell in study.cells
            if cell.name not in kept
        }
        board = Board(study.cells, jobs, on_event)
        try:
            if jobs and cluster is None:
                run_locally(board, workers, cut_leash)
            elif jobs:
                from ridgeformer.sweeps.cluster import run_on_cluster  # brings in Dask

                run_on_cluster(board, str(cluster), workers, cut_leash, on_message)
        except KeyboardInterrupt as stopped:
            raise InterruptedRunError(
                f"Stopped; all cells are saved in {out}, {len(kept) + len(board.finished)} of {len(study.cells)} "
                "finished. The same command continues from there."
            ) from stopped
    done = kept | set(board.finished)
    finished = tuple(cell.name for cell in study.cells if cell.name in done)
    return SweepResult(Path(out), finished, tuple(filter(kept.__contains__, finished)), board.failed, board.skipped)


def _all_done(study: Study, folder: Path) -> bool:
    with contextlib.suppress(InputError):
        return all(is_done(RunDirectory(folder / cell.name), cell.config, study.measure) for cell in study.cells)
    return False


def _already_done(study: Study, folder: Path, overwrite: bool) -> set[str]:
    """Names of the finished cells; raises an error for a folder with another run, or with something else."""
    done = set()
    for cell in study.cells:
        directory = RunDirectory(folder / cell.name)
        if is_done(directory, cell.config, study.measure):
            done.add(cell.name)
        elif not directory.exists() or directory.config(cell.config.own_prior) != cell.config:
            try:
                directory.check_free(overwrite)
            except InputError as taken:
                raise InputError(
                    f"{directory.path} holds something other than this cell; choose another folder."
                ) from taken
    return done
