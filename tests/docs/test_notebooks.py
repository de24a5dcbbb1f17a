"""Tutorials and other pages with code run from top to bottom; each checks in hidden cells what its text says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notebooks import script_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "{code-cell}" in path.read_text(encoding="utf-8"))
# The others take up to a minute each: 'make test-slow' runs them, and 'make docs' runs all pages anyway.
QUICK = ("first-model", "howto", "real-data", "start", "take-apart")
NEEDS = {"pytorch": "torch"}


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script without a window, with warnings as errors; not as a file, which a sweep's processes would import."""
    settings = {"MPLBACKEND": "Agg", "MATPLOTLIBRC": str(DOCS / "_ext" / "matplotlibrc")}
    command = [sys.executable, "-W", "error", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[] if page.stem in QUICK else [pytest.mark.slow]) for page in PAGES],
)
def test_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    needed = NEEDS.get(page.stem)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    done = run(script_of(page), tmp_path)
    assert done.returncode == 0, f"{page.name}: {done.stderr}"


def test_tutorials_have_pictures_with_texts_and_check_what_they_say() -> None:
    tutorials = [page for page in PAGES if page.parent.name == "tutorials"]
    assert len(tutorials) >= 4
    for page in tutorials:
        text = page.read_text(encoding="utf-8")
        assert "    alt: " in text, f"{page.name} has no picture"
        assert "\nassert " in text, f"{page.name} checks nothing"
        assert text.count("plt.subplots") == text.count("    alt: "), f"{page.name}: a picture without a text"


def test_script_of_a_page_has_its_cells_at_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```{code-cell} python\n:tags: [remove-cell]\n\nx = 1\n```\n\n```python\nx = 2\n```\n")
    assert script_of(page).splitlines()[5] == "x = 1"
    assert "x = 2" not in script_of(page)


def test_page_that_fails_is_noticed(tmp_path: Path) -> None:
    """The control."""
    page = tmp_path / "page.md"
    page.write_text("```{code-cell} python\n---\ntags: [hide-input]\n---\nassert 1 == 2\n```\n")
    assert run(script_of(page), tmp_path).returncode != 0
