"""Studies: what a grid stands for, names that keep, starts by reference, and everything that is refused beforehand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.sweeps import Study, read_study
from ridgeformer.sweeps.study import MOST_CELLS, cell_name
from support import refused


def of(*grids: dict[str, Any], **measure: Any) -> Study:
    return read_study({"grid": list(grids), "measure": measure})


def parents(study: Study) -> dict[str, str | None]:
    return {cell.name: cell.parent for cell in study.cells}


def test_grid_stands_for_all_combinations_in_order() -> None:
    study = of({"kind": ["diag", "full"], "layers": [1, 2], "noise": "uniform:3"})
    found = [(cell.config.kind, cell.config.layers, cell.config.noise) for cell in study.cells]
    assert found == [(kind, layers, "uniform:3") for kind in ("diag", "full") for layers in (1, 2)]


def test_several_grids_are_added_and_what_is_twice_is_one_cell() -> None:
    study = of({"layers": [1, 2]}, {"layers": [2, 3]})
    assert [cell.config.layers for cell in study.cells] == [1, 2, 3]


def test_toml_json_and_dict_of_the_same_study_are_the_same(tmp_path: Path) -> None:
    values = {"grid": {"kind": "diag", "layers": [1, 2], "start": "previous layer"}, "measure": {"noise": ["fixed:1"]}}
    (tmp_path / "a.json").write_text(json.dumps(values))
    (tmp_path / "a.toml").write_text(
        '[grid]\nkind = "diag"\nlayers = [1, 2]\nstart = "previous layer"\n[measure]\nnoise = ["fixed:1"]\n'
    )
    assert read_study(tmp_path / "a.json") == read_study(tmp_path / "a.toml") == read_study(values)


# --- names ------------------------------------------------------------------------------------------------------------


def test_name_is_readable_and_the_same_whatever_else_is_in_the_study() -> None:
    alone = of({"kind": "diag", "layers": 3, "seed": 2, "batch": 128}).cells[0].name
    among = of({"kind": ["gdpp", "diag"], "layers": [2, 3], "seed": [1, 2], "batch": [64, 128]})
    assert re.fullmatch(r"diag-3-uniform-5-batch-128-seed-2-[0-9a-f]{12}", alone)
    assert alone in {cell.name for cell in among.cells}


def test_name_of_a_config_is_known_for_good() -> None:
    """Another name for the same settings would train finished cells again."""
    assert cell_name(rf.TrainConfig(kind="diag", layers=3, seed=1)) == "diag-3-uniform-5-seed-1-fb1414b67f5c"


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "kind": st.sampled_from(["gdpp", "diag", "full"]),
            "layers": st.integers(1, 9),
            "heads": st.integers(1, 3),
            "noise": st.sampled_from(["uniform:5", "uniform:3", "fixed:1"]),
            "dim": st.integers(1, 12),
            "seed": st.integers(0, 5),
            "steps": st.one_of(st.none(), st.integers(1, 50)),
            "rate": st.one_of(st.none(), st.floats(1e-9, 1e9)),
            "sequences": st.integers(2, 100),
            "precision": st.sampled_from(["auto", "float32"]),
        },
    ),
    st.sampled_from(["kind", "layers", "noise", "dim", "seed", "steps", "sequences", "precision"]),
)
def test_configs_have_the_same_name_only_if_they_are_equal(fields: dict[str, Any], other: str) -> None:
    config = rf.TrainConfig(**fields)
    changed = rf.TrainConfig(
        **{**fields, other: {"kind": "diag", "noise": "fixed:2", "precision": "float64"}.get(other, 7)}
    )
    assert (cell_name(config) == cell_name(changed)) == (config == changed)
    assert cell_name(config) == cell_name(rf.TrainConfig.from_json(config.as_json()))


def test_name_changes_with_the_settings_of_the_cell_that_it_starts_from() -> None:
    grid = {"kind": "diag", "layers": [1, 2], "start": "previous layer"}
    first, second = (of({**grid, "steps": steps}) for steps in (10, 20))
    assert first.cells[1].name != second.cells[1].name


def test_name_changes_with_the_weights_in_the_file_that_it_starts_from(tmp_path: Path) -> None:
    path, names = tmp_path / "start.safetensors", []
    for seed in (0, 1, 0):
        rf.LinearTransformer.init("diag", layers=1, seed=seed).save(path)
        names.append(of({"kind": "diag", "layers": 2, "start": str(path)}).cells[0].name)
    assert names[0] == names[2] != names[1]


# --- starts -----------------------------------------------------------------------------------------------------------


def test_previous_value_of_a_field_is_the_start_and_the_first_has_none() -> None:
    study = of({"kind": "diag", "layers": [1, 2, 4], "seed": [0, 1], "start": "previous layers"})
    by = {(cell.config.layers, cell.config.seed): cell for cell in study.cells}
    for seed in (0, 1):
        assert by[1, seed].parent is None
        assert by[2, seed].parent == by[2, seed].config.start == by[1, seed].name
        assert by[4, seed].parent == by[2, seed].name


@pytest.mark.parametrize("field", ["noise", "kind", "seed", "batch"])
def test_any_field_with_a_list_has_a_previous_value(field: str) -> None:
    values = {"noise": ["uniform:1", "uniform:2"], "kind": ["diag", "full"], "seed": [3, 4], "batch": [8, 16]}
    study = of({"kind": "diag", "layers": 2, field: values[field], "start": f"previous {field}"})
    assert [cell.parent for cell in study.cells] == [None, study.cells[0].name]


def test_start_by_fields_finds_the_cell_of_another_grid_whatever_its_recipe() -> None:
    study = of(
        {"kind": "diag", "layers": [2, 3], "steps": 10},
        {"kind": "full", "layers": [2, 3], "start": {"kind": "diag"}},
    )
    assert [cell.config.kind for cell in study.cells] == ["diag", "diag", "full", "full"]
    assert [cell.parent for cell in study.cells[2:]] == [cell.name for cell in study.cells[:2]]


def test_start_by_fields_may_come_before_what_it_refers_to() -> None:
    study = of({"kind": "full", "layers": 2, "start": {"kind": "diag"}}, {"kind": "diag", "layers": 2})
    assert [cell.config.kind for cell in study.cells] == ["diag", "full"]


def test_named_configs_refer_to_each_other_by_name_and_come_parents_first() -> None:
    one = rf.TrainConfig(kind="gdpp", layers=1)
    two = rf.TrainConfig(kind="gdpp", layers=2, start="one")
    study = read_study({"two": two, "one": one})
    assert [(cell.name, cell.parent) for cell in study.cells] == [("one", None), ("two", "one")]


def test_list_of_configs_is_a_study_with_own_priors_too() -> None:
    class Half:
        spec = "half"

        def sample(self, rng: Any, size: int) -> Any: ...

        def quadrature(self, nodes: int) -> Any: ...

    configs = [rf.TrainConfig(layers=1), rf.TrainConfig(layers=1, noise=Half()), rf.TrainConfig(layers=1)]
    assert [cell.config for cell in read_study(configs).cells] == configs[:2]


def test_model_of_the_zoo_and_model_file_are_starts_of_no_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rf.LinearTransformer.init("diag", layers=1).save("mine.safetensors")
    study = of({"kind": "diag", "layers": 5, "start": ["diag-4-uniform-5", "mine.safetensors"]})
    assert [(cell.parent, cell.model_file) for cell in study.cells] == [
        (None, None),
        (None, tmp_path / "mine.safetensors"),
    ]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "hint"),
    [
        ({}, "must have a grid"),
        ({"grid": []}, "must have a grid"),
        ({"grid": "layers"}, "must have a grid"),
        ({"grid": [3]}, "must be a table of fields"),
        ({"grid": {"layers": []}}, "layers has no values"),
        ({"grid": {"layer": 3}}, "Did you mean 'layers'"),
        ({"gird": {}}, "Did you mean 'grid'"),
        ({"grid": {"layers": [1, 0]}}, "layers must be between 1 and"),
        ({"grid": {"kind": "fall"}}, "Did you mean 'full'"),
        ({"grid": {"noise": "uniform"}}, "noise"),
        ({"grid": {"seed": list(range(1000)), "layers": [1] * 1000}}, f"more than {MOST_CELLS:,}"),
        ({"grid": {"layers": 2, "start": "previous layer"}}, "needs a field with a list"),
        ({"grid": {"layers": [1, 2], "start": "previous sede"}}, "the field of 'previous sede'"),
        ({"grid": {"layers": 2, "start": {"layers": 1}}}, "there is none"),
        ({"grid": {"layers": [1, 2], "start": {"layer": 1}}}, "Did you mean 'layers'"),
        ({"grid": {"layers": 2, "start": {"layers": 0}}}, "layers must be between"),
        ({"grid": {"layers": 2, "start": {"layers": 2}}}, "in a circle"),
        ({"grid": [{"layers": 2, "batch": [8, 16]}, {"layers": 3, "start": {"layers": 2}}]}, "there are 2"),
        ({"grid": {"kind": ["full", "diag"], "layers": 2, "start": "previous kind"}}, "diag"),
        ({"grid": {"dim": [3, 4], "layers": 2, "start": "previous dim"}}, "features"),
        ({"grid": {"layers": [2, 1], "start": "previous layer"}}, "more than the run's"),
        ({"grid": {"layers": 2, "start": "nothing-here"}}, "no such model in the zoo"),
        ({"grid": {"layers": 2, "start": "full-7-uniform-5"}}, "more than the run's"),
        ({"grid": {}, "measure": {"nose": 1}}, "Did you mean 'noise'"),
        ({"grid": {}, "measure": 3}, "measure must be a table"),
        ({"grid": {}, "measure": {"noise": ["uniform"]}}, "uniform"),
        ({"grid": {}, "measure": {"examples": [0]}}, "examples must be"),
        ({"grid": {}, "measure": {"shifts": ["scael:2"]}}, "Did you mean 'scale'"),
        ({"grid": {}, "measure": {"sequences": 1}}, "sequences must be"),
    ],
)
def test_study_that_cannot_be_trained_is_refused_with_one_sentence(study: Any, hint: str, tmp_path: Path) -> None:
    refused(re.escape(hint), read_study, study)
    refused(re.escape(hint), rf.sweep, study, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("a.toml", "[grid", "is not TOML"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[1]", "must be a table"),
        ("b", None, "no file"),
    ],
)
def test_file_that_is_no_study_is_refused_with_one_sentence(
    tmp_path: Path, name: str, text: str | None, hint: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    refused(hint, read_study, tmp_path / name)


@pytest.mark.parametrize("study", [None, 3, [3], {"a": 3}, {"../a": rf.TrainConfig()}, {"": rf.TrainConfig()}, []])
def test_anything_else_is_refused_with_one_sentence(study: Any) -> None:
    refused("", read_study, study)


def test_named_configs_in_a_circle_are_refused() -> None:
    circle = {"a": rf.TrainConfig(start="b"), "b": rf.TrainConfig(start="a")}
    refused("in a circle", read_study, circle)
