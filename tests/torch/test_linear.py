"""The paper's model as a module: the same files, the same numbers as the NumPy reference, gradients, compilation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.forward import gram_weights
from ridgeformer.core.kinds import KINDS, Kind
from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Look
from ridgeformer.zoo import zoo_folder, zoo_names
from support import make_examples, refusal, relative_error, tame_model

torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
rt: Any = pytest.importorskip("ridgeformer.torch")

FORMS = ("tokens", "gram")


def tensors(*arrays: Array) -> list[Any]:
    return [torch.from_numpy(np.array(array)) for array in arrays]


def tame(kind: str, layers: int = 3, heads: int = 2, dim: int = 4, **options: Any) -> tuple[rf.LinearTransformer, Any]:
    examples = make_examples(5, 9, dim, seed=3)
    return tame_model(kind, layers, heads, dim, examples.gram, **options), examples


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gdpp-3-uniform-5", "diag-4-uniform-5", "full-7-uniform-5"])
def test_state_dict_is_the_tensors_of_the_file(name: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = zoo_folder() / f"{name}.safetensors"
    model = rf.load(path)
    module = rt.LinearTransformer(model.kind, layers=model.layers, dim=model.dim)
    assert list(module.load_state_dict(load_file(path), strict=True)) == [[], []]
    for key, array in model.parameters.items():
        assert np.array_equal(module.state_dict()[key].numpy(), array)
    save_file(module.state_dict(), tmp_path / "bare.safetensors")
    assert load_file(tmp_path / "bare.safetensors").keys() == model.parameters.keys()


@pytest.mark.parametrize("kind", list(KINDS))
def test_saved_module_is_a_file_that_load_reads_with_metadata_and_digest(kind: str, tmp_path: Path) -> None:
    model, _ = tame(kind)
    module = rt.from_model(rf.LinearTransformer(kind, model.dim, model.parameters, {"from": "here"}))
    module.save_pretrained(tmp_path / "a.safetensors")
    module.to_model().save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    again = rf.load(tmp_path / "a.safetensors")
    assert again.info == {"from": "here"}
    assert all(np.array_equal(again.parameters[name], model.parameters[name]) for name in model.parameters)
    assert rt.load(tmp_path / "a.safetensors").state_dict().keys() == module.state_dict().keys()


# --- the same numbers -------------------------------------------------------------------------------------------------


def test_every_model_of_the_zoo_agrees_with_the_reference_to_1e_12_in_both_forms() -> None:
    names = zoo_names()
    assert len(names) >= 343
    for name in names:
        model = rf.load(name).astype(np.float64)
        # Contexts that it was trained for: where a model explodes, rounding errors do too.
        drawn = rf.Task(model.dim, 20, model.info["task"]["noise"]).draw_tokens(4, seed=1)
        inputs = drawn.X, drawn.y, drawn.query[:, None]
        by_gram = gram_weights(model, rf.Context.from_tokens(drawn.X, drawn.y).gram)
        expected = {
            "tokens": rf.token_predictions(model, *inputs),
            "gram": np.einsum("bmd,bd->bm", inputs[2], by_gram),
        }
        for form in FORMS:
            found = rt.from_model(model, form=form).predict(*inputs)
            assert relative_error(found, expected[form]) < 1e-12, (name, form)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("n", "dim"), [(1, 1), (3, 5), (40, 2)])
def test_both_forms_agree_for_every_kind_with_heads(kind: str, n: int, dim: int) -> None:
    examples = make_examples(4, n, dim, seed=2)
    model = tame_model(kind, 3, 2, dim, examples.gram)
    expected = rf.token_predictions(model, *examples[:3])
    for form in ("auto", *FORMS):
        assert relative_error(rt.from_model(model, form=form).predict(*examples[:3]), expected) < 1e-12


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_registers_are_carried_through_both_forms(kind: str) -> None:
    model = rf.LinearTransformer.init(kind, layers=3, dim=4, registers=2, scale=0.03, dtype=np.float64)
    examples = make_examples(5, 9, 4, seed=3)
    expected = rf.token_predictions(model, *examples[:3])
    for form in FORMS:
        module = rt.from_model(model, form=form)
        assert relative_error(module.predict(*examples[:3]), expected) < 1e-12
    weights = module.weights(rf.Context.from_tokens(examples.X, examples.y))
    assert relative_error(np.einsum("bmd,bd->bm", examples.queries, weights), expected) < 1e-12


def test_auto_takes_tokens_for_few_examples_and_gram_for_many() -> None:
    module = rt.LinearTransformer("full", layers=4)
    assert module.chosen_form(3) == "tokens"
    assert module.chosen_form(100) == module.chosen_form(10_000) == "gram"


class Squared(Kind):
    """P = p² I, Q = q I: not a copy of its parameters."""

    name, label, look, init_scale = "squared", "Squared", Look("#000000"), 0.1

    def shapes(self, layers: int, heads: int, dim: int) -> dict[str, tuple[int, ...]]:
        return {"p": (layers, heads), "q": (layers, heads)}

    def matrices(self, parameters: Any, dim: int) -> tuple[Array, Array]:
        identity = np.eye(dim + 1)
        return parameters["p"][..., None, None] ** 2 * identity, parameters["q"][..., None, None] * identity

    def gradient(self, parameters: Any, P_gradient: Array, Q_gradient: Array) -> dict[str, Array]:
        p, q = (np.trace(gradient, axis1=-2, axis2=-1) for gradient in (P_gradient, Q_gradient))
        return {"p": 2 * parameters["p"] * p, "q": q}


def test_kind_that_does_more_than_copy_is_computed_and_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KINDS, "_entries", dict(KINDS))
    KINDS.add(Squared())
    model, examples = tame("squared", layers=2)
    module = rt.from_model(model)
    assert not module._copies
    assert relative_error(module.predict(*examples[:3]), rf.token_predictions(model, *examples[:3])) < 1e-12
    check_gradients(module, examples)


# --- gradients --------------------------------------------------------------------------------------------------------


def check_gradients(module: Any, examples: Any) -> None:
    """With respect to parameters and inputs, by torch's own finite differences."""
    inputs = [tensor.requires_grad_() for tensor in tensors(*examples[:3])]

    def function(X: Any, y: Any, queries: Any, *values: Any) -> Any:
        named = dict(zip(dict(module.named_parameters()), values, strict=True))
        return torch.func.functional_call(module, named, (X, y, queries))

    assert torch.autograd.gradcheck(function, (*inputs, *module.parameters()), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("form", FORMS)
def test_gradients_with_respect_to_parameters_and_inputs(kind: str, form: str) -> None:
    model, examples = tame(kind, layers=2, dim=3)
    check_gradients(rt.from_model(model, form=form), examples)


@pytest.mark.parametrize("kind", list(KINDS))
def test_gradient_is_that_of_the_package(kind: str) -> None:
    model, _ = tame(kind)
    draw = rf.Task(4, 9, "uniform:1").draw_contexts(6, seed=0)
    losses, gradient = rf.losses_and_gradient_on(model, draw, backend="reference")
    module = rt.from_model(model)
    gram, oracle = tensors(draw.context.gram, draw.oracle)
    found = 0.5 * (module.gram_weights(gram) - oracle).square().sum(dim=1)
    found.mean().backward()
    assert relative_error(found.detach().numpy(), losses) < 1e-12
    for name, parameter in module.named_parameters():
        assert relative_error(parameter.grad.numpy(), gradient.parameters[name]) < 1e-10


# --- devices, precisions, compilation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_meta_device_gives_shapes_without_computing(form: str) -> None:
    module = rt.LinearTransformer("full", layers=2, dim=3, form=form, device="meta")
    X, y, queries = (torch.empty(shape, device="meta") for shape in ((5, 8, 3), (5, 8), (5, 2, 3)))
    assert module(X, y, queries).shape == (5, 2)
    assert module(X, y, queries).device.type == "meta"
    with refusal("no weights"):
        module.to_model()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.1), ("float64", 1e-12)])
