"""Switching parts of a model off, and fitting what is left."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import Sample, Tuner, ablations, mark, model_from_omega, omega_of, switched_off
from ridgeformer.analysis.diagonal import OMEGAS
from ridgeformer.core.forward import gram_weights
from ridgeformer.core.notation import Array
from support import KINDS, make_examples, relative_error, tame_model

TASK = rf.Task(3, 9, "uniform:2")
GRAM = make_examples(6, 9, 3, seed=1).gram


@pytest.mark.parametrize("kind", KINDS)
def test_without_yx_in_any_layer_every_prediction_is_zero_and_without_nothing_it_is_the_model(kind: str) -> None:
    model = tame_model(kind, 3, 2, 3, GRAM)
    assert switched_off(model, mark(3, (), None)) is model
    assert not gram_weights(switched_off(model, mark(3, ("yx",), None)), GRAM).any()
    assert gram_weights(switched_off(model, mark(3, ("yx",), 2)), GRAM).any()  # the control: in one layer


@pytest.mark.parametrize("block", OMEGAS)
@pytest.mark.parametrize("layer", [None, 1, 2, 3])
def test_blocks_of_a_full_model_are_the_omega_of_a_diagonal_one(block: str, layer: int | None) -> None:
    model = tame_model("diag", 3, 1, 3, GRAM, seed=3, strength=1.0)
    off = mark(3, (block,), layer)
    expected = gram_weights(switched_off(model, off), GRAM)
    found = gram_weights(switched_off(model.embed("full"), off), GRAM)
    assert np.abs(found - expected).max() < 1e-12 * (1 + np.abs(expected).max())
    omega = np.where(off, 0.0, omega_of(model))
    assert relative_error(omega_of(switched_off(model, off)), omega) < 1e-14


def token_blocks(model: rf.LinearTransformer, gram: Array, off: Array) -> Array:
    """ŵ with blocks of every layer's update emptied by hand."""
    P, Q = model.attention_matrices()
    size = model.dim + 1
    row, grams = np.zeros((len(gram), size)), gram
    row[:, -1] = 1.0
    maps = []
    for layer in range(model.layers):
        update = sum(p @ grams @ q for p, q in zip(P[layer], Q[layer], strict=True))
        assert not isinstance(update, int)
        for block, (rows, columns) in enumerate(
            [(a, b) for a in (slice(None, -1), slice(-1, None)) for b in (slice(None, -1), slice(-1, None))]
        ):
            if off[layer, block]:
                update[:, rows, columns] = 0.0
        maps.append(np.eye(size) + update)
        grams = maps[-1] @ grams @ maps[-1].transpose(0, 2, 1)
    for layer_map in reversed(maps):
        row = np.einsum("bi,bij->bj", row, layer_map)
    return -row[:, :-1]


def test_blocks_of_a_dense_model_are_emptied_exactly() -> None:
    model = tame_model("full", 3, 2, 3, GRAM, seed=4)
    off = np.random.default_rng(0).random((3, 4)) < 0.4
    assert relative_error(gram_weights(switched_off(model, off), GRAM), token_blocks(model, GRAM, off)) < 1e-10


def test_ablations_cover_every_part_once_and_mark_inert_ones() -> None:
    sample = Sample.draw(TASK, 400)
    model = tame_model("diag", 2, 1, 3, sample.context.gram)
    done: list[tuple[int, int]] = []
    found = ablations(model, sample, on_done=lambda *numbers: done.append(numbers))
    everywhere = [f"{name}, all layers" for name in ("ω_xx", "ω_xy", "ω_yx", "ω_yy", "ω_xy and ω_yy")]
    assert [a.label for a in found[:6]] == ["nothing", *everywhere]
    assert len(found) == 6 + 8
    assert done[-1] == (14, 14)
    assert [a.label for a in found if a.inert] == ["ω_xx, layer 2", "ω_xy, layer 2"]
    control = found[0].alone.total.adjusted_loss
    assert control == pytest.approx(rf.evaluate(model, TASK, 400).adjusted_loss)
    assert all((a.alone.total.adjusted_loss == pytest.approx(control, rel=1e-9)) == a.inert for a in found[1:])
    zero = 0.5 * (sample.oracle**2).sum(axis=1).mean()
    assert found[3].alone.total.adjusted_loss == pytest.approx(zero)


def test_refitting_after_an_ablation_helps_on_fresh_sequences() -> None:
    sample, tuner = Sample.draw(TASK, 2000), Tuner(TASK, 1024)
    start = model_from_omega(np.array([[-0.02, -0.001, -0.04, 0.0], [0.0, 0.0, -0.1, 0.0]]), 3)
    found = {a.label: a for a in ablations(start, sample, tuner)}
    for label in ("nothing", "ω_xx, layer 1", "ω_xy and ω_yy, all layers"):
        ablation = found[label]
        assert ablation.refitted is not None
        assert ablation.refitted.total.adjusted_loss < 0.9 * ablation.alone.total.adjusted_loss
        assert ablation.omega is not None
    refitted = found["ω_xy and ω_yy, all layers"].omega
    assert refitted is not None
    assert not refitted[:, [1, 3]].any()  # what is off stays off
    without = found["ω_yx, all layers"]
    assert without.refitted == without.alone  # nothing is left to fit
    assert without.omega is None


def test_refitting_full_models_helps_on_fresh_sequences_and_keeps_blocks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, tuner = Sample.draw(TASK, 2000), Tuner(TASK, 2048)
    model = tame_model("full", 2, 1, 3, sample.context.gram, strength=0.2).astype(np.float32)
    fitted: list[rf.LinearTransformer] = []
    fit = tuner.fit_entries

    def watched(start: rf.LinearTransformer, free: Array) -> rf.LinearTransformer:
        fitted.append(fit(start, free))
        return fitted[-1]

    monkeypatch.setattr(tuner, "fit_entries", watched)
    found = ablations(model, sample, tuner, each_layer=False)
    assert [a.label for a in found[:2]] == ["nothing", "ω_xx, all layers"]
    assert len(found) == 6
    for ablation in found:
        assert ablation.refitted is not None
        if ablation.blocks != ("yx",):
            assert ablation.refitted.total.adjusted_loss < 0.7 * ablation.alone.total.adjusted_loss
    # What was refitted without xy and yy is itself unchanged when they are switched off.
    without = fitted[-1]
    off = mark(2, ("xy", "yy"), None)
    same = gram_weights(switched_off(without, off), sample.context.gram)
    assert relative_error(gram_weights(without.astype(np.float64), sample.context.gram), same) < 1e-12
    assert without.dtype == np.float32
    assert fitted[0].heads == 2


def test_marks_of_the_wrong_shape_or_name_are_refused() -> None:
    model = tame_model("diag", 2, 1, 3, GRAM)
    with pytest.raises(rf.InputError, match="each of 2 layers"):
        switched_off(model, np.zeros((3, 4), bool))
    with pytest.raises(rf.InputError, match="block must be one of"):
        mark(2, ("xz",), None)


def test_gdpp_stays_gdpp_when_refitted() -> None:
    sample, tuner = Sample.draw(TASK, 300), Tuner(TASK, 256)
    model = tame_model("gdpp", 2, 1, 3, sample.context.gram)
    found = ablations(model, sample, tuner)
    assert [a.label for a in found[:3]] == ["nothing", "ω_xx, all layers", "ω_yx, all layers"]
    assert found[0].omega is not None
    assert not found[0].omega[:, [1, 3]].any()
