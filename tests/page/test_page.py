"""The page as a file: what is in it, what is refused, and that nothing in it can run or load but its own script."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from made_up import poisoned, records, write_records
from ridgeformer.core.storage import plain
from ridgeformer.core.validation import InputError
from ridgeformer.page import write_page
from ridgeformer.page.build import SCRIPTS, STYLES, page_html
from ridgeformer.page.models import page_model_names
from ridgeformer.plots import FIGURES
from ridgeformer.reproduction.records import DIGITS, METHODS
from ridgeformer.reproduction.results import RECORDS
from support import refused

LARGEST_PAGE = 3_000_000  # bytes; what the page may weigh
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><!--\u2028]]>"


class Elements(HTMLParser):
    """The elements of a page, with their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1][2].append(data)

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, "".join(text)) for name, attributes, text in self.found if name == tag]


def data_of(text: str) -> dict[str, Any]:
    """The data block, read as a browser would."""
    (block,) = [content for attributes, content in Elements(text).named("script") if attributes.get("id") == "data"]
    values: dict[str, Any] = json.loads(block)
    return values


def test_page_holds_all_records_and_the_first_seed_of_every_model_in_less_than_three_megabytes(page: Path) -> None:
    data = data_of(page.read_text(encoding="utf-8"))
    assert data["missing"] == []
    assert [figure["name"] for figure in data["figures"]] == list(FIGURES)
    assert all(figure["figure"]["views"] for figure in data["figures"])
    assert [model["name"] for model in data["models"]] == list(page_model_names())
    assert page.stat().st_size < LARGEST_PAGE
    assert data["table1"]["entries"] == plain(records()["table1"]["entries"], DIGITS)


def test_page_with_hostile_text_everywhere_has_the_same_elements() -> None:
    tame = page_html({"records": records()})
    wild = page_html({"records": poisoned(records(), HOSTILE)})
    assert [tag for tag, *_ in Elements(wild).found] == [tag for tag, *_ in Elements(tame).found]
    assert data_of(wild)["records"] == poisoned(records(), HOSTILE)
    assert "\u2028" not in wild
    assert HOSTILE in json.dumps(data_of(wild), ensure_ascii=False)  # the text itself is kept, not dropped


def test_page_has_names_looks_and_definitions_of_methods_from_the_registries(page: Path) -> None:
    methods = data_of(page.read_text(encoding="utf-8"))["methods"]
    assert list(methods) == list(METHODS)
    for name, method in METHODS.items():
        assert methods[name]["label"] == method.label
        assert methods[name]["look"]["colour"] == method.look.colour
    for name in ("constrr", "adarr", "tunedrr"):
        assert methods[name]["summary"] == METHODS[name].summary  # type: ignore[union-attr]


def test_page_is_written_without_matplotlib(results_folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from pathlib import Path; from ridgeformer.page import write_page\n"
        "write_page(Path(sys.argv[1]), Path(sys.argv[2]), models=())"
    )
    subprocess.run([sys.executable, "-c", code, results_folder, tmp_path], check=True)
    assert (tmp_path / "index.html").exists()


