"""Every section of the page explains the terms that occur in it, whatever the reader has chosen to see."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    "ridge regression": "ridge regression, penalty",
    "penalty": "ridge regression, penalty",
    "residual": "residual",
    "Residual": "residual",
    "sequence": "sequence",
    "σ": "σ",
    "σmax": "noise prior",
    "noise prior": "noise prior",
    "U(0, 5)": "noise prior",
    "U5": "noise prior",
    "{1, 3}": "noise prior",
    "adjusted": "adjusted loss",
    "loss": "loss, error",
    "error": "loss, error",
    "layers": "kind, layers",
    "Heads": "heads",
    "heads": "heads",
    "register": "registers",
    "linear attention": "linear attention",
    "token": "token",
    "query": "query, target",
    "target": "query, target",
    "ŵ": "w, ŵ, w*",
    "w*": "w, ŵ, w*",
    "implicit weights": "w, ŵ, w*",
    "precondition": "preconditioning",
    "gradient": "gradient step, momentum",
    "momentum": "gradient step, momentum",
    "ω": "ω",
    "blocks": "P, Q, block",
    "P and Q": "P, Q, block",
    "Outlier": "outlier, sd",
    "read out": "read out",
    "after layer": "read out",
    "linear in y": "linear in y",
    "condition number": "condition number",
    "Student": "Student’s t, ν",
    "shift": "shift, survive",
    "survive": "shift, survive",
    "95 %": "95 % interval",
    "standard error": "standard error",
    "median": "median, 99 %, worst",
    "log scale": "log scale",
    "eometric mean": "geometric mean",
    "seeds": "seeds",
    "stage": "stage, run",
    "singular values": "singular values, low rank",
    "low rank": "singular values, low rank",
    "confirmed": "confirmed, partly, refuted",
    "cells": "cell",
}
READ = """
const section = document.getElementById(arguments[0]);
const box = section.querySelector("details.terms");
const text = [...section.children].filter((child) => child !== box).map((child) => child.innerText).join(" ");
box.open = false; box.open = true;
return new Promise((done) => setTimeout(() => {
  const entries = (tag) => [...box.querySelectorAll(tag)].map((one) => one.textContent);
  done([text, entries("dt"), entries("dd")]);
}, 50));
"""
TERMS = "return [...document.querySelectorAll(`#${arguments[0]} .terms dt`)].map((one) => one.textContent)"
VIEWS = """
const panel = document.querySelector("[role=tabpanel]:not([hidden])");
return [...panel.querySelectorAll(".controls input, .controls option")].map((_, place) => place);
"""
CHOOSE_VIEW = """
const panel = document.querySelector("[role=tabpanel]:not([hidden])");
const choice = panel.querySelectorAll(".controls input, .controls option")[arguments[0]];
if (choice.tagName === "INPUT") choice.click();
else { choice.selected = true; choice.parentElement.dispatchEvent(new Event("change", { bubbles: true })); }
"""


def unexplained(browser: Browser, section: str) -> list[str]:
    """Words of a section, or of an explanation in its list, that the list does not explain."""
    text, terms, meanings = browser.run(READ, section)
    assert all(len(meaning) > 20 for meaning in meanings)
    text = " ".join([text, *meanings])
    return [word for word, term in WORDS.items() if word in text and term not in terms]


def test_every_section_explains_the_terms_it_uses(page: Path, browser: Browser) -> None:
    browser.open(page)
    for section in ("problem", "explorer", "table1", "claims", "made"):
        assert unexplained(browser, section) == [], section


@pytest.mark.parametrize("model", ["gdpp-2-uniform-5", "full-4-categorical-1+3", "full-7-heads-2-uniform-5"])
def test_explorer_explains_its_terms_for_every_kind_of_model(page: Path, browser: Browser, model: str) -> None:
    for choices in ("average=no&against=oracle", "average=yes&against=w&outlier=10&sigma=6"):
        browser.open(page, f"model={model}&{choices}")
        assert unexplained(browser, "explorer") == []


def test_table_explains_the_terms_of_the_sentence_about_a_cell(page: Path, browser: Browser) -> None:
    browser.open(page)
    browser.run("document.querySelector('#table1-grid td[data-row]').dispatchEvent(new PointerEvent('pointerenter'))")
    assert "median" in browser.run("return document.getElementById('table1-readout').innerText")
    assert unexplained(browser, "table1") == []


def test_every_figure_explains_the_terms_of_all_its_views(page: Path, browser: Browser) -> None:
    browser.open(page)
    for tab in browser.run("return [...document.querySelectorAll('[role=tab]')].map((one) => one.id)"):
        browser.run("document.getElementById(arguments[0]).click()", tab)
        assert unexplained(browser, "figures") == [], tab
        for view in browser.run(VIEWS):
            browser.run(CHOOSE_VIEW, view)
            assert unexplained(browser, "figures") == [], (tab, view)


def test_open_list_follows_the_figure_that_is_chosen(page: Path, browser: Browser) -> None:
    browser.open(page)
    browser.run(READ, "figures")
    assert "stage, run" not in browser.run(TERMS, "figures")
    browser.run("document.getElementById('tab-training').click()")
    browser.wait(f"return (() => {{ {TERMS} }})().includes('stage, run')".replace("arguments[0]", "'figures'"))


def test_list_has_only_terms_that_occur(page: Path, browser: Browser) -> None:
    """The control: not all terms everywhere."""
    browser.open(page)
    _, terms, _ = browser.run(READ, "explorer")
    assert "ω" in terms
    assert "condition number" not in terms
