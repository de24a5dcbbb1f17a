"""What the site needs besides Sphinx: the reference of the commands, and the page, put beside the site."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from argparse import SUPPRESS, Action
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import tyro
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import ridgeformer as rf
from ridgeformer.cli import terminal
from ridgeformer.cli.main import COMMANDS, find_command
from ridgeformer.core.registry import Registry
from ridgeformer.plots.figures import FIGURES


def _parse(directive: SphinxDirective, lines: list[str], into: nodes.Element) -> None:
    """Parse reStructuredText within a page of Markdown."""
    fenced = StringList(["````{eval-rst}", *lines, "````"], f"made by {{{directive.name}}}")
    directive.state.nested_parse(fenced, 0, into)


class Commands(SphinxDirective):
    """``{commands}``: every command with its flags, from the parsers of the commands themselves."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """A section for each command."""
        found: list[nodes.Node] = []
        for name in COMMANDS:
            section = nodes.section(ids=[f"ridgeformer-{name}"])
            section += nodes.title(text=name)
            _parse(self, _command_lines(name), section)
            found.append(section)
        return found


def _command_lines(name: str) -> list[str]:
    """The help of one command as reStructuredText: what it does, its arguments, its flags."""
    with terminal.PRIORS, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of get_parser; the version in constraints.txt has it
        parser = tyro.extras.get_parser(find_command(name), prog=f"ridgeformer {name}")
    lines = [*(parser.description or "").replace("*", "\\*").split("\n"), "", f".. program:: ridgeformer {name}", ""]
    for action in parser._actions:
        if action.help is not None and action.help != SUPPRESS and "--help" not in action.option_strings:
            lines += [f".. option:: {_option(action)}", "", f"   {_help(action)}", ""]
    return lines


def _option(action: Action) -> str:
    value = f" {action.metavar}".replace("{None}|", "") if action.metavar else ""
    flags = [flag for flag in action.option_strings if not flag.startswith("--no-")] or action.option_strings
    return ", ".join(f"{flag}{value}" for flag in flags) if flags else f"{action.metavar}"


def _help(action: Action) -> str:
    """Its help in one line; that nothing or no is the default needs no words."""
    text = re.sub(
        r"\s*\(default: (None|False|)\)|\s*\(required\)|\s*\(optional\)", "", " ".join(str(action.help).split())
    )
    return re.sub(r"\(default: (.*)\)$", r"Default: ``\1``.", text).replace("*", "\\*").replace("|", "\\|").strip()


_ROOMS = {
    "zoo": "Models that come with the package",
    "core": "Tasks, models and what they compute",
    "baselines": "Baselines",
    "evaluation": "Measuring",
    "training": "Training",
    "sweeps": "Many trainings",
    "analysis": "Taking models apart",
    "theory": "The paper's theory",
    "estimators": "Estimators for scikit-learn",
    "torch": "PyTorch",
    "plots": "Figures",
    "page": "The page",
    "bench": "Speed",
}
"""What a room is about, in the order of the reference."""


class Package(SphinxDirective):
    """``{package}``: every name of the package, under the room that it comes from."""

    def run(self) -> list[nodes.Node]:
        """A section for each room that gives the package a name."""
        names: dict[str, list[str]] = {}
        for name in rf.__all__:
            thing = getattr(rf, name)
            module = getattr(thing, "__module__", "") or getattr(thing, "__name__", "")
            room = module.split(".")[1] if module.startswith("ridgeformer.") else "core"
            names.setdefault(room if room in _ROOMS else "core", []).append(name)
        return [
            self._section(room, [line for name in sorted(names[room], key=str.lower) for line in _entry(rf, name)])
            for room in _ROOMS
            if room in names
        ]

    def _section(self, room: str, lines: list[str]) -> nodes.section:
        section = nodes.section(ids=[f"{self.name}-{room}"])
        section += nodes.title(text=_ROOMS[room])
        _parse(self, lines, section)
        return section


def _entry(module: ModuleType, name: str) -> list[str]:
    """The directive that documents one name of a module."""
    thing, full = getattr(module, name), f"{module.__name__}.{name}"
    data = [f".. py:data:: {name}", f"   :module: {module.__name__}", ""]
    if isinstance(thing, ModuleType):
        return [f"``{name}``: the room of baselines, see :doc:`rooms`.", ""]
    if isinstance(thing, Registry):
        text = f"A registry: a mapping from names to entries. It has {', '.join(f'``{key}``' for key in thing)}."
        return [*data, f"   {text} :doc:`../extending` says how to add to it.", ""]
    if not callable(thing):
        return [*data, *(f"   {line}" for line in _comment(module, name)), ""]
    return [f".. auto{'class' if isinstance(thing, type) else 'function'}:: {full}", ""]


def _comment(module: ModuleType, name: str) -> list[str]:
    """The text below a value of a module, in whichever file of its room or of core that value is made."""
    for package in (module, importlib.import_module("ridgeformer.core")):
        for file in pkgutil.iter_modules(package.__path__):
            with contextlib.suppress(ImportError, rf.InputError, PycodeError):
                analyzer = ModuleAnalyzer.for_module(f"{package.__name__}.{file.name}")
                if lines := analyzer.find_attr_docs().get(("", name)):
                    return lines
    return []


class Rooms(Package):
    """``{rooms}``: the public names of every room; of one whose extra is not installed, that it is left out."""

    def run(self) -> list[nodes.Node]:
        """A section for each room with public names."""
        sections: list[nodes.Node] = []
        for room in _ROOMS:
            try:
                module = importlib.import_module(f"ridgeformer.{room}")
            except (ImportError, rf.InputError) as missing:
                lines = [f".. note:: Left out, because this site was built without what it needs: {missing}"]
            else:
                names = getattr(module, "__all__", ["zoo_names", "zoo_entries", "ZooEntry"] if room == "zoo" else [])
                lines = [f".. automodule:: ridgeformer.{room}", "   :no-members:", ""] if names else []
                lines += [line for name in names if not _in_package(module, name) for line in _entry(module, name)]
            if lines:
                sections.append(self._section(room, lines))
        return sections


class Figures(SphinxDirective):
    """``{figures}``: every figure of the registry that was drawn into docs/page, with its title and text."""

    def run(self) -> list[nodes.Node]:
        """A section for each figure."""
        found: list[nodes.Node] = []
        for name, entry in FIGURES.items():
            if (Path(self.env.srcdir) / "page" / f"figure-{name}.svg").is_file():
                section = nodes.section(ids=[f"figure-{name}"])
                section += nodes.title(text=f"Figure {name}: {entry.title}" if name.isdigit() else entry.title)
                section += nodes.paragraph(text=entry.text)
                section += nodes.image(uri=f"page/figure-{name}.svg", alt=f"The figure: {entry.title}.")
                found.append(section)
        return found


class Shell(SphinxDirective):
    """``{shell}``: commands, one a line, each with what it prints when the site is built."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """One block of commands and outputs."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "COLUMNS": "80"}
        lines: list[str] = []
        with tempfile.TemporaryDirectory() as folder:
            for command in self.content:
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                if done.returncode:
                    raise self.error(f"{command!r} failed: {done.stderr}")
                lines += [f"$ {command}", done.stdout.rstrip(), ""]
        text = "\n".join(lines).rstrip()
        return [nodes.literal_block(text, text, language="console", classes=["terminal"])]


