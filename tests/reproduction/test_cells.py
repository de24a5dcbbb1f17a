"""The cells of the grid: how many, what they are called, and what they start from."""

from __future__ import annotations

import re
from itertools import product

import pytest

from ridgeformer.core.distributions import parse_noise
from ridgeformer.core.kinds import KINDS
from ridgeformer.reproduction.cells import (
    BEYOND_PRIORS,
    BEYOND_SIZES,
    LAYERS,
    PRIORS,
    Cell,
    beyond_cells,
    grid_cells,
    register_cells,
    zoo_name,
)
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.training.recipes import stages_of
from support import refused

ORDER = list(KINDS)
TABLE1 = {Cell(kind, layers, noise) for kind, layers, noise in product(KINDS, LAYERS, PRIORS)}


def test_grid_is_table_1_and_eight_layers_and_five_seeds_of_uniform_5() -> None:
    cells = grid_cells()
    seeded = {Cell(kind, layers, "uniform:5", seed) for kind, layers, seed in product(KINDS, range(1, 9), range(5))}
    assert len(TABLE1) == 210
    assert set(cells) == TABLE1 | seeded
    assert len(cells) == len({cell.name for cell in cells}) == 309


def test_table_1_part_of_the_grid_is_what_the_paper_prints() -> None:
    for cell in grid_cells():
        printed = printed_loss(cell.kind, cell.layers, cell.noise)
        assert (printed is None) == (cell.layers == 8)


def test_every_config_is_valid_and_starts_from_a_model_that_its_recipe_takes() -> None:
    """Smaller or equal in kind and depth; GD++ and noise-free runs take GD++ only."""
    for cell in grid_cells():
        config, parent = cell.config, cell.parent
        same = (cell.kind, cell.layers, cell.noise, cell.seed)
        assert (config.kind, config.layers, config.noise, config.seed) == same
        assert (config.dim, config.examples, config.heads) == (10, 20, 1)
        assert stages_of(config)
        if parent is not None:
            assert parent.seed == cell.seed
            assert ORDER.index(parent.kind) <= ORDER.index(cell.kind)
            assert parent.kind == "gdpp" or not (cell.kind == "gdpp" or config.noise_free)


def test_names_tell_every_cell() -> None:
    """The reverse of `zoo_name`, written independently."""
    form = re.compile(r"(gdpp|diag|full)-(\d+)-(uniform|categorical)-([\d+]+)(?:-seed-(\d+))?")
    for cell in grid_cells():
        found = form.fullmatch(cell.name)
        assert found is not None
        kind, layers, prior, levels, seed = found.groups()
        assert Cell(kind, int(layers), f"{prior}:{levels}", int(seed or 0)) == cell
        assert parse_noise(cell.noise).spec == cell.noise


def test_zoo_name_of_single_cells() -> None:
    assert zoo_name("full", 7, "uniform:5") == "full-7-uniform-5"
    assert zoo_name("diag", 4, "categorical:1+3") == "diag-4-categorical-1+3"
    assert zoo_name("gdpp", 8, "uniform:5", 2) == "gdpp-8-uniform-5-seed-2"
    assert zoo_name("full", 7, "uniform:5", heads=2) == "full-7-heads-2-uniform-5"
    assert zoo_name("diag", 4, "uniform:5", registers=2) == "diag-4-registers-2-uniform-5"
    assert zoo_name("full", 7, "uniform:5", 1, 2, 3) == "full-7-heads-2-registers-3-uniform-5-seed-1"
    assert Cell("diag", 4, "uniform:5", registers=2).name == "diag-4-registers-2-uniform-5"


def test_cells_beyond_the_paper_are_deeper_or_have_several_heads() -> None:
    cells, paper = beyond_cells(), set(grid_cells())
    assert {cell for cell in cells if not cell.beyond} <= paper
    assert not any(cell.beyond for cell in paper)
    ours = [cell for cell in cells if cell.beyond]
    assert {(cell.kind, cell.noise) for cell in ours} == set(product(("diag", "full"), BEYOND_PRIORS))
    assert {(cell.layers, cell.heads) for cell in ours} == set(BEYOND_SIZES)
    assert len({cell.name for cell in (*cells, *paper)}) == len({*cells, *paper})


@pytest.mark.parametrize("cells", [grid_cells(), beyond_cells(), register_cells()], ids=["grid", "beyond", "registers"])
def test_cells_start_from_smaller_ones_that_come_before_them(cells: tuple[Cell, ...]) -> None:
    before: set[str] = set()
    for cell in cells:
        before.add(cell.name)
        config, parent = cell.config, cell.parent
        assert (config.layers, config.heads, config.registers) == (cell.layers, cell.heads, cell.registers)
        assert config.start == (parent.name if parent else None)
        if parent is not None:
            assert parent.name in before
            assert parent.layers <= cell.layers
            assert parent.heads <= cell.heads
            assert parent.registers <= cell.registers


def test_cells_with_registers_are_diag_models_of_up_to_twelve_layers() -> None:
    cells = register_cells()
    own = [cell for cell in cells if cell.registers]
    depths = (*range(1, 9), 10, 12)
    expected = {Cell("diag", layers, noise, registers=2) for layers, noise in product(depths, PRIORS)}
    expected |= {
        Cell("diag", layers, noise, registers=registers)
        for layers, noise, registers in product(depths, BEYOND_PRIORS, (1, 3))
    }
    expected.add(Cell("diag", 9, "categorical:1+3", registers=3))
    assert set(own) == expected
    assert len(own) == len({cell.name for cell in own}) == 161
    assert all(cell.beyond and stages_of(cell.config) for cell in own)
    assert {cell for cell in cells if not cell.registers} == {Cell("gdpp", depth, "uniform:0") for depth in LAYERS}


