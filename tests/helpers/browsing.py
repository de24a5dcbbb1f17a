"""A real browser for the page's tests."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

# Without a sandbox, because CI runs as root; everything that calls home is off, and the tests see that it is.
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)
_PATIENCE = 20  # seconds; a loaded machine takes two to start the page


class Browser:
    """Chromium, with what the tests ask of it again and again."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, path: Path, state: str = "") -> None:
        """Load a page from disk, with a state in its address, in a window as wide as a desk's and in light colours."""
        self.driver.get("about:blank")  # a change behind the # alone would load nothing
        self.emulate()
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(path.as_uri() + (f"#{state}" if state else ""))
        self.wait("return document.readyState === 'complete' && document.querySelector('#table1-grid') !== null")

    def emulate(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """A window of this size, in light or dark colours, without motion."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", metrics)
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.command("Emulation.setEmulatedMedia", {"features": features})

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any) -> Any:
        """What a script returns as soon as that is true."""
        return WebDriverWait(self.driver, _PATIENCE, 0.05).until(lambda _: self.run(script, *arguments))

    def settle(self) -> None:
        """Wait until what was changed is drawn: an observer of sizes acts in the next frame."""
        self.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def screenshot(self, path: Path) -> Path:
        """A picture of the window."""
        assert self.driver.save_screenshot(str(path))
        return path

    def complaints(self) -> list[str]:
        """What the console has said since the page was opened; empties it."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses asked for since the page was opened; empties the list."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


def start_browser(profile: Path) -> Browser:
    """Chromium with an empty profile; where there is none, the tests are skipped, but never in CI."""
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        reason = "Chromium and its driver are not installed (apt-get install chromium chromium-driver)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    options = ChromeOptions()
    options.binary_location = programs[0] or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Browser(Chrome(options=options, service=Service(programs[1])))
