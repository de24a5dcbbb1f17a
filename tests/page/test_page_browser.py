"""The page in a real browser: it draws without complaint, asks for nothing, and works by keyboard, dark and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import ridgeformer as rf
from browsing import Browser
from made_up import PRIORS, poisoned, records, write_records
from ridgeformer.page import write_page
from ridgeformer.page.build import page_data, page_html
from ridgeformer.page.models import encode_models
from ridgeformer.plots import FIGURES
from ridgeformer.plots.specification import geometric
from ridgeformer.reproduction.results import read_results

LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3, for text
PHONE = 390  # pixels, a common width of phones

# The contrast of every visible text against what is painted behind it, by WCAG's definition of relative luminance. The
# canvas turns any CSS colour into bytes, and paints half-transparent ones over what is behind them.
CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const paint = (colours) => {
  canvas.clearRect(0, 0, 1, 1);
  for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const luminance = (bytes) => bytes
  .map((byte) => byte / 255)
  .map((share) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4))
  .reduce((sum, share, k) => sum + share * [0.2126, 0.7152, 0.0722][k], 0);
const behind = (node) => {
  const layers = [];
  for (let at = node; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
  return layers;
};
const worst = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !node.checkVisibility()) continue;
  if (node.closest(".visually-hidden, script, noscript, option")) continue;
  const style = getComputedStyle(node);
  const ink = node instanceof SVGElement ? style.fill : style.color;
  const [front, back] = [paint([...behind(node), ink]), paint(behind(node))].map(luminance).sort((a, b) => b - a);
  worst.push([(front + 0.05) / (back + 0.05), walker.currentNode.textContent.trim().slice(0, 40)]);
}
return worst.sort((a, b) => a[0] - b[0]).slice(0, 5);
"""

HOSTILE = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script>"


def focused(browser: Browser) -> dict[str, Any]:
    """The grid's cell that has the focus: row, column, and what it says."""
    found: dict[str, Any] = browser.run(
        """const td = document.activeElement.closest("td, th");
        return {row: td.parentElement.rowIndex, column: td.cellIndex, text: td.innerText.trim(),
                model: document.activeElement.dataset.model ?? null};"""
    )
    return found


def press(browser: Browser, *keys: str) -> None:
    for key in keys:
        ActionChains(browser.driver).send_keys(key).perform()


def enter_grid(browser: Browser) -> None:
    """Tab into the grid from the control in front of it."""
    browser.run("document.querySelector('#table1-shade').focus()")
    press(browser, Keys.TAB)
    assert focused(browser)["row"] == 0


def show_all(browser: Browser) -> Iterator[str]:
    """Open the tabs of all figures one after the other."""
    for key in FIGURES:
        browser.run("document.getElementById(`tab-${arguments[0]}`).click()", key)
        yield key


