"""Every example in a docstring runs and says what it shows; everything public has one."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf

# Needs a package of the bench extra, or starts the program.
NOT_IMPORTED: tuple[str, ...] = ("ridgeformer.bench.competitors", "ridgeformer.__main__")
if find_spec("torch") is None:
    NOT_IMPORTED += ("ridgeformer.torch", "ridgeformer.cli.train_torch")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(rf.__path__, "ridgeformer.")
    if not module.name.startswith(NOT_IMPORTED)
]
# Data, a module, and errors, which nobody makes.
WITHOUT_EXAMPLE = {"__version__", "baselines", "InputError", "RidgeformerError"}


def examples(module: ModuleType) -> list[doctest.DocTest]:
    names = {"rf": rf, "np": np}
    return [test for test in doctest.DocTestFinder().find(module, extraglobs=names) if test.examples]


@pytest.mark.parametrize("name", ["ridgeformer", *MODULES])
def test_examples_of_a_module_say_what_they_show(name: str) -> None:
    runner, report = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE), list[str]()
    for test in examples(importlib.import_module(name)):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("name", sorted({*rf.__all__} - WITHOUT_EXAMPLE))
def test_public_name_has_a_docstring_with_an_example(name: str) -> None:
    """Of its own, not one inherited from what it is made of."""
    thing: Any = getattr(rf, name)
    if not isinstance(thing, type) and not callable(thing):  # a union of protocols: each has its own
        return
    assert ">>>" in (thing.__doc__ or ""), f"{name} has no example"


def test_example_that_says_something_else_fails() -> None:
    """The control."""
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner().run(wrong, out=lambda text: None).failed == 1