@pytest.mark.parametrize(
    ("layers", "noise", "registers", "parent"),
    [
        (4, "uniform:5", 2, None),
        (4, "uniform:1", 2, "diag-4-registers-2-uniform-2"),
        (8, "categorical:1+3", 2, "diag-8-registers-2-uniform-3"),
        (8, "categorical:1+3", 3, "diag-8-registers-3-uniform-5"),
        (1, "categorical:1+3+5", 1, "diag-1-registers-1-uniform-5"),
        (9, "categorical:1+3", 3, "diag-8-registers-3-categorical-1+3"),
        (10, "uniform:5", 1, "diag-8-registers-1-uniform-5"),
        (12, "uniform:7", 2, "diag-10-registers-2-uniform-7"),
        (3, "uniform:0", 2, "gdpp-3-uniform-0"),  # training without noise takes GD++ models only
        (12, "uniform:0", 2, "gdpp-7-uniform-0"),
    ],
)
def test_start_of_a_cell_with_registers(layers: int, noise: str, registers: int, parent: str | None) -> None:
    assert Cell("diag", layers, noise, registers=registers).config.start == parent


@pytest.mark.parametrize(
    ("layers", "noise", "parent"),
    [
        (4, "categorical:1+3", "full-4-uniform-3"),
        (5, "categorical:1+3", None),
        (7, "categorical:1+3+5", None),
        (8, "categorical:1+3", "full-7-categorical-1+3"),
        (7, "uniform:3", "full-7-uniform-4"),
        (2, "categorical:1+3", "diag-2-categorical-1+3"),
    ],
)
def test_full_models_of_five_layers_and_more_for_a_few_noise_levels_start_from_random_weights(
    layers: int, noise: str, parent: str | None
) -> None:
    assert Cell("full", layers, noise).config.start == parent


def test_cells_with_registers_can_be_selected() -> None:
    assert {cell.noise for cell in register_cells(["categorical:1+3+5"])} == {"uniform:5", "categorical:1+3+5"}
    assert {cell.registers for cell in register_cells(["uniform:6"])} == {2}
    refused("Did you mean 'uniform:5'", register_cells, ["unifrom:5"])


def test_cells_beyond_the_paper_can_be_selected() -> None:
    assert beyond_cells(["gdpp"]) == ()
    assert beyond_cells(["diag"], ["uniform:3"]) == ()
    assert {cell.noise for cell in beyond_cells(["diag"], ["uniform:5", "uniform:3"])} == {"uniform:5"}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({"kinds": ["gdpp"], "layers": [3], "columns": ["uniform:0"]}, [f"gdpp-{n}-uniform-0" for n in (1, 2, 3)]),
        (
            {"kinds": ["diag"], "layers": [4], "columns": ["uniform:7"], "seeds": [0]},
            [f"diag-4-uniform-{high}" for high in (5, 6, 7)],
        ),
        (
            {"kinds": ["full"], "layers": [2], "columns": ["categorical:1+3"]},
            [f"diag-2-uniform-{high}" for high in (5, 4, 3)] + ["diag-2-categorical-1+3", "full-2-categorical-1+3"],
        ),
        ({"kinds": ["full"], "layers": [1], "columns": ["uniform:0"]}, ["gdpp-1-uniform-0", "full-1-uniform-0"]),
        # Only uniform:5 has an eighth layer.
        ({"kinds": ["diag"], "layers": [8], "seeds": [1, 3]}, [f"diag-8-uniform-5-seed-{seed}" for seed in (1, 3)]),
    ],
)
def test_selection_brings_its_parents_along(chosen: dict[str, list[object]], names: list[str]) -> None:
    assert [cell.name for cell in grid_cells(**chosen)] == names  # type: ignore[arg-type]


def test_order_and_repetition_of_a_selection_do_not_matter() -> None:
    assert grid_cells(["gdpp"], [2, 1, 2], ["uniform:3", "uniform:5"], [1, 0, 1]) == grid_cells(
        ["gdpp"], [1, 2], ["uniform:5", "uniform:3"], [0, 1]
    )


@pytest.mark.parametrize(
    ("chosen", "hint"),
    [
        ({"kinds": ["dig"]}, "Did you mean 'diag'"),
        ({"columns": ["unifrom:5"]}, "Did you mean 'uniform:5'"),
        ({"columns": ["uniform:8"]}, "columns must be one of"),
        ({"layers": [0]}, "layers must be between 1 and 8"),
        ({"layers": [9]}, "layers must be between 1 and 8"),
        ({"layers": []}, "layers must name at least one depth"),
        ({"layers": ["two"]}, "layers must be a whole number"),
        ({"seeds": [0, -1]}, "seeds must be at least 0"),
        ({"seeds": [0.5]}, "seeds must be a whole number"),
    ],
)
def test_selection_of_what_there_is_not_is_one_sentence(chosen: dict[str, list[object]], hint: str) -> None:
    refused(hint, grid_cells, **chosen)
