"""Write the measured parts of our own pages, from what the commands of the package left on disk.

ridgeformer reproduce --train --sequences 1000000 --out reproduction
python tools/write_docs.py reproduction reproduction                       # docs/reproduction.md

ridgeformer train --recipe paper --sequences 100000 --out runs/NAME …      # as often as you like
python tools/write_docs.py protocol runs                                   # measures; the same page
python tools/write_docs.py protocol                                        # from docs/results/protocol.json

python tools/measure_tails.py
python tools/write_docs.py tails                                           # the same page

ridgeformer reproduce --baselines --sequences 1000000 --json baselines.json
python tools/write_docs.py evaluation baselines.json                       # docs/evaluation.md

ridgeformer bench --training --ablations --json trials.json
python tools/write_docs.py training trials.json                            # docs/training.md

ridgeformer sweep tools/seeds.toml
python tools/write_docs.py seeds sweeps/seeds                              # the same page

ridgeformer bench --json bench.json
python tools/write_docs.py performance bench.json                          # docs/performance.md

make test-faults
python tools/write_docs.py reliability faults.json                         # docs/reliability.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tyro

from measure_tails import COMMAND, RECORD, SEQUENCES, TailsRecord
from reproduction_page import reproduction_blocks
from ridgeformer.bench.rows import NUMBER_HEADS, SECTIONS, BenchReport, table_text
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, RidgeformerError
from ridgeformer.reproduction.baseline_check import BaselineReport
from ridgeformer.reproduction.cells import SEEDED_PRIOR, SEEDS, zoo_name
from ridgeformer.reproduction.results import read_record
from ridgeformer.reproduction.table1 import Table1, TextTable
from ridgeformer.reproduction.training_targets import TrialsRecord
from ridgeformer.sweeps.table import LOSS, collect
from ridgeformer.zoo import load
from tails_page import measure_protocol, protocol_text, read_protocol, tails_text

_DOCS = Path(__file__).parents[1] / "docs"


def replace_block(page: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- begin name -->`` and ``<!-- end name -->`` in a Markdown page."""
    before, _, after = _around(page, name)
    write_whole(page, f"{before}<!-- begin {name} -->\n\n{text}\n\n<!-- end {name} -->{after}".encode())


