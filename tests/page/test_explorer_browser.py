"""The explorer in a real browser: what it shows is what Python computes from the sequence on show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

import ridgeformer as rf
from browsing import Browser
from made_up import page_baselines
from ridgeformer.analysis.ablation import mark, switched_off
from ridgeformer.core.notation import Array
from ridgeformer.theory.step_size import effective_step_size

TOLERANCE = 1e-6  # what the page promises; see test_javascript.py


class Explorer:
    """The explorer, as a user and as a program sees it."""

    def __init__(self, browser: Browser, page: Path) -> None:
        self.browser, self.page = browser, page

    def open(self, state: str = "") -> None:
        self.browser.open(self.page, state)

    def element(self, name: str) -> WebElement:
        return self.browser.driver.find_element(By.ID, f"explorer-{name}")

    def element_by(self, selector: str) -> WebElement:
        return self.browser.driver.find_element(By.CSS_SELECTOR, selector)

    def choose(self, name: str, value: str) -> None:
        """Press the option of a group of radio buttons."""
        self.browser.settle()  # another model makes its fields anew
        option = self.element_by(f"input[name='explorer-{name}'][value='{value}'] + span")
        self.browser.run("arguments[0].scrollIntoView({block: 'center'})", option)
        ActionChains(self.browser.driver).move_to_element(option).click().perform()  # the button itself is unseen

    def press(self, name: str) -> None:
        """Press a button."""
        button = self.element(name)
        self.browser.run("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()

    @property
    def context(self) -> Any:
        return self.browser.run("return ridgeformer.explorer.context()")

    @property
    def result(self) -> Any:
        return self.browser.run("return ridgeformer.explorer.result()")

    @property
    def address(self) -> str:
        """What is behind the #, once all that is about to be written is there."""
        self.browser.run("ridgeformer.state.flush()")
        return str(self.browser.run("return location.hash.slice(1)"))

    def table(self) -> dict[str, float]:
        """All numbers of the table by their ids: in full, and checked to be what is written, to rounding."""
        self.browser.settle()
        script = (
            "return [...document.querySelectorAll('.explorer-table data')].map((e) => [e.id, e.value, e.innerText])"
        )
        found = {}
        for name, value, text in self.browser.run(script):
            if value:  # rows of baselines without an answer are empty
                found[name.removeprefix("explorer-")] = float(value)
                # Tiny and huge numbers are written with three digits.
                assert float(text.replace("−", "-")) == pytest.approx(float(value), rel=5e-3)
        return found


@pytest.fixture
def explorer(browser: Browser, page: Path) -> Iterator[Explorer]:
    yield Explorer(browser, page)
    assert browser.complaints() == []


def tokens(context: Any) -> tuple[Array, Array]:
    """X (1, n, d) and y (1, n)."""
    return np.array(context["X"])[None], np.array(context["y"])[None]


def check_against_python(explorer: Explorer, model: rf.LinearTransformer, prior: str) -> None:
    """Everything on show, computed again from the examples on show."""
    context, result, table = explorer.context, explorer.result, explorer.table()
    X, y = tokens(context)
    sigma, w, query = context["sigma"], np.array(context["weights"]), np.array(context["query"])
    gram = rf.Context.from_tokens(X, y)
    oracle = gram.ridge(sigma**2)[0]

    def check(row: str, weights: Array, reading: Any) -> None:
        assert np.array(reading["weights"]) == pytest.approx(weights, rel=TOLERANCE, abs=TOLERANCE * abs(weights).max())
        expected = {
            "prediction": weights @ query,
            "residual": np.mean((y[0] - X[0] @ weights) ** 2),
            "loss": 0.5 * np.sum((weights - w) ** 2),
            "adjusted": 0.5 * np.sum((weights - oracle) ** 2),
        }
        for column, value in expected.items():
            # The floor: what is left of ½‖ŵ − w*‖² where both are the same but for rounding.
            assert table[f"{row}-{column}"] == pytest.approx(value, rel=TOLERANCE, abs=1e-20), (row, column)
            assert table[f"{row}-{column}"] == reading[column]

    steps = effective_step_size(model, gram)
    for layer in range(1, model.layers + 1):
        check(f"layer-{layer}", rf.implicit_weights(model, X, y, layers=layer)[0], result["layers"][layer - 1])
        expected_step = steps[layer - 1].step[0] * X.shape[1]
        assert table[f"layer-{layer}-steps"] == pytest.approx(expected_step, rel=TOLERANCE)
    for name, predictor in page_baselines(sigma, prior).items():
        check(name, predictor.weights(gram)[0], result["baselines"][name])
    assert table["target"] == pytest.approx(float(w @ query), rel=TOLERANCE)


