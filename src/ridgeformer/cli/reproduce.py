"""``ridgeformer reproduce``: the paper's Table 1, with models of the zoo or trained again."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from ridgeformer.cli import terminal
from ridgeformer.cli.report import report as write_report
from ridgeformer.cli.sweep import check_failures, show_sweep
from ridgeformer.cli.train import run_training
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.reproduction.baseline_check import measure_baselines
from ridgeformer.reproduction.cells import PRIORS, Cell, beyond_cells, grid_cells, register_cells, zoo_name
from ridgeformer.reproduction.claims import Claim, ClaimsRecord, check_claims
from ridgeformer.reproduction.grid import grid_study
from ridgeformer.reproduction.measuring import RECORD_PARTS, make_records
from ridgeformer.reproduction.table1 import Entry, Table1, header, measure_table1, number, row_name
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.zoo import load, zoo_names

_LIVE = TrainConfig(kind="diag", layers=4, noise="uniform:5", sequences=100_000)
"""The model that is trained live when the others come from the zoo; it takes about twenty seconds."""
_SEEDS = (0, 1, 2, 3, 4)
_OUT = Path("reproduction")
_COLOURS = {"better": "green", "worse": "red", "impossible as printed": "yellow"}


def reproduce(
    train: bool = False,
    baselines: bool = False,
    kinds: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KIND…")] = tuple(KINDS),
    layers: Annotated[tuple[int, ...], terminal.argument("L…")] = (),
    columns: Annotated[tuple[str, ...], terminal.argument("PRIOR…")] = (),
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="SEED…")] = _SEEDS,
    beyond: bool = True,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = _OUT,
    sequences: int = 100_000,
    workers: terminal.Count = None,
    cluster: Annotated[str | None, terminal.argument("ADDRESS")] = None,
    report: bool = True,
    details: bool = False,
    json: terminal.File = None,
) -> None:
    """Measure all models and baselines of the paper's Table 1 (three minutes).

    The models come with the package; one of them is trained again while you watch. With --train all of them are
    trained from scratch, which takes more than two hours on two cores. You can interrupt that at any time; the same
    command continues it.

    The command prints the table, checks the claims of the paper, draws its figures and writes one page with everything.

    Args:
        train: Train the models instead of taking those of the zoo.
        baselines: Instead, compare our baselines with the paper's and with the Bayes limit (6 minutes).
        kinds: Kinds of model: gdpp (GD++), diag, full.
        layers: Numbers of layers; by default 1 to 7, and 8 for uniform:5.
        columns: Columns: distributions of the noise level σ, such as uniform:5 or categorical:1+3; by default all ten.
        seeds: Seeds of the models for uniform:5; other models have one seed.
        beyond: Also measure models that the paper does not have: deeper ones, and some with several heads or registers.
        out: Folder for runs, records and tables.
        sequences: Number of fresh sequences on which everything is measured.
        workers: With --train, processes that train at the same time; by default one for each core.
        cluster: With --train, train on a cluster, as in 'ridgeformer sweep'.
        report: Also measure what the figures show, draw them, and write the page.
        details: Also print each claim with its numbers, and the models that are worse than in the paper.
        json: With --baselines, also write the result as JSON; other results are in --out.
    """
    whole_number("sequences", sequences, 2)
    if baselines:
        others = {"--train": train, "--kinds": kinds != tuple(KINDS), "--layers": layers, "--columns": columns}
        others |= {"--seeds": seeds != _SEEDS, "--no-beyond": not beyond, "--out": out != _OUT}
        others |= {
            "--workers": workers is not None,
            "--cluster": cluster,
            "--no-report": not report,
            "--details": details,
        }
        terminal.refuse("--baselines measures all baselines and no models", others)
        _baselines(sequences, json)
        return
    terminal.refuse("Without --baselines the records are JSON files in --out", {"--json": json})
    if workers is not None:
        whole_number("workers", workers, 1)
    if not train:
        given = {"--workers": workers is not None, "--cluster": cluster}
        terminal.refuse("Only --train uses several processes", given)
    for seed in seeds:
        check_seed(seed)
    cells = grid_cells(kinds, layers or None, columns or PRIORS, seeds)
    if beyond and not layers:
        registers = register_cells(columns or PRIORS) if "diag" in kinds else ()
        cells = tuple(dict.fromkeys((*cells, *beyond_cells(kinds, columns or PRIORS), *registers)))
    terminal.make_folder(out)
    runs = out / ("runs" if train else "live")
    models = _train(cells, runs, workers, cluster) if train else _from_zoo(cells)
    if not train:
        _train_live(runs)
    table = _measure(models, columns or PRIORS, sequences)
    _write(table, out)
    claims = check_claims(table, models)
    terminal.write_json(out / "claims.json", ClaimsRecord(tuple(claims)).as_json())
    if details:
        _say_details(table, claims)
    if report:
        with terminal.Progress(RECORD_PARTS) as progress:
            make_records(
                models, runs, out, sequences, on_stage=lambda name, parts: progress.stage(f"measuring {name}", parts)
            )
        write_report(out)
    _say_headline(table, claims, out, details)


# --- models -----------------------------------------------------------------------------------------------------------


def _train(
    cells: Sequence[Cell], runs: Path, workers: int | None, cluster: str | None
) -> dict[Cell, LinearTransformer]:
    """Train all cells as one study; cells that another version of the grid left are trained again."""
    result = show_sweep(grid_study(cells), runs, workers, cluster, overwrite=True)
    check_failures(result, len(cells))
    return {cell: load(runs / cell.name / "model.safetensors") for cell in cells}


def _from_zoo(cells: Sequence[Cell]) -> dict[Cell, LinearTransformer]:
    present = [cell for cell in cells if cell.name in zoo_names()]
    if not present:
        raise InputError(f"The zoo has no {cells[0].name}; train it with: ridgeformer reproduce --train")
    if len(present) < len(cells):
        missing = f"{len(cells) - len(present)} of these {len(cells)} models are not in the zoo"
        terminal.say(f"{missing}; 'ridgeformer reproduce --train' makes them.")
    return {cell: load(cell.name) for cell in present}


def _train_live(runs: Path) -> None:
    """Train one model, or continue its training where it was stopped."""
    directory = RunDirectory(runs / zoo_name(_LIVE.kind, _LIVE.layers, _LIVE.noise_spec))
    begun = directory.exists() and directory.config() == _LIVE and not directory.result.exists()
    doing = "Continuing" if begun else "Training"
    terminal.say(f"{doing} {_LIVE.kind}, {_LIVE.layers} layers, on σ ~ {_LIVE.noise}, live:")
    run_training(_LIVE, directory.path, resume=begun, overwrite=not begun)


# --- measurements -----------------------------------------------------------------------------------------------------


def _measure(models: dict[Cell, LinearTransformer], columns: Sequence[str], sequences: int) -> Table1:
    with terminal.Progress(sequences * len(columns)) as progress:

        def on_chunk(noise: str, done: int) -> None:
            progress.show(f"measuring {noise}", sequences * columns.index(noise) + done)

        return measure_table1(models, columns, sequences, on_chunk=on_chunk)


def _write(table: Table1, out: Path) -> None:
    """Write the table as four files, and print it: our number above the paper's, the best of a column in bold."""
    texts = {
        "json": json_module.dumps(table.as_json(), indent=1) + "\n",
        "csv": table.as_csv(),
        "md": table.as_markdown(),
        "tex": table.as_latex(),
    }
    for suffix, text in texts.items():
        write_whole(out / f"table1.{suffix}", text.encode())

    def cell(entry: Entry, best: bool) -> str:
        text = f"[{'bold ' if best else ''}{_COLOURS.get(entry.verdict, 'default')}]{number(entry.adjusted_loss)}[/]"
        return text + (f"\n[dim]{entry.printed:g}[/]" if entry.printed is not None else "")

    rows = [[Text(name), *map(Text.from_markup, cells)] for name, *cells in table.texts(cell)]
    terminal.print_table("", ["", *map(header, table.columns)], rows)
    printed = "the paper's number below ours" if any(entry.printed is not None for entry in table.entries) else ""
    terminal.say(", ".join(filter(None, (f"Adjusted loss on {table.sequences:,} fresh sequences each", printed))) + ".")


