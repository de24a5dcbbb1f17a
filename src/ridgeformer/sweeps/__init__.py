"""Studies: many trainings, on this machine or on a cluster, and one table of their results.

A *study* is a list of trainings, a *cell* is one of them, and a *sweep* trains all cells.

Files: `study` (what to train), `cell_work` (what a worker does with a cell), `board` (which cell is next), the engines
`local` and `cluster` (the only file with Dask), `sweep`, and `table` (what `ridgeformer collect` makes).
"""

from __future__ import annotations

from ridgeformer.sweeps.board import Event
from ridgeformer.sweeps.study import Cell, Measure, Study, read_study
from ridgeformer.sweeps.sweep import SweepResult, sweep
from ridgeformer.sweeps.table import collect, write_table

__all__ = ["Cell", "Event", "Measure", "Study", "SweepResult", "collect", "read_study", "sweep", "write_table"]
