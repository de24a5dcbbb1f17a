"""The examples run, and say what they are meant to say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


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


def test_python_of_the_readme_runs_and_prints_what_its_comments_say(tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert blocks
    command = [sys.executable, "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert "Comparison of 3 predictors" in done.stdout
    assert "LinearTransformer: GD++, 2 layers" in done.stdout


def test_readme_shows_the_headline_of_the_page_of_table_1() -> None:
    readme, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/reproduction.md"))
    headline = re.search(r"<!-- begin table 1 -->\n\n(.*?)\n", page)
    assert headline is not None
    sentences = re.split(r"(?<=\.) (?=Best|Largest)", headline[1])
    assert len(sentences) == 3
    for sentence in sentences:
        assert f"    {sentence}\n" in readme
    claims = re.search(r"<!-- begin claims -->(.*?)<!-- end claims -->", page, re.DOTALL)
    assert claims is not None
    verdicts = re.findall(r"\| (confirmed|partly|refuted) \|", claims[1])
    confirmed = f"{verdicts.count('confirmed')} of {len(verdicts)}"
    assert f"    {confirmed} claims of the paper are confirmed in full.\n" in readme
