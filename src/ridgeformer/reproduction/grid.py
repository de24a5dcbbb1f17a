"""The paper's grid as a study, and the zoo, which is made of its finished runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ridgeformer.core.model_file import read_model
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError
from ridgeformer.reproduction.cells import Cell
from ridgeformer.sweeps import Study, read_study
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.zoo import SUFFIX, zoo_folder, zoo_names


def grid_study(cells: Iterable[Cell]) -> Study:
    """Cells of the grid, with those that they start from, as a study: run directories are named like models of the zoo.

    >>> study = grid_study([Cell("gdpp", 1, "uniform:5"), Cell("gdpp", 2, "uniform:5")])
    >>> [(cell.name, cell.parent) for cell in study.cells]
    [('gdpp-1-uniform-5', None), ('gdpp-2-uniform-5', 'gdpp-1-uniform-5')]
    """
    return read_study({cell.name: cell.config for cell in cells})


def build_zoo(runs: Path, into: Path | None = None) -> dict[str, int]:
    """Copy the models of all finished runs in ``runs`` into a folder, by default the package's own: name → bytes."""
    models: dict[str, bytes] = {}
    for path in sorted(runs.glob(f"*/model{SUFFIX}")):
        if RunDirectory(path.parent).finished_result() is not None:
            models[path.parent.name] = path.read_bytes()
            read_model(models[path.parent.name], path)  # refuses what is not a model, before anything is written
    if not models:
        raise InputError(f"There are no finished runs in {runs}.")
    for name, data in models.items():
        write_whole((zoo_folder() if into is None else into) / f"{name}{SUFFIX}", data)
    zoo_names.cache_clear()
    return {name: len(data) for name, data in models.items()}
