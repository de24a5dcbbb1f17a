"""``ridgeformer reproduce``: the paper's Table 1, trained or re-measured here."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from ridgeformer.cli.report import report as write_report
from ridgeformer.cli.terminal import File, check_folders, output_console, write_json
from ridgeformer.cli.train import run_training
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, RidgeformerError, whole_number
from ridgeformer.training.config import TrainConfig

if TYPE_CHECKING:
    from ridgeformer.core.model import LinearTransformer
    from ridgeformer.reproduction.cells import Cell
    from ridgeformer.reproduction.table1 import Table1

_LIVE = TrainConfig(kind="diag", layers=4, noise="uniform:5", sequences=100_000)
"""The model that is trained before the user's eyes when the others come from the zoo: some fifteen seconds."""
_PIPE_WIDTH = 170  # columns of Table 1


def reproduce(
    train: bool = False,
    baselines: bool = False,
    models: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KIND…")] = ("gdpp", "diag", "full"),
    layers: Annotated[tuple[int, ...], tyro.conf.arg(metavar="L…")] = (),
    columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PRIOR…")] = (),
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="SEED…")] = (0, 1, 2, 3, 4),
    beyond: bool = True,
    out: Path = Path("reproduction"),
    sequences: int = 100_000,
    workers: int | None = None,
    report: bool = True,
    json: File = None,
    markdown: File = None,
) -> int:
    """Measure all models and baselines of the paper's Table 1 on fresh sequences (three minutes).

    The models are those that come with the package, and one is trained live. With --train all of them are trained
    from scratch: an hour on two cores, which can be interrupted at any moment and goes on where it was. At the end
    stand the table, the paper's claims judged, its figures and a page to look at it all.

    Args:
        train: Train the models instead of taking those of the zoo.
        baselines: Instead, only hold the baselines against the paper's and the Bayes limit (with --sequences 1000000,
            six minutes).
        models: Kinds of model: gdpp, diag, full.
        layers: Depths; all of 1 to 7, and 8 for uniform:5, unless given.
        columns: Noise priors, such as uniform:5 or categorical:1+3; all ten unless given.
        seeds: Seeds of the models for uniform:5; the others have one.
        beyond: Also the models that the paper has not: deeper ones and some with several heads, for three priors.
        out: Folder for runs, records and tables.
        sequences: Fresh sequences on which everything is measured.
        workers: Processes that train at the same time; one for each core unless given.
        report: Also measure what the figures show, draw them, and write the page.
        json: Also write the result of --baselines as JSON; that of the others is in --out.
        markdown: Also put the tables between the markers of a page: docs/reproduction.md, or docs/evaluation.md for
            --baselines.
    """
    check_folders(json, markdown)
    if baselines:
        return _baselines(whole_number("sequences", sequences, 2), json, markdown)
    from ridgeformer.reproduction.cells import PRIORS, beyond_cells, grid_cells, zoo_name

    whole_number("sequences", sequences, 2)
    if workers is not None:
        whole_number("workers", workers, 1)
    cells = grid_cells(models, layers or None, columns or PRIORS, seeds)
    if beyond and not layers:
        further = beyond_cells(models, columns or PRIORS)
        cells = (*cells, *(cell for cell in further if cell not in cells))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise InputError(f"Cannot write {out}: {failed.strerror or failed}.") from failed
    runs = out / ("runs" if train else "live")
    wanted = _train(cells, runs, workers) if train else _from_zoo(cells)
    if not train:
        output_console().print(f"Training {_LIVE.kind}, {_LIVE.layers} layers, on σ ~ {_LIVE.noise}, live:")
        run_training(_LIVE, runs / zoo_name(_LIVE.kind, _LIVE.layers, _LIVE.noise), overwrite=True)
    table = _measure(wanted, columns or PRIORS, sequences)
    _write(table, out)
    _judge(table, wanted, out, markdown, runs if train else None)
    if report:
        _make_records(wanted, runs, out, sequences)
        write_report(out)
    return 0


def _baselines(sequences: int, json: Path | None, markdown: Path | None) -> int:
    from baseline_page import measure_baselines

    with Console(stderr=True).status("tuning baselines") as status:
        report = measure_baselines(sequences, on_stage=status.update)
    for table in report.tables():
        output_console().print(table)
    if json is not None:
        write_json(json, report.as_json())
    if markdown is not None:
        report.write(markdown)
    return 0