def test_policy_allows_this_script_and_this_style_and_nothing_else(page: Path) -> None:
    elements = Elements(page.read_text(encoding="utf-8"))
    metas = {attributes.get("http-equiv"): attributes.get("content") for attributes, _ in elements.named("meta")}
    rules = dict(rule.split(" ", 1) for rule in (metas["Content-Security-Policy"] or "").split("; "))
    (script,) = [text for attributes, text in elements.named("script") if not attributes]
    ((_, style),) = elements.named("style")

    def digest(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    assert rules.pop("default-src") == "'none'"
    assert rules.pop("script-src") == digest(script)
    assert rules.pop("style-src") == digest(style)
    assert rules == {
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_page_names_no_address_but_its_own(page: Path) -> None:
    elements = Elements(page.read_text(encoding="utf-8"))
    for _, attributes, _ in elements.found:
        for name in ("href", "src", "action", "data", "poster"):
            address = attributes.get(name)
            assert address is None or address.startswith(("#", "data:"))
    (script,) = [text for attributes, text in elements.named("script") if not attributes]
    code = re.sub(r"/\*.*?\*/", "", script, flags=re.DOTALL)  # types in comments are named by import("./file")
    # A name, which nothing loads, and a link, which a reader may follow.
    assert set(re.findall(r"https?://[^\s\"'`)]+", code)) == {
        "http://www.w3.org/2000/svg",
        "https://arxiv.org/abs/2402.14180",
    }
    for way_out in ("fetch(", "XMLHttpRequest", "WebSocket", "EventSource", "sendBeacon", "import(", "new Worker"):
        assert way_out not in code
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert sink not in code
    ((_, style),) = elements.named("style")
    assert "url(" not in style
    assert "@import" not in style


def test_every_script_and_style_of_the_assets_is_in_the_page_once() -> None:
    there = {file.name for file in resources.files("ridgeformer.page").joinpath("assets").iterdir()}
    assert there == {"page.html", *SCRIPTS, *STYLES}
    assert len(set(SCRIPTS)) == len(SCRIPTS)


def test_page_is_the_same_file_again_for_the_same_records(results_folder: Path, tmp_path: Path) -> None:
    pages = [write_page(results_folder, tmp_path / name, models=("full-7-uniform-5",)) for name in ("one", "two")]
    first, second = (hashlib.sha256(page.read_bytes()).hexdigest() for page in pages)
    assert first == second


def test_missing_record_leaves_the_command_that_makes_it_and_a_missing_table_is_refused(tmp_path: Path) -> None:
    folder = write_records(tmp_path / "mine", {"table1": records()["table1"]})
    data = data_of(write_page(folder, tmp_path, models=()).read_text(encoding="utf-8"))
    assert data["missing"] == [record for record in RECORDS if record != "table1"]
    drawn = [figure["name"] for figure in data["figures"] if figure["figure"]]
    assert drawn == ["1", "bayes", "depth"]
    assert not any(figure["missing"] for figure in data["figures"] if figure["figure"])
    assert data["picture"] is None
    assert data["commands"]["profiles"] == "ridgeformer reproduce --out mine"
    assert data["commands"]["training"] == "ridgeformer reproduce --train --out mine"
    (folder / "table1.json").unlink()
    with pytest.raises(InputError, match=re.escape(f"ridgeformer reproduce --out {folder}")):
        write_page(folder, tmp_path / "new", models=())
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ('{"record": "weights"}', "this is not a record of profiles"),
        ('{"record": "profiles", "sequences": 1, "seed": 1, "panels": {}}', "got `object` - at `$.panels`"),
    ],
)
def test_corrupt_record_is_refused_in_one_sentence_and_nothing_is_written(text: str, said: str, tmp_path: Path) -> None:
    folder = write_records(tmp_path, {"table1": records()["table1"]})
    (folder / "profiles.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(said)) as refusal:
        write_page(folder, tmp_path / "out", models=())
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400
    assert not (tmp_path / "out").exists()


def test_infinite_losses_are_null_in_the_page_and_unknown_fields_are_left_out(tmp_path: Path) -> None:
    contents = records()
    contents["table1"]["entries"][0] |= {"adjusted_loss": None, "p99": None, "secret": "x"}
    folder = write_records(tmp_path, contents)
    data = data_of(write_page(folder, tmp_path, models=()).read_text(encoding="utf-8"))
    entry = data["table1"]["entries"][0]
    assert entry["adjusted_loss"] is None
    assert entry["p99"] is None
    assert "secret" not in entry


def test_page_that_cannot_be_written_is_said_in_one_sentence(results_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused("Cannot write", write_page, results_folder, tmp_path / "file" / "folder", models=())


def test_template_has_every_place_that_is_filled_and_no_other() -> None:
    pieces = resources.files("ridgeformer.page").joinpath("assets", "page.html").read_text(encoding="utf-8").split("%%")
    assert pieces[1::2] == ["policy", "style", "data", "script"]
    assert html.escape("'none'") in page_html({})
