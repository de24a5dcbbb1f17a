"""The built site: links, reference, accessibility. 'make docs' builds it and runs these tests."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ridgeformer as rf
from accessibility import severe_issues
from browsing import Browser, start_browser
from ridgeformer.cli.main import COMMANDS

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
MAIN_PAGES = (
    "index",
    "start",
    "concepts",
    "tutorials/first-model",
    "howto",
    "reproduction",
    "reference/package",
    "explorer",
)
pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="there is no site; 'make docs' builds it"),
]


class Links(HTMLParser):
    """What a page points to, and the places in it that can be pointed to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets, self.places = set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.targets.add(value)
            elif name == "id" and value:
                self.places.add(value)


def pages() -> dict[Path, Links]:
    return {path: Links(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html") if "page" not in path.parts}


def broken(links: dict[Path, Links]) -> list[str]:
    """Links within the site whose file or place is not there."""
    found = []
    for path, own in links.items():
        for target in own.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.exists():
                found.append(f"{path.relative_to(SITE)}: {target}")
            elif parts.fragment and file in links and unquote(parts.fragment) not in links[file].places:
                found.append(f"{path.relative_to(SITE)}: {target} (no such place)")
    return sorted(found)


def test_every_link_within_the_site_leads_somewhere() -> None:
    assert broken(pages()) == []


def test_link_that_leads_nowhere_is_found() -> None:
    """The control."""
    wrong = SITE / "index.html"
    assert broken({wrong: Links('<a href="nowhere.html"></a><a href="#x"></a><a id="y" href="#y"></a>')}) == [
        "index.html: #x (no such place)",
        "index.html: nowhere.html",
    ]


def test_links_to_elsewhere_are_secure() -> None:
    outside = {target for one in pages().values() for target in one.targets if urlsplit(target).netloc}
    assert len(outside) > 3
    assert [target for target in outside if target.startswith("http:")] == []


def documented() -> set[str]:
    """Full names in the reference, from the places that they have in its pages."""
    return {place for file in ("package", "rooms") for place in Links(page_text(f"reference/{file}")).places}


def page_text(name: str) -> str:
    return (SITE / f"{name}.html").read_text(encoding="utf-8")


def test_reference_has_every_public_name_with_its_source() -> None:
    places, modules = documented(), {"__version__", "baselines"}
    assert [name for name in rf.__all__ if name not in modules and f"ridgeformer.{name}" not in places] == []
    for room in ("baselines", "evaluation", "training", "analysis", "theory", "plots", "page", "bench", "sweeps"):
        names = importlib.import_module(f"ridgeformer.{room}").__all__
        for name in names:
            assert name in rf.__all__ or f"ridgeformer.{room}.{name}" in places, f"{room}.{name}"
    assert len(re.findall(r'class="viewcode-link"|\[source\]', page_text("reference/package"))) > 30


def test_reference_of_commands_has_every_command_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    text = page_text("reference/commands")
    for name in COMMANDS:
        assert f'id="ridgeformer-{name}"' in text
    for flag in ("--registers", "--export", "--layerwise", "--as-code", "--resume"):
        assert f"{flag}</span>" in text, flag


def test_version_is_the_packages() -> None:
    assert f"ridgeformer {rf.__version__}" in page_text("index")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = start_browser(tmp_path_factory.mktemp("chromium"))
    try:
        yield started
    finally:
        started.driver.quit()


def show(browser: Browser, name: str, width: int = 1280, dark: bool = False) -> None:
    browser.driver.get("about:blank")
    browser.emulate(width, 900, dark)
    browser.driver.get_log("performance")
    browser.driver.get((SITE / f"{name}.html").as_uri())
    browser.wait("return document.readyState === 'complete'")


@pytest.mark.parametrize("name", MAIN_PAGES)
def test_main_page_has_no_serious_issue_light_and_dark_wide_and_narrow(browser: Browser, name: str) -> None:
    browser.driver.set_script_timeout(120)
    for width in (390, 1280):
        for dark in (False, True):
            show(browser, name, width, dark)
            assert severe_issues(browser) == [], f"{name}, {width} px, {'dark' if dark else 'light'}"


@pytest.mark.parametrize("name", MAIN_PAGES)
def test_main_page_fits_a_phone_and_loads_nothing_from_elsewhere(browser: Browser, name: str) -> None:
    show(browser, name, 390)
    assert browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