def test_any_precision_predicts_what_float64_does(dtype: str, tolerance: float) -> None:
    model, examples = tame("full")
    module = rt.from_model(model, dtype=dtype)
    assert module.dtype == getattr(torch, dtype)
    expected = rf.token_predictions(model, *examples[:3])
    assert relative_error(module.predict(*examples[:3]), expected) < tolerance
    assert module.to_model().dtype == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_compiled_module_gives_the_same_numbers(kind: str, form: str) -> None:
    model, examples = tame(kind)
    module = rt.from_model(model, form=form)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)  # all of it, except making C++ of it
    inputs = tensors(*examples[:3])
    assert torch.allclose(compiled(*inputs), module(*inputs), rtol=1e-12, atol=0)
    torch._dynamo.reset()


# --- predictors and refusals ------------------------------------------------------------------------------------------


def test_module_is_a_linear_predictor_with_the_losses_of_its_model() -> None:
    model = rf.load("diag-4-uniform-5")
    ours, theirs = rf.compare({"model": model, "module": rt.from_model(model)}, "uniform:5", 200).evaluations.values()
    assert ours.adjusted_loss == pytest.approx(theirs.adjusted_loss, rel=1e-4)  # float32, in another order


def test_first_layers_are_those_of_the_model() -> None:
    model, examples = tame("diag")
    found = rt.from_model(model).first_layers(2).predict(*examples[:3])
    assert relative_error(found, rf.token_predictions(model.first_layers(2), *examples[:3])) < 1e-12


