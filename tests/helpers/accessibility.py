"""axe-core, which looks for what keeps people with disabilities from using a page: https://github.com/dequelabs/axe-core."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from browsing import Browser

AXE = Path(sys.prefix) / "npm" / "node_modules" / "axe-core" / "axe.min.js"  # where 'make' puts it
# What WCAG 2.2 asks for at levels A and AA, and what axe counts as good practice.
_RUN = """
const [source, done] = arguments;
if (!window.axe) (0, eval)(source);
const asked = axe.run(document, { resultTypes: ["violations"] });
asked.then((found) => done(found.violations), (wrong) => done(String(wrong)));
"""
_SEVERE = ("serious", "critical")


def severe_issues(browser: Browser) -> list[str]:
    """A line for each serious or critical issue of the page as it is shown now, with the first elements in question."""
    found: Any = browser.driver.execute_async_script(_RUN, axe_source())
    assert isinstance(found, list), found
    return [
        f"{one['impact']}: {one['id']}, {one['help']} ({len(one['nodes'])} times): "
        + "; ".join(str(node["html"])[:160] for node in one["nodes"][:3])
        for one in found
        if one["impact"] in _SEVERE
    ]


def axe_source() -> str:
    """The script; where it is not installed, the tests are skipped, but never in CI."""
    if not AXE.is_file():
        reason = f"axe-core is not installed (npm install --prefix {sys.prefix}/npm axe-core)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return AXE.read_text(encoding="utf-8")
