"""Take the picture of the page that the README shows: ``python tools/screenshot.py PAGE PICTURE``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from browsing import start_browser

WIDTH, HEIGHT = 1280, 1000
STATE = "model=full-7-uniform-5&sigma=2&average=yes&against=oracle"


def main(page: Path, picture: Path) -> None:
    """The explorer, as one sees it on a desk."""
    with tempfile.TemporaryDirectory() as profile:
        browser = start_browser(Path(profile))
        try:
            browser.open(page.resolve(), STATE)
            browser.emulate(WIDTH, HEIGHT)
            browser.run("document.getElementById('explorer').scrollIntoView()")
            browser.driver.save_screenshot(str(picture))
        finally:
            browser.driver.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
