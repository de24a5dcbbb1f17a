"""Assembling the page: template, styles and scripts of `assets`, and the data, in one file that loads nothing."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ridgeformer._version import __version__
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError
from ridgeformer.page.models import encode_models, page_model_names
from ridgeformer.reproduction.records import plain
from ridgeformer.reproduction.results import RECORDS, MissingRecordError, making_command, read_results

STYLES = ("style.css", "explorer.css")
SCRIPTS = (
    "dom.js",
    "state.js",
    "format.js",
    "scales.js",
    "chart_parts.js",
    "charts.js",
    "heatmap.js",
    "linear_algebra.js",
    "random.js",
    "model.js",
    "baselines.js",
    "explorer_settings.js",
    "explorer_result.js",
    "explorer_controls.js",
    "explorer_plots.js",
    "explorer_switches.js",
    "explorer_table.js",
    "explorer.js",
    "table.js",
    "figure_data.js",
    "shift_table.js",
    "figures.js",
    "summary.js",
    "main.js",
)
"""In the order in which they run: each adds its part to one object, ``ridgeformer``; the last one starts the page."""


def write_page(results_folder: Path, out: Path, models: Iterable[str] | None = None) -> Path:
    """Write ``out/index.html`` from the records in a results folder; the models are those of the zoo unless named.

    Records other than Table 1 may be missing: the page then says which command makes them.
    """
    results = read_results(results_folder)
    records = {"table1": results.table1.as_json()}
    for name in RECORDS:
        with contextlib.suppress(MissingRecordError):
            records[name] = getattr(results, name).as_json()
    names = page_model_names() if models is None else models
    text = page_html(page_data(records, results_folder, encode_models(names)))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise InputError(f"Cannot write {out}: {failed.strerror or failed}.") from failed
    path = out / "index.html"
    write_whole(path, text.encode())
    return path


def page_data(
    records: Mapping[str, Mapping[str, Any]], folder: Path, models: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """All that the page's scripts read."""
    task = Task()
    return {
        "version": __version__,
        "task": {"dim": task.dim, "context": task.examples},
        "records": plain(records),
        "commands": {record: making_command(record, Path(folder.name or ".")) for record in RECORDS},
        "models": models,
    }


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
    # One pass over the template: what a part holds is never taken for a place to fill.
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
