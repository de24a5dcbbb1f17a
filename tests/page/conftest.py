"""A page made of made-up records and the models of the zoo, and a real browser to open it in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browsing import Browser, start_browser
from made_up import records, write_records
from ridgeformer.page import write_page


@pytest.fixture(scope="session")
def results_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every record, with made-up numbers."""
    return write_records(tmp_path_factory.mktemp("results"), records())


@pytest.fixture(scope="session")
def page(results_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of those records, with all models that it normally has."""
    return write_page(results_folder, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    started = start_browser(tmp_path_factory.mktemp("chromium"))
    try:
        yield started
    finally:
        started.driver.quit()
