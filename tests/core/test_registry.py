"""Registries: entries by name, in order, each name once, and the nearest name where one is missing."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ridgeformer.baselines import BASELINES
from ridgeformer.core.distributions import PRIORS
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.registry import Look, Registry
from ridgeformer.evaluation import SHIFTS
from support import refused


class Fruit(NamedTuple):
    name: str


def test_registry_lists_what_was_added_in_order() -> None:
    registry: Registry[Fruit] = Registry("fruit")
    pear, fig = registry.add(Fruit("pear")), registry.add(Fruit("fig"))
    assert (list(registry), len(registry)) == (["pear", "fig"], 2)
    assert registry["pear"] is registry.find("pear") is pear
    assert list(registry.values()) == [pear, fig]
    assert "plum" not in registry
    with pytest.raises(KeyError):
        registry["plum"]


def test_registry_refuses_a_name_twice_and_one_it_does_not_have() -> None:
    registry: Registry[Fruit] = Registry("fruit")
    registry.add(Fruit("pear"))
    refused("already a fruit called 'pear'", registry.add, Fruit("pear"))
    refused("fruit must be one of pear.*Did you mean 'pear'", registry.find, "peer")
    for nothing in (None, 5, ["pear"]):
        refused("fruit must be one of", registry.find, nothing)
    assert len(registry) == 1


@pytest.mark.parametrize("registry", [KINDS, BASELINES, PRIORS, SHIFTS], ids=lambda registry: registry.what)
def test_registries_of_the_package_name_every_entry_as_it_names_itself(registry: Registry[Fruit]) -> None:
    assert registry
    for name, entry in registry.items():
        assert entry.name == name
        assert name == name.lower()


def test_looks_of_methods_are_colours_that_a_browser_and_matplotlib_read() -> None:
    looks = [entry.look for registry in (KINDS, BASELINES) for entry in registry.values()]
    for look in looks:
        assert isinstance(look, Look)
        assert len(look.colour) == 7
        int(look.colour[1:], 16)
        assert len(look.dashes) % 2 == 0