def _say_details(table: Table1, claims: Sequence[Claim]) -> None:
    """Every cell that is worse than printed or impossible as printed, and every claim with its numbers."""
    verdicts = table.verdicts()
    for entry in (*verdicts["worse"], *verdicts["impossible as printed"]):
        ours = f"{entry.adjusted_loss:.4g} ± {entry.standard_error:.1g}"
        theirs = f"{entry.printed:g} ± {entry.printed_error or 0:.1g}"
        terminal.say(f"{row_name(*entry.row)}, {entry.noise}: {ours}, printed {theirs}: {entry.verdict}")
    for claim in claims:
        terminal.say(f"{claim.verdict}: {claim.statement} {claim.numbers}")


def _say_headline(table: Table1, claims: Sequence[Claim], out: Path, details: bool) -> None:
    """The result in five lines."""
    for line in table.headline():
        terminal.say(line)
    confirmed = sum(claim.verdict == "confirmed" for claim in claims)
    if claims:
        terminal.say(f"{confirmed} of {len(claims)} claims of the paper are confirmed in full.")
    hint = "" if details else " --details prints the claims, and the models that are worse than in the paper."
    terminal.say(f"Tables and records: {out}.{hint}", to_copy=True)


def _baselines(sequences: int, json: Path | None) -> None:
    terminal.check_files(json)
    with terminal.ERRORS.status("tuning baselines") as status:
        measured = measure_baselines(sequences, on_stage=status.update)
    cells, limits = measured.tables()
    terminal.print_table(*cells, words=(0, 1, 6))
    terminal.print_table(*limits, words=(0, 3))
    terminal.write_json(json, measured.as_json())
