"""``ridgeformer zoo``: the models that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ridgeformer.cli import terminal
from ridgeformer.core.validation import InputError, shortened
from ridgeformer.reproduction.grid import build_zoo
from ridgeformer.zoo import zoo_entries
from ridgeformer.zoo.export import export_zoo


def zoo(
    names: tyro.conf.Positional[Annotated[tuple[str, ...], terminal.argument("TEXT…")]] = (),
    sha256: bool = False,
    build: Annotated[Path | None, terminal.argument("RUNS")] = None,
    into: terminal.Folder = None,
    export: terminal.Folder = None,
    json: terminal.File = None,
) -> None:
    """List the trained models that come with the package, with their measured losses.

    Load one with rf.load("full-7-uniform-5"), or name it wherever a command takes a model file.

    Args:
        names: Only list models whose names contain one of these texts.
        sha256: Also show the first characters of each file's SHA-256 digest; --json has the whole digest.
        build: Instead, make a zoo from the runs that 'ridgeformer reproduce --train' wrote into this folder.
        into: Folder for the zoo that --build makes; by default that of the package itself.
        export: Also write the listed models and a model card into this folder, as a Hugging Face repository.
        json: Also write the list as JSON.
    """
    if build is not None:
        others = {"names of models": names, "--sha256": sha256, "--export": export, "--json": json}
        terminal.refuse("--build lists nothing", others)
        written = build_zoo(build, terminal.make_folder(into))
        terminal.say(f"{len(written)} models, {sum(written.values()):,} bytes in all.")
        return
    terminal.refuse("--into belongs to --build", {"--into": into})
    terminal.check_files(json)
    entries = [entry for entry in zoo_entries() if not names or any(text in entry.name for text in names)]
    if not entries:
        raise InputError(f"No model of the zoo has {' or '.join(map(shortened, names))} in its name.")
    rows = []
    for entry in entries:
        formats = {"adjusted_loss": ".4g", "standard_error": ".1g", "maximum": ".3g", "sequences": ","}
        values = {name: entry.evaluation[name] for name in formats}
        numbers = ["∞" if values[name] is None else format(values[name], digits) for name, digits in formats.items()]
        rows.append([entry.name, *numbers, *([entry.sha256[:12]] if sha256 else [])])
    title = "Adjusted loss on fresh sequences, and the largest loss of one of them"
    heads = ("name", "adjusted loss", "± s.e.", "largest", "sequences", *(("sha256",) if sha256 else ()))
    terminal.print_table(title, heads, rows)
    terminal.say(f"{len(entries)} models. 'ridgeformer evaluate NAME --baselines' measures one again.")
    if (folder := terminal.make_folder(export)) is not None:
        size = export_zoo(entries, folder)
        terminal.say(f"{len(entries)} models, config.json and README.md in {folder}: {size:,} bytes.", to_copy=True)
    kept = ("name", "sha256", "evaluation", "training")
    terminal.write_json(json, [{name: getattr(entry, name) for name in kept} for entry in entries])
