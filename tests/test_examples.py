"""The examples run, and say what they are meant to say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_own_data_example_ranks_the_estimates_as_theory_has_it() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "own_data.py")], capture_output=True, text=True, timeout=300, check=True
    )
    errors = {line.split("mean")[0].strip(): float(line.split()[-1]) for line in done.stdout.splitlines()}
    assert len(errors) == 5
    assert errors["ridge, told σ"] < errors["Bayes limit"] < errors["AdaRR"] < errors["OLS"]
    assert errors["FULL, 7 layers"] < errors["AdaRR"]


def test_callback_example_is_five_lines_and_trains_with_its_callback() -> None:
    text = (EXAMPLES / "callback.py").read_text(encoding="utf-8")
    body = re.search(r"def tell.*?\n\n", text, re.S)
    assert body is not None
    assert len(body[0].strip().splitlines()) <= 5
    short = text.replace("steps=4000", "steps=60, batch=32, sequences=100").replace("info.step % 500", "info.step % 10")
    done = subprocess.run([sys.executable, "-c", short], capture_output=True, text=True, timeout=300, check=True)
    assert "adjusted loss" in done.stdout
