"""Running the page's scripts in Node: the same files, in the same order, without a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib import resources
from typing import Any

import pytest

MATHS = ("linear_algebra.js", "random.js", "model.js", "baselines.js")
"""The scripts that need no document, in the order in which the page has them."""


def run_javascript(code: str, payload: Any = None, scripts: tuple[str, ...] = MATHS) -> Any:
    """What the function body ``code`` returns, given ``payload`` as ``input``; infinities and NaN come back as text."""
    node = _node()
    folder = resources.files("ridgeformer.page").joinpath("assets")
    sources = [folder.joinpath(name).read_text(encoding="utf-8") for name in scripts]
    # As one text, like the page's script: a name declared in two files would be an error here as well.
    program = "\n".join(
        [
            *sources,
            "{",
            "const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));",
            f"const result = ((input) => {{ {code} }})(input);",
            "const unfit = (value) => typeof value === 'number' && !Number.isFinite(value);",
            "const plain = (key, value) => (unfit(value) ? String(value) : value);",
            "process.stdout.write(JSON.stringify(result, plain));",
            "}",
        ]
    )
    done = subprocess.run(
        [node, "-e", program], input=json.dumps(payload), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _node() -> str:
    """The path of Node; without it tests are skipped, but never in CI."""
    node = shutil.which("node")
    if node is not None:
        return node
    reason = "Node is not installed (apt-get install nodejs)."
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
