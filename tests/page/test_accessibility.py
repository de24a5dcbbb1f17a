"""axe-core finds nothing serious on the page: light and dark, on a desk and on a phone, in every state."""

from __future__ import annotations

from pathlib import Path

import pytest

from accessibility import severe_issues
from browsing import Browser

STATES = ("", "model=diag-4-uniform-5&sigma=6.5&outlier=20&average=yes&against=oracle")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_page_has_no_serious_issue(page: Path, browser: Browser, dark: bool, width: int, state: str) -> None:
    browser.open(page, state)
    browser.emulate(width, 900, dark)
    browser.settle()
    assert severe_issues(browser) == []


def test_every_figure_that_can_be_opened_has_no_serious_issue(page: Path, browser: Browser) -> None:
    browser.open(page)
    browser.driver.set_script_timeout(120)
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    found = list[str]()
    for tab in browser.run("return [...document.querySelectorAll('[role=tab]')].map((one) => one.id)"):
        browser.run("document.getElementById(arguments[0]).click()", tab)
        browser.settle()
        found += [f"{tab}: {issue}" for issue in severe_issues(browser)]
    assert found == []


def test_what_axe_finds_is_reported(page: Path, browser: Browser) -> None:
    """The control: a picture without a text."""
    browser.open(page)
    browser.run("document.querySelector('main').append(document.createElement('img'))")
    assert any("image-alt" in issue for issue in severe_issues(browser))
