"""What a release says of itself agrees everywhere; and the checks of distributions refuse what they should."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import release
import ridgeformer as rf

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_version_has_one_place_and_citation_and_changelog_agree_with_it() -> None:
    assert "version" in PROJECT["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == rf.__version__  # type: ignore[index]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1].rstrip(",") == rf.__version__


def test_supported_pythons_are_stated_alike() -> None:
    stated = [line.rpartition(":: ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert PROJECT["requires-python"] == f">={stated[0]}"
    assert stated == ["3.11", "3.12", "3.13"]


def test_lower_bounds_are_those_of_every_dependency() -> None:
    bounds = release.lower_bounds()
    assert len(bounds) == len(PROJECT["dependencies"])
    assert all(re.fullmatch(r"[\w-]+==\d[\d.]*", bound) for bound in bounds)
    assert any(bound.startswith("numpy==2.") for bound in bounds)


def test_constraints_are_exact_and_sorted() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", line) for line in pinned)
    assert pinned == sorted(pinned, key=str.lower)


def test_wheel_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ridgeformer-1-py3-none-any.whl").write_bytes(bytes(3_000_001))
    (tmp_path / "ridgeformer-1.tar.gz").write_bytes(b"")
    with pytest.raises(SystemExit, match="more than 3,000,000"):
        release.check(tmp_path)