def texts(browser: Browser, selector: str) -> list[str]:
    """The texts of all elements that a selector finds."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)", selector
    )
    return found


def column(browser: Browser, place: int) -> list[str]:
    """The numbers of a column from top to bottom."""
    return texts(browser, f"#table1-grid tbody tr > :nth-child({place + 1}) .number")


def test_page_draws_every_figure_without_complaint_asks_for_nothing_and_names_every_control(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    for key in show_all(browser):
        hidden, drawn = browser.run(
            "const panel = document.getElementById(`panel-${arguments[0]}`);"
            "return [panel.hidden, panel.querySelectorAll('svg.canvas .line, svg.heatmap rect, td').length]",
            key,
        )
        assert hidden is False
        assert drawn > 0, key
    nameless = browser.run(
        """return [...document.querySelectorAll("button, input, select, a, [tabindex='0'], [role=application]")]
        .filter((node) => !(node.ariaLabel || node.innerText?.trim() || node.textContent.trim() || node.labels?.length))
        .map((node) => node.outerHTML.slice(0, 120))"""
    )
    assert nameless == []
    twice = browser.run(
        "const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);"
        "return ids.filter((id, k) => ids.indexOf(id) !== k)"
    )
    assert twice == []
    assert browser.complaints() == []
    asked = browser.requests()
    assert page.as_uri() in asked
    assert all(address.startswith(("file:", "data:")) for address in asked)


def test_policy_stops_a_request_and_a_script_that_somebody_injects(browser: Browser, page: Path) -> None:
    browser.open(page)
    outcome = browser.run(
        """const attempt = (what) => { try { what(); return "done"; } catch (refused) { return refused.name; } };
        const [script, image] = ["script", "img"].map((tag) => document.createElement(tag));
        const outcome = [
          attempt(() => { script.textContent = "window.hacked = 1"; }),
          attempt(() => image.setAttribute("onerror", "window.hacked = 1")),
          attempt(() => document.body.insertAdjacentHTML("beforeend", "<b>x</b>")),
        ];
        script.append("window.hacked = 1");
        image.src = "https://example.org/x.png";
        document.body.append(script, image);
        return outcome;"""
    )
    assert outcome == ["TypeError"] * 3
    browser.wait("return document.querySelector('img').complete")
    assert browser.run("return window.hacked ?? null") is None
    # The attempt is seen where the other tests look for it, and the console tells who stopped it.
    assert any(address.startswith("https://example.org") for address in browser.requests())
    told = "\n".join(browser.complaints())
    assert "https://example.org/x.png' violates the following Content Security Policy directive" in told


def test_headline_marks_definitions_and_links_come_from_the_records(browser: Browser, page: Path) -> None:
    browser.open(page)
    entries = [e for e in records()["table1"]["entries"] if e["layers"] is not None]
    best = min(e["adjusted_loss"] for e in entries if e["noise"] == "uniform:5" and e["adjusted_loss"] is not None)
    judged = [e for e in entries if e["verdict"]]
    good = sum(e["verdict"] in ("better", "same") for e in judged)
    assert texts(browser, ".facts dt") == [f"{best:.4f}", f"{best / 0.039:.2f}×", f"{good} of {len(judged)}"]
    marked = browser.run(
        "return [...document.querySelectorAll('#table1-grid .tag')]"
        ".map((tag) => tag.parentElement.firstChild.textContent)"
    )
    assert sorted(marked) == ["Bayes limit", "DIAG 7, 2 heads", "DIAG 8", "FULL 8"]  # the paper does not have them
    for place in ("problem", "table1"):
        assert texts(browser, f"#{place} .definitions dt") == ["ConstRR", "AdaRR", "TunedRR", "Bayes limit"]
    entry = browser.driver.find_element("xpath", "//section[@id='figures']//button[text()='TunedRR']")
    assert (entry.get_attribute("title") or "").startswith("AdaRR with")
    link = browser.driver.find_element("link text", "arXiv 2402.14180")
    assert link.get_attribute("href") == "https://arxiv.org/abs/2402.14180"


def test_arrow_keys_move_through_the_table_and_enter_opens_the_model(browser: Browser, page: Path) -> None:
    browser.open(page)
    enter_grid(browser)
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert focused(browser) == {"row": 1, "column": 3, "text": focused(browser)["text"], "model": "gdpp-1-uniform-5"}
    press(browser, Keys.ARROW_DOWN)
    assert focused(browser)["model"] == "diag-1-uniform-5"
    press(browser, Keys.HOME)
    assert focused(browser)["text"] == "DIAG 1"
    press(browser, Keys.END, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP)
    assert (focused(browser)["row"], focused(browser)["column"]) == (0, len(PRIORS))  # the corner holds
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_LEFT)
    assert "DIAG 1 on U(0, 5)" in texts(browser, "#table1-readout")[0]
    tab_stops = "return [...document.querySelectorAll('#table1-grid *')].filter((node) => node.tabIndex === 0).length"
    assert browser.run(tab_stops) == 1
    ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    press(browser, Keys.TAB)  # back to the cell that was left
    press(browser, Keys.ENTER)
    assert browser.run("return ridgeformer.explorer.result().settings.model") == "diag-1-uniform-5"
    browser.wait("return new URLSearchParams(location.hash.slice(1)).get('model') === 'diag-1-uniform-5'")
    assert browser.run("return document.getElementById('explorer').contains(document.activeElement)")
    assert browser.complaints() == []


def test_enter_on_a_header_sorts_and_the_first_header_restores_the_order(browser: Browser, page: Path) -> None:
    browser.open(page)
    before = column(browser, 3)
    enter_grid(browser)
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
    assert focused(browser)["column"] == 3  # the focus stays where it was
    found = [float(text) for text in column(browser, 3) if text != "∞"]
    assert found == sorted(found)
    assert browser.run("return document.activeElement.closest('th').ariaSort") == "ascending"
    press(browser, Keys.ENTER)
    found = [float(text.replace("∞", "inf")) for text in column(browser, 3)]
    assert found == sorted(found, reverse=True)
    assert found[0] == float("inf")
    browser.wait("return location.hash.includes('sort=uniform%3A5') && location.hash.includes('down=1')")
    press(browser, Keys.HOME, Keys.ENTER)
    assert column(browser, 3) == before


def test_switch_shows_another_number_in_each_cell_and_is_kept_in_the_address(browser: Browser, page: Path) -> None:
    cell = "[data-row='full/8/1/0'] .number"
    browser.open(page)
    for view, expected in (("ours", "0.0405"), ("paper", "–"), ("change", "–"), ("bayes", "1.04×")):
        browser.run("document.querySelector(`[name=table1-show][value=${arguments[0]}]`).click()", view)
        assert texts(browser, cell)[0] == expected
    browser.wait("return location.hash.includes('show=bayes')")
    browser.open(page, "show=bayes")
    assert texts(browser, cell)[0] == "1.04×"


def test_tabs_of_the_figures_work_by_keyboard_and_from_the_address(browser: Browser, page: Path) -> None:
    browser.open(page, "figure=5")
    assert browser.run("return document.querySelector('[role=tab][aria-selected=true]').id") == "tab-5"
    browser.run("document.getElementById('tab-5').focus()")
    press(browser, Keys.ARROW_RIGHT)
    assert browser.run("return document.activeElement.id") == "tab-6"
    assert browser.run("return document.getElementById('panel-6').hidden") is False
    press(browser, Keys.END, Keys.ARROW_RIGHT)
    assert browser.run("return document.activeElement.id") == "tab-1"


def test_points_of_a_chart_are_read_by_arrow_keys_by_pointing_and_as_a_table(browser: Browser, page: Path) -> None:
    browser.open(page, "figure=5")
    browser.run("document.querySelector('#panel-5 svg.canvas').focus()")
    press(browser, Keys.ARROW_RIGHT)
    tooltip = "return document.querySelector('.tooltip:not([hidden])')?.innerText ?? ''"
    models = [model for model in records()["readouts"]["models"] if (model["method"], model["layers"]) == ("full", 1)]
    mean, low, high = (f"{found[0]:.3f}" for found in geometric([model["adjusted"] for model in models]))
    assert browser.run(tooltip).splitlines() == [
        "1 layer",
        "read out after layer: 1",
        f"adjusted loss: {mean} ({low} to {high})",
        "mean and spread of 5 seeds",
    ]
    browser.wait("return document.getElementById('announcer').textContent.startsWith('1 layer')")
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert browser.run(tooltip).startswith("2 layers\nread out after layer: 2")
    press(browser, Keys.ESCAPE)
    assert browser.run(tooltip) == ""
    canvas = browser.driver.find_element("css selector", "#panel-5 svg.canvas")
    ActionChains(browser.driver).move_to_element(canvas).perform()
    assert "read out after layer" in browser.run(tooltip)
    browser.run("document.querySelector('#panel-5 details summary').click()")
    browser.wait("return document.querySelectorAll('#panel-5 details td').length > 0")
    depths = ["1 layer", *(f"{k} layers" for k in range(2, 8))]
    assert texts(browser, "#panel-5 details thead th") == ["read out after layer", *depths, "Bayes limit"]


def test_legend_hides_a_series_in_all_panels_and_shows_it_again(browser: Browser, page: Path) -> None:
    lines = "return document.querySelectorAll('#panel-1 .panel .line:not(.level)').length"
    browser.open(page)
    before = browser.run(lines)
    entry = browser.driver.find_element("css selector", "#panel-1 .legend-entry")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    uniform = sum(noise.startswith("uniform") for noise in PRIORS)
    assert browser.run(lines) == before - uniform
    entry.click()
    assert browser.run(lines) == before


def test_section_in_the_address_is_gone_to_and_links_keep_the_rest(browser: Browser, page: Path) -> None:
    browser.open(page, "section=claims&show=paper")
    assert browser.run("return document.activeElement.id") == "claims-heading"
    browser.driver.find_element("link text", "Figures").click()
    browser.wait("return location.hash.includes('section=figures')")
    assert browser.run("return document.activeElement.id") == "figures-heading"
    assert browser.run("return location.hash.includes('show=paper')")


def test_all_text_has_enough_contrast_in_light_and_dark(browser: Browser, page: Path) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    browser.open(page)
    light = browser.run(background)
    for dark in (False, True):
        browser.emulate(dark=dark)
        assert (browser.run(background) != light) is dark
        for key in show_all(browser):
            worst = browser.run(CONTRASTS)
            assert worst[0][0] >= LEAST_CONTRAST, (dark, key, worst)


def test_page_never_scrolls_sideways_and_charts_are_as_wide_as_their_place(browser: Browser, page: Path) -> None:
    browser.open(page)
    for width in (1280, 800, PHONE, 320):
        browser.emulate(width)
        for key in show_all(browser):
            browser.settle()
            assert browser.run("return document.documentElement.scrollWidth") <= width, (width, key)
        browser.run("document.getElementById('tab-5').click()")
        chart = "document.querySelector('#panel-5 svg.canvas')"
        browser.wait(f"return {chart}.viewBox.baseVal.width === Math.round({chart}.getBoundingClientRect().width)")
        assert browser.run(f"return {chart}.viewBox.baseVal.width") < width


def test_missing_records_are_named_with_the_command_that_makes_them(browser: Browser, tmp_path: Path) -> None:
    folder = write_records(tmp_path / "mine", {"table1": records()["table1"]})
    browser.open(write_page(folder, tmp_path, models=("diag-4-uniform-5",)), "figure=2")
    said = browser.run("return document.getElementById('panel-2').innerText")
    assert "This needs the file profiles.json, which is missing. Make it with ridgeformer reproduce --out mine." in said
    assert "claims.json" in browser.run("return document.getElementById('claims').innerText")
    assert browser.complaints() == []


def test_records_with_nothing_in_them_make_a_page_that_says_so(browser: Browser, tmp_path: Path) -> None:
    lists = ("entries", "claims", "panels", "models", "curves", "predictors", "scenarios")
    contents = {
        name: {key: [] if key in lists else value for key, value in record.items()}
        for name, record in records().items()
    }
    browser.open(write_page(write_records(tmp_path, contents), tmp_path, models=()))
    for key in show_all(browser):
        assert "There is nothing to draw" in texts(browser, f"#panel-{key}")[0]
    assert "There are no models" in texts(browser, "#explorer")[0]
    assert browser.complaints() == []


def test_hostile_text_in_records_and_models_is_shown_and_never_runs(browser: Browser, tmp_path: Path) -> None:
    model = rf.load("diag-4-uniform-5")
    info = {"task": {"noise": HOSTILE, "context": HOSTILE}, "training": {"seed": HOSTILE}, "note": HOSTILE}
    file = tmp_path / "<img src=x onerror='window.hacked=1'>.safetensors"
    rf.LinearTransformer(model.kind, model.dim, model.parameters, info).save(file)
    data = page_data(read_results(write_records(tmp_path, records())), encode_models([str(file)]))
    models = data.pop("models")
    wild = poisoned(data, HOSTILE) | {"models": models}
    for figure, tame in zip(wild["figures"], data["figures"], strict=True):
        figure["name"] = tame["name"]
    page = tmp_path / "index.html"
    page.write_text(page_html(wild), encoding="utf-8")
    browser.open(page, f"model={HOSTILE}&figure={HOSTILE}&sort={HOSTILE}")
    assert list(show_all(browser)) == list(FIGURES)
    assert browser.run("return window.hacked ?? null") is None
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.scripts.length") == 2
    for place in ("claims", "table1", "panel-shift", "panel-1", "panel-5"):
        assert HOSTILE in texts(browser, f"#{place}")[0], place
    assert browser.complaints() == []
    assert all(address.startswith(("file:", "data:")) for address in browser.requests())