def _train(cells: Sequence[Cell], runs: Path, workers: int | None) -> dict[Cell, LinearTransformer]:
    from ridgeformer.cli.grid_progress import GridProgress
    from ridgeformer.reproduction.grid import train_grid
    from ridgeformer.zoo import load

    with GridProgress(cells, Console(stderr=True)) as progress:
        failed = train_grid(cells, runs, progress, workers)
    if failed:
        names = ", ".join(cell.name for cell in failed)
        raise RidgeformerError(f"{len(failed)} of {len(cells)} models were not trained: {names}.")
    return {cell: load(runs / cell.name / "model.safetensors") for cell in cells}


def _from_zoo(cells: Sequence[Cell]) -> dict[Cell, LinearTransformer]:
    from ridgeformer.zoo import load, zoo_names

    there = [cell for cell in cells if cell.name in zoo_names()]
    if not there:
        raise InputError(f"The zoo has no {cells[0].name}; train it with: ridgeformer reproduce --train")
    if len(there) < len(cells):
        missing = f"{len(cells) - len(there)} of these {len(cells)} models are not in the zoo"
        output_console().print(f"{missing}; 'ridgeformer reproduce --train' makes them.", highlight=False)
    return {cell: load(cell.name) for cell in there}


def _measure(models: dict[Cell, LinearTransformer], columns: Sequence[str], sequences: int) -> Table1:
    from ridgeformer.cli.evaluation_progress import EvaluationProgress
    from ridgeformer.reproduction.table1 import measure_table1

    with EvaluationProgress(sequences * len(columns), Console(stderr=True)) as progress:
        stages = {}

        def on_chunk(noise: str, done: int) -> None:
            if noise not in stages:
                stages[noise] = progress.stage(f"measuring {noise}", sequences, 1)
            stages[noise](done)

        return measure_table1(models, columns, sequences, on_chunk=on_chunk)


def _make_records(models: dict[Cell, LinearTransformer], runs: Path, out: Path, sequences: int) -> None:
    """What the figures and the page are drawn from."""
    from ridgeformer.cli.evaluation_progress import EvaluationProgress
    from ridgeformer.reproduction.records import RECORD_PARTS, make_records

    with EvaluationProgress(RECORD_PARTS, Console(stderr=True)) as progress:
        make_records(
            models, runs, out, sequences, on_stage=lambda name, parts: progress.stage(f"measuring {name}", parts, 1)
        )


def _write(table: Table1, out: Path) -> None:
    from ridgeformer.reproduction import table1_text

    texts = {
        "json": json_module.dumps(table.as_json(), indent=1) + "\n",
        "csv": table.as_csv(),
        "md": table1_text.as_markdown(table),
        "tex": table1_text.as_latex(table),
    }
    for suffix, text in texts.items():
        write_whole(out / f"table1.{suffix}", text.encode())
    console = output_console(_PIPE_WIDTH)
    console.print(table1_text.terminal_table(table))
    found = table.verdicts()
    total = sum(map(len, found.values()))
    console.print(
        f"Adjusted loss on {table.sequences:,} fresh sequences each, the paper's number below ours. Of {total} trained "
        f"models {len(found['better'])} are better than printed, {len(found['equal'])} equal to the printed digits, "
        f"{len(found['worse'])} worse.",
        highlight=False,
    )
    for entry in found["worse"]:
        name = table1_text.row_name(entry.method, entry.layers, entry.heads)
        loss = f"{entry.adjusted_loss:.4g} ± {entry.standard_error:.1g}"
        console.print(f"  {name}, {entry.noise}: {loss}, printed {entry.printed:g}", highlight=False)
    console.print(f"Written: {', '.join(str(out / f'table1.{suffix}') for suffix in texts)}", soft_wrap=True)


def _judge(
    table: Table1, models: dict[Cell, LinearTransformer], out: Path, markdown: Path | None, runs: Path | None
) -> None:
    """The paper's claims, on the terminal, as a record, and in a page."""
    from reproduction_page import write_reproduction_page

    from ridgeformer.reproduction.claims import ClaimsRecord, check_claims

    claims = check_claims(table, models)
    write_json(out / "claims.json", ClaimsRecord(tuple(claims)).as_json())
    console = output_console(_PIPE_WIDTH)
    for claim in claims:
        console.print(f"{claim.verdict}: {claim.statement} {claim.numbers}", highlight=False)
    if markdown is not None:
        write_reproduction_page(markdown, table, claims, models, runs)