def _google_sections(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Turn the underlined section "Parameters" of our docstrings into the form "Args:" that napoleon reads.

    Of a room only the first paragraph is kept: what follows is about its files.
    """
    if what == "module" and "" in lines:
        del lines[lines.index("") :]
    inside = False
    result: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if line == "Parameters" and following.startswith("---"):
            result.append("Args:")
            inside = True
        elif inside and line.startswith("---"):
            continue
        elif inside and not line.strip():
            inside = False
            result.append(line)
        else:
            result.append(f"    {line}" if inside else line)
    lines[:] = result


def _in_package(module: ModuleType, name: str) -> bool:
    """Whether a name of a room is one of the package too, and so on another page."""
    return name in rf.__all__ and getattr(rf, name) is getattr(module, name)


def _skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out methods that scikit-learn makes."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _copy_page(app: Sphinx, failed: Exception | None) -> None:
    """Put the page of results beside the site, where pages of the site link to it."""
    if failed is None and app.builder.format == "html":
        shutil.copytree(Path(app.srcdir) / "page", Path(app.outdir) / "page", dirs_exist_ok=True)


def _documented(app: Sphinx, link: re.Match[str]) -> str:
    """The name under which an object is documented.

    Sphinx's viewcode takes all objects of a file to be documented in the package of the first one that it met.
    """
    known, name = app.env.get_domain("py").objects, link[0]  # type: ignore[attr-defined]
    own = name.removeprefix("ridgeformer")
    return name if name in known else next((other for other in sorted(known) if other.endswith(own)), name)


def _repair(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Repair what axe-core finds, headings without a level and folded cells with another name, and links of sources."""
    context["body"] = context.get("body", "").replace(' aria-label="Toggle hidden content"', "")
    if page.startswith("_modules/"):
        context["body"] = re.sub(r'(?<=#)ridgeformer[\w.]+(?=">\[docs\])', partial(_documented, app), context["body"])
    navigation = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = navigation.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("commands", Commands)
    app.add_directive("figures", Figures)
    app.add_directive("package", Package)
    app.add_directive("rooms", Rooms)
    app.add_directive("shell", Shell)
    app.connect("autodoc-process-docstring", _google_sections, priority=100)
    app.connect("autodoc-skip-member", _skip)
    app.connect("html-page-context", _repair, priority=900)  # after the theme has made it
    app.connect("build-finished", _copy_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
