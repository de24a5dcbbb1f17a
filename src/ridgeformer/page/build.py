"""Assembles the page: one file with the template, styles and scripts of `assets` and the data. It loads nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from ridgeformer._version import __version__
from ridgeformer.baselines import Baseline
from ridgeformer.core.kinds import Kind
from ridgeformer.core.storage import plain, write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError
from ridgeformer.page.models import encode_models, page_model_names
from ridgeformer.plots import FIGURES, FigureEntry, as_json
from ridgeformer.plots.inside_figures import one_model
from ridgeformer.plots.specification import count_text
from ridgeformer.reproduction.records import DIGITS, METHODS
from ridgeformer.reproduction.results import RECORDS, MissingRecordError, Results, making_command, read_results

_Value = TypeVar("_Value")
STYLES = ("style.css", "explorer.css")
_ORDER = (
    "dom state format chart_parts charts linear_algebra random model baselines explorer_settings explorer_result "
    "explorer_controls explorer_plots explorer_switches explorer_table explorer table figures summary terms main"
)
SCRIPTS = tuple(f"{name}.js" for name in _ORDER.split())
"""In the order in which they run: each adds its part to one object, ``ridgeformer``; the last one starts the page."""


def write_page(results_folder: Path, out: Path, models: Iterable[str] | None = None) -> Path:
    """Write the page as ``out/index.html``.

    Parameters
    ----------
    results_folder: where `ridgeformer reproduce` left its records. Records other than Table 1 may be missing: the page
        then says which command makes them.
    out: the folder to write to; it is made if it does not exist.
    models: names in the zoo, or files, of the models that the page runs; by default those of `page_model_names`.

    Returns the path of the page. Raises `InputError` if there is no Table 1, a record is damaged, or ``out`` cannot be
    written.
    """
    names = page_model_names() if models is None else models
    text = page_html(page_data(read_results(results_folder), encode_models(names)))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise InputError(f"Cannot write {out}: {failed.strerror or failed}.") from failed
    path = out / "index.html"
    write_whole(path, text.encode())
    return path


def page_data(results: Results, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All data that the page's scripts read: Table 1, claims, figures, models, and names of methods."""
    task, table = Task(), results.table1  # which must be there
    records = {name: _or_none(partial(getattr, results, name)) for name in RECORDS}
    missing = [name for name, record in records.items() if record is None]
    folder = Path(results.folder.name or ".")  # without the path, which is private
    return {
        "version": __version__,
        "task": {"dim": task.dim, "examples": task.examples},
        "methods": {name: _method(METHODS[name]) for name in METHODS},
        "table1": plain(table.as_json(), DIGITS),
        "claims": plain(records["claims"].as_json(), DIGITS) if records["claims"] else None,
        "picture": as_json(_or_none(lambda: one_model(results))),
        "figures": [_figure(entry, results, missing) for entry in FIGURES.values()],
        "measured": _measured(records),
        "missing": missing,
        "commands": {record: making_command(record, folder) for record in RECORDS},
        "models": models,
    }


def _or_none(make: Callable[[], _Value]) -> _Value | None:
    """What is made from records, if they are there."""
    try:
        return make()
    except MissingRecordError:
        return None


def _method(method: Kind | Baseline) -> dict[str, Any]:
    return {"label": method.label, "look": as_json(method.look), "summary": getattr(method, "summary", "")}


def _figure(entry: FigureEntry, results: Results, missing: Sequence[str]) -> dict[str, Any]:
    """A figure of the registry with its specification, or without one if a record is missing or has nothing to draw."""
    return {
        "name": entry.name,
        "title": entry.title,
        "text": entry.text,
        "missing": [record for record in entry.needs if record in missing],
        "figure": as_json(_or_none(lambda: entry.build(results))),
    }


def _measured(records: Mapping[str, Any]) -> list[str]:
    """How many sequences each record was measured on, one line each."""
    table, profiles, readouts, shift = (records[name] for name in ("table1", "profiles", "readouts", "shift"))
    lines = [f"Table 1: {count_text(table.sequences)} fresh sequences for each noise prior, with seed {table.seed}."]
    if profiles is not None:
        lines.append(f"Losses by noise level: {count_text(profiles.sequences)} sequences at each level.")
    if readouts is not None:
        seeds, each = len({model.seed for model in readouts.models}), count_text(readouts.level_sequences)
        many = count_text(readouts.sequences)
        lines.append(f"Answers after each layer: {many} sequences, {each} at each noise level, {seeds} seeds.")
    if shift is not None:
        lines.append(f"Shifts: {count_text(shift.sequences)} sequences each.")
    return lines


def page_html(data: Mapping[str, Any]) -> str:
    """The page around its data."""
    style = "\n".join(_asset(name) for name in STYLES)
    script = "\n".join(_asset(name) for name in SCRIPTS)
    parts = {
        "policy": html.escape(_policy(script, style)),
        "style": style,
        "script": script,
        "data": _as_json_block(data),
    }
    # One pass over the template, so that no text inside a part is taken for a placeholder.
    pieces = _asset("page.html").split("%%")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def _asset(name: str) -> str:
    return resources.files("ridgeformer.page").joinpath("assets", name).read_text(encoding="utf-8")


def _as_json_block(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in: no ``</script>``, no ``<!--``."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _policy(script: str, style: str) -> str:
    """Nothing may be loaded, and only this script and this style may run; strings may never become markup."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
