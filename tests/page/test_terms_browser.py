"""Every section of the page explains the terms that occur in it."""

from __future__ import annotations

from pathlib import Path

from browsing import Browser

# A word as a reader meets it, and the entry that must then be in the list of the same section.
WORDS = {
    "FULL": "FULL",
    "DIAG": "DIAG",
    "GD++": "GD++",
    "OLS": "OLS",
    "ConstRR": "ConstRR",
    "AdaRR": "AdaRR",
    "TunedRR": "TunedRR",
    "Bayes limit": "Bayes limit",
    "oracle": "oracle",
    "σ": "σ",
    "U(0, 5)": "noise prior",
    "adjusted": "adjusted loss",
    "Heads": "heads",
    "query": "query, target",
    "ŵ": "w, ŵ, w*",
    "precondition": "preconditioning",
    "ω": "ω",
    "Outlier": "outlier, sd",
    "linear in y": "linear in y",
    "condition number": "condition number",
    "survive": "shift, survive",
    "95 %": "95 % interval",
    "confirmed": "confirmed, partly, refuted",
}
READ = """
const section = document.getElementById(arguments[0]);
const box = section.querySelector("details.terms");
const text = [...section.children].filter((child) => child !== box).map((child) => child.innerText).join(" ");
box.open = false; box.open = true;
return new Promise((done) => setTimeout(() => done([text, [...box.querySelectorAll("dt")].map((one) => one.textContent),
  [...box.querySelectorAll("dd")].every((one) => one.textContent.length > 20)]), 50));
"""


def unexplained(browser: Browser, section: str) -> list[str]:
    text, terms, meanings = browser.run(READ, section)
    assert meanings
    return [word for word, term in WORDS.items() if word in text and term not in terms]


def test_every_section_explains_the_terms_it_uses(page: Path, browser: Browser) -> None:
    browser.open(page)
    for section in ("problem", "explorer", "table1", "claims", "made"):
        assert unexplained(browser, section) == [], section


def test_every_figure_explains_the_terms_it_uses_once_it_is_opened(page: Path, browser: Browser) -> None:
    browser.open(page)
    for tab in browser.run("return [...document.querySelectorAll('[role=tab]')].map((one) => one.id)"):
        browser.run("document.getElementById(arguments[0]).click()", tab)
        assert unexplained(browser, "figures") == [], tab


def test_list_has_only_terms_that_occur(page: Path, browser: Browser) -> None:
    """The control: not all terms everywhere."""
    browser.open(page)
    _, terms, _ = browser.run(READ, "explorer")
    assert "ω" in terms
    assert "condition number" not in terms