def test_explorer_shows_what_python_computes_while_the_noise_slider_moves_by_keys(explorer: Explorer) -> None:
    explorer.open("model=diag-4-uniform-5&sigma=2&seed=7")
    model = rf.load("diag-4-uniform-5")
    check_against_python(explorer, model, "uniform:5")
    before, features = explorer.table()["layer-4-prediction"], explorer.context["X"]
    explorer.element("sigma").send_keys(Keys.ARROW_RIGHT * 5)
    explorer.browser.settle()
    assert explorer.context["sigma"] == pytest.approx(2.25)
    assert explorer.element("sigma-value").text == "2.25"
    assert explorer.table()["layer-4-prediction"] != before
    assert explorer.context["X"] == features
    check_against_python(explorer, model, "uniform:5")


def test_explorer_shows_what_python_computes_after_dragging_the_noise_slider(explorer: Explorer) -> None:
    explorer.open("model=full-5-uniform-5&sigma=1&seed=7")
    slider = explorer.element("sigma")
    width = slider.size["width"]
    thumb = round((1 / 7 - 0.5) * width)  # from the middle; the slider ends at σ = 7
    drag = ActionChains(explorer.browser.driver).move_to_element_with_offset(slider, thumb, 0).click_and_hold()
    for _ in range(8):
        drag = drag.move_by_offset(width // 16, 0)
    drag.release().perform()
    explorer.browser.settle()
    assert 3.5 < explorer.context["sigma"] < 5.5
    check_against_python(explorer, rf.load("full-5-uniform-5"), "uniform:5")


@pytest.mark.filterwarnings("ignore::ridgeformer.UntrainedDataWarning")  # of numbers of examples
def test_editing_the_address_shows_what_python_computes_for_other_models_and_numbers_of_examples(
    explorer: Explorer,
) -> None:
    explorer.open("model=diag-4-uniform-5&sigma=2&seed=7")
    for name, prior, sigma, examples in (
        ("gdpp-2-uniform-3", "uniform:3", 1, 20),
        ("gdpp-3-categorical-1+3", "categorical:1+3", 3, 1),
        ("gdpp-3-categorical-1+3", "categorical:1+3", 3, 9),
        ("gdpp-3-categorical-1+3", "categorical:1+3", 3, 60),
    ):
        state = f"model={name.replace('+', '%2B')}&sigma={sigma}&seed=2&examples={examples}"
        explorer.browser.run("location.hash = arguments[0]", state)
        explorer.browser.wait(
            "const { model, examples } = ridgeformer.explorer.result().settings;"
            "return model === arguments[0] && examples === arguments[1]",
            name,
            examples,
        )
        assert len(explorer.context["y"]) == examples
        check_against_python(explorer, rf.load(name), prior)


@pytest.mark.parametrize("name", ["diag-4-uniform-5", "full-3-uniform-5"])
def test_switching_an_omega_off_gives_the_model_without_it_and_on_again_the_model(
    explorer: Explorer, name: str
) -> None:
    explorer.open(f"model={name}&sigma=3&seed=4")
    model, before = rf.load(name), explorer.table()["layer-1-loss"]
    explorer.press("omega-2yy")
    without = switched_off(model, mark(model.layers, ["yy"], 2))
    check_against_python(explorer, without, "uniform:5")
    assert explorer.element("omega-2yy").get_attribute("aria-pressed") == "false"
    explorer.press("omega-xx")
    without = switched_off(model, mark(model.layers, ["yy"], 2) | mark(model.layers, ["xx"], None))
    check_against_python(explorer, without, "uniform:5")
    assert "off=xx%2C2yy" in explorer.address
    explorer.press("all-on")
    check_against_python(explorer, model, "uniform:5")
    assert explorer.table()["layer-1-loss"] == before


def test_address_restores_everything(explorer: Explorer) -> None:
    explorer.open()
    explorer.choose("kind", "full")
    explorer.choose("layers", "5")
    explorer.element("examples").send_keys(Keys.ARROW_RIGHT * 4)
    explorer.element("outlier").send_keys(Keys.ARROW_RIGHT * 6)
    explorer.press("new")
    explorer.press("omega-3xy")
    explorer.press("panel-2")
    explorer.choose("against", "oracle")
    explorer.choose("points", "examples")
    result, context, address = explorer.result, explorer.context, explorer.address
    assert result["settings"]["layer"] == 2
    explorer.open(address)
    assert explorer.result == result
    assert explorer.context == context
    assert explorer.element_by("#explorer-row-layer-2.chosen")


def test_outlier_changes_one_target_more_examples_keep_the_first_and_a_new_sequence_changes_all(
    explorer: Explorer,
) -> None:
    explorer.open("seed=5&examples=20")
    before, losses = explorer.context, explorer.table()
    explorer.element("outlier").send_keys(Keys.ARROW_RIGHT * 20)
    after = explorer.context
    assert after["y"] == [before["y"][0] + 10, *before["y"][1:]]
    assert after["X"] == before["X"]
    assert explorer.table()["ols-loss"] != losses["ols-loss"]
    explorer.element("examples").send_keys(Keys.ARROW_RIGHT)
    assert explorer.context["X"][:20] == before["X"]
    assert explorer.context["y"][:20] == after["y"]
    explorer.press("new")
    another = explorer.context
    assert not {*after["y"]} & {*another["y"]}
    assert another["weights"] != before["weights"]
    assert explorer.table()["layer-1-loss"] != losses["layer-1-loss"]


def test_query_can_be_chosen_by_number_and_in_the_scatter_plot(explorer: Explorer) -> None:
    explorer.open("model=diag-4-uniform-5&seed=5")
    number = explorer.element("query")
    number.clear()
    number.send_keys("12")
    context = explorer.context
    assert context["query"] == context["queries"][11]
    check_against_python(explorer, rf.load("diag-4-uniform-5"), "uniform:5")
    drawn = explorer.element_by("path.explorer-dot:not(.special)")
    assert (drawn.get_attribute("d") or "").count("M") == 199
    # The middle of the plot, where the targets of so many queries always are.
    ActionChains(explorer.browser.driver).scroll_to_element(drawn).move_to_element(drawn).click().perform()
    assert explorer.context["query"] != context["query"]


def test_model_can_be_chosen_by_keyboard_alone_and_keeps_the_focus(explorer: Explorer) -> None:
    explorer.open("model=diag-4-uniform-5&seed=5")
    chosen = explorer.element_by("input[name='explorer-layers']:checked")
    chosen.send_keys(Keys.ARROW_RIGHT)
    explorer.browser.settle()
    explorer.browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    explorer.browser.settle()
    assert explorer.result["settings"]["model"] == "diag-6-uniform-5"
    check_against_python(explorer, rf.load("diag-6-uniform-5"), "uniform:5")


def test_open_shows_a_model_at_a_noise_level_that_it_knows(explorer: Explorer) -> None:
    explorer.open("model=diag-4-uniform-5&sigma=6")
    assert explorer.browser.run("return ridgeformer.explorer.open('gdpp-4-uniform-2')")
    assert explorer.result["settings"]["model"] == "gdpp-4-uniform-2"
    assert explorer.context["sigma"] == 2
    assert not explorer.browser.run("return ridgeformer.explorer.open('no such model')")


def test_exploding_model_stays_on_the_chart_and_says_so(explorer: Explorer) -> None:
    explorer.open("model=diag-4-uniform-5&sigma=7&examples=60&outlier=40&seed=3")
    errors = explorer.result["errors"]["layers"]
    assert max(errors) > 1e9
    section = explorer.element_by(".explorer-errors")
    assert "axis" in section.find_element(By.CSS_SELECTOR, ".chart-note:not([hidden])").text
    ticks = explorer.browser.run(
        "return [...document.querySelectorAll('.explorer-errors .tick')].map((tick) => tick.textContent)"
    )
    assert len(ticks) < 20
    assert not {"10³", "10⁹"} & set(ticks)


def test_screen_readers_are_told_the_result_once_it_has_settled(explorer: Explorer) -> None:
    explorer.open("model=diag-4-uniform-5&seed=5&average=no")
    explorer.element("sigma").send_keys(Keys.ARROW_RIGHT * 3)
    text = explorer.browser.wait("return document.getElementById('announcer')?.textContent")
    assert text == explorer.element("summary").text
    assert text.startswith("Error of DIAG after 4 layers: ")