def _around(page: Path, name: str) -> tuple[str, str, str]:
    """What a page has before a block, in it, and after it."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    try:
        before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    except OSError as failed:
        raise InputError(f"Cannot read {page}: {failed.strerror or failed}.") from failed
    block, closed, after = rest.partition(end)
    if not closed:
        raise InputError(f"{page} has no place for a table: the lines {begin} and {end}.")
    return before, block, after


def reproduction(folder: tyro.conf.Positional[Path], page: Path = _DOCS / "reproduction.md") -> None:
    """Table 1, the cells worse than printed, those beyond the paper, registers, the claims, and training times.

    Args:
        folder: Where 'ridgeformer reproduce' left its results; with --train, also the runs.
        page: The page to write into.
    """
    for name, text in reproduction_blocks(folder).items():
        replace_block(page, name, text)


def protocol(
    folder: tyro.conf.Positional[Path | None] = None,
    tail_sequences: int = SEQUENCES,
    record: Path = _DOCS / "results" / "protocol.json",
    page: Path = _DOCS / "reproduction.md",
) -> None:
    """Runs of 'ridgeformer train --recipe paper' beside the paper's numbers and our models.

    Args:
        folder: One sub-folder for each run; unfinished ones are left out. Without it nothing is measured.
        tail_sequences: How many fresh sequences to look for large losses in.
        record: Where the numbers are kept.
        page: The page to write into.
    """
    found = read_protocol(record) if folder is None else measure_protocol(folder, tail_sequences, record)
    replace_block(page, "protocol", protocol_text(found))


def tails(
    record: Path = RECORD, table: Path = _DOCS / "results" / "table1.json", page: Path = _DOCS / "reproduction.md"
) -> None:
    """Rare large losses of our models, and losses beyond the noise of their training.

    Args:
        record: What tools/measure_tails.py wrote.
        table: What 'ridgeformer reproduce' wrote: which models are closest to the Bayes limit.
        page: The page to write into.
    """
    measured = read_record(Table1, table, "ridgeformer reproduce")
    replace_block(page, "tails", tails_text(read_record(TailsRecord, record, COMMAND), measured))


def evaluation(file: tyro.conf.Positional[Path], page: Path = _DOCS / "evaluation.md") -> None:
    """Baselines against the paper's and against the Bayes limit.

    Args:
        file: What 'ridgeformer reproduce --baselines --json FILE' wrote.
        page: The page to write into.
    """
    report = read_record(BaselineReport, file, "ridgeformer reproduce --baselines --json")
    cells, limits = report.tables()
    replace_block(page, "baseline cells", f"On {report.sequences:,} sequences:\n\n{cells.markdown()}")
    replace_block(page, "Bayes limits", f"On {report.sequences // 2:,} sequences:\n\n{limits.markdown()}")


def training(file: tyro.conf.Positional[Path], page: Path = _DOCS / "training.md") -> None:
    """Times to target and what the ingredients of the recipes are worth; what was not measured stays as it is.

    Args:
        file: What 'ridgeformer bench --training --ablations --json FILE' wrote.
        page: The page to write into.
    """
    record = read_record(TrialsRecord, file, "ridgeformer bench --training --ablations --json")
    machine = f"{record.machine.get('cores')} cores of {record.machine.get('cpu')}"
    machine += "" if record.others is None else f", of which other processes used {record.others:.0%} meanwhile"
    for name, table in zip(("time to target", "ablations"), record.tables(), strict=True):
        if table.rows:
            replace_block(page, name, f"Measured on {machine}.\n\n{table.markdown()}")


def seeds(folder: tyro.conf.Positional[Path], page: Path = _DOCS / "training.md") -> None:
    """How far the losses of models from many seeds are apart; rows of other kinds and depths stay as they are.

    Args:
        folder: Where 'ridgeformer sweep tools/seeds.toml' left its runs.
        page: The page to write into.
    """
    losses: dict[tuple[str, int], list[float]] = {}
    largest: dict[tuple[str, int], float] = {}
    for row in collect(folder):
        cell = row["kind"], row["layers"]
        losses.setdefault(cell, []).append(row[LOSS])
        largest[cell] = max(row["maximum"], largest.get(cell, 0.0))
    lines = [line.strip("| ").split(" | ") for line in _around(page, "seeds")[1].splitlines()]
    labels = [kind.label for kind in KINDS.values()]
    table = {(labels.index(line[0]), int(line[1])): line for line in lines if line[0] in labels}
    for (kind, layers), measured in losses.items():
        own, label = sorted(measured), KINDS[kind].label
        known = [load(zoo_name(kind, layers, SEEDED_PRIOR, seed)).info["evaluation"][LOSS] for seed in SEEDS]
        best = min(*own, *known)
        within = [sum(loss <= share * best for loss in own) for share in (1.01, 1.02)]
        numbers = (f"{loss:.5f}" for loss in (best, own[0], own[-1]))
        worst = f"{own[-1] / best - 1:.1%}", *within, f"{largest[kind, layers]:.3g}"
        table[labels.index(label), layers] = [*map(str, (label, layers, len(own), *numbers, *worst))]
    head = ("kind", "layers", "seeds", "best known", "lowest", "highest", "worst", "within 1 %", "within 2 %")
    rows = [table[cell] for cell in sorted(table)]
    replace_block(page, "seeds", TextTable("", (*head, "largest loss"), rows).markdown())


def performance(file: tyro.conf.Positional[Path], page: Path = _DOCS / "performance.md") -> None:
    """Speed, memory and growth: the whole page.

    Args:
        file: What 'ridgeformer bench --json FILE' wrote.
        page: The page to write.
    """
    try:
        report = BenchReport.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as unfit:
        raise InputError(f"{file} is not what 'ridgeformer bench --json' writes: {unfit!r}.") from unfit
    parts = [
        "# Performance",
        "`ridgeformer bench --json` measured what this page shows, and `tools/write_docs.py` wrote it: do not edit it. "
        "All competitors were measured in turns within one run, and each time is the best of "
        f"{report.config.samples} samples. [Design](design.md) says why the package is fast, and what was tried for "
        "the targets that are missed.",
        *(["This was a quick run on small sizes: do not quote its numbers."] if report.config.quick else []),
        *report.about(),
    ]
    for name, rows in report.sections():
        heads, cells = table_text(rows)
        rule = ["---:" if head in NUMBER_HEADS else "---" for head in heads]
        lines = [heads, rule, *([cell.replace("|", "\\|") for cell in line] for line in cells)]
        parts += [f"## {name}", f"{SECTIONS[name]}.", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    write_whole(page, ("\n\n".join(parts) + "\n").encode())


def reliability(file: tyro.conf.Positional[Path], page: Path = _DOCS / "reliability.md") -> None:
    """What the attacks of 'make test-faults' did and found.

    Args:
        file: What 'make test-faults' wrote.
        page: The page to write into.
    """
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        attacks, cores, minutes = record["attacks"], record["cores"], record["seconds"] / 60
        kinds = list(attacks[0]["findings"])
        rows = [
            [
                one["name"],
                f"{sum(one['cases'].values()):,}",
                ", ".join(f"{count:,} {case}" for case, count in one["cases"].items()),
                *(str(one["findings"][kind]) for kind in kinds),
            ]
            for one in attacks
        ]
        how = f"Seed {record['seed']}, {cores} cores, {minutes:.1f} minutes, Python {record['python']}."
        if record["unfinished"]:
            how += f" {record['unfinished']} parts of the attack did not end."
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as unfit:
        raise InputError(f"{file} is not what 'make test-faults' writes: {unfit!r}.") from unfit
    table = TextTable("", ("attack", "cases", "of which", *kinds), rows)
    replace_block(page, "attacks", f"{how}\n\n{table.markdown()}")


def main(arguments: list[str] | None = None) -> int:
    """Write one page; the exit code."""
    commands = (reproduction, protocol, tails, evaluation, training, seeds, performance, reliability)
    pages = {one.__name__: one for one in commands}
    try:
        tyro.extras.subcommand_cli_from_dict(pages, args=arguments, description=__doc__)
    except RidgeformerError as wrong:
        sys.stderr.write(f"write_docs: {wrong}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