def wrong_inputs() -> list[tuple[str, Callable[[], Any]]]:
    module = rt.LinearTransformer("diag", layers=1, dim=3)
    X, y, queries = torch.ones(2, 5, 3), torch.ones(2, 5), torch.ones(2, 1, 3)
    return [
        ("torch.Tensor", lambda: module(X.numpy(), y, queries)),
        ("3 features", lambda: module(X[..., :2], y, queries)),
        ("agree in batch", lambda: module(X, y[:, :4], queries)),
        ("must be", lambda: module(X[0], y, queries)),
        ("float64", lambda: module(X.double(), y, queries)),
        ("meta", lambda: module(X.to("meta"), y, queries)),
        ("NaN", lambda: module.predict(X.numpy() * np.nan, y.numpy(), queries.numpy())),
        ("Did you mean 'diag'", lambda: rt.LinearTransformer("diga", layers=1)),
        ("form", lambda: rt.LinearTransformer("diag", layers=1, form="fast")),
        ("no device", lambda: rt.LinearTransformer("diag", layers=1, device="cuda:7")),
        ("no device", lambda: rt.LinearTransformer("diag", layers=1, device="abacus")),
        ("precision", lambda: rt.LinearTransformer("diag", layers=1, dtype="int8")),
        ("must be a LinearTransformer", lambda: rt.from_model("diag-4-uniform-5")),
        ("its own layers", lambda: rt.LinearTransformer(rf.load("diag-4-uniform-5"), layers=3)),
        ("features", lambda: module.weights(rf.Task(2, 5).draw_contexts(1, seed=0).context)),
    ]


@pytest.mark.parametrize("number", range(15))
def test_what_does_not_fit_is_refused_with_one_sentence(number: int) -> None:
    message, call = wrong_inputs()[number]
    with refusal(message):
        call()


def test_module_with_weights_that_are_not_finite_is_not_saved(tmp_path: Path) -> None:
    module = rt.LinearTransformer("diag", layers=1)
    with torch.no_grad():
        module.p[0] = float("nan")
    with refusal("NaN or infinite weights"):
        module.save_pretrained(tmp_path / "bad.safetensors")
    assert not list(tmp_path.iterdir())
