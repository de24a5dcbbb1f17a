"""Transformers of any architecture: the contract of every attention, what the parts do, files and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from support import make_examples, refusal, relative_error

torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
rt: Any = pytest.importorskip("ridgeformer.torch")
WIDE: dict[str, Any] = {"width": 12, "heads": 3, "projections": "separate", "mlp": 2, "norm": True}
PARTS: dict[str, dict[str, Any]] = {
    "bare": {},
    "two heads": {"heads": 2},
    "separate": {"heads": 2, "projections": "separate"},
    "mlp": {"mlp": 2},
    "norm": {"norm": True},
    "wide": WIDE,
    "tied": {"tied": True, **WIDE},
    "causal": {"causal": True},
}


def make(kind: str = "softmax", layers: int = 2, dim: int = 3, **options: Any) -> Any:
    return rt.Architecture(kind, layers=layers, dim=dim, **options).make(seed=1, dtype="float64")


def inputs(batch: int = 4, n: int = 7, dim: int = 3, queries: int = 5) -> list[Any]:
    return [torch.from_numpy(array) for array in make_examples(batch, n, dim, seed=1, queries=queries)[:3]]


# --- the contract: whatever is in ATTENTIONS is held to it ------------------------------------------------------------


@pytest.mark.parametrize("kind", list(rt.ATTENTIONS))
def test_attention_does_not_depend_on_the_order_of_examples_or_on_other_queries(kind: str) -> None:
    module, (X, y, queries) = make(kind), inputs()
    expected = module(X, y, queries)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert torch.allclose(module(X[:, order], y[:, order], queries), expected, rtol=1e-9, atol=1e-12)
    assert torch.allclose(module(X, y, queries[:, 2:3]), expected[:, 2:3], rtol=1e-9, atol=1e-12)
    assert torch.allclose(module(X[:1], y[:1], queries[:1]), expected[:1], rtol=1e-9, atol=1e-12)
    assert not torch.allclose(module(X, y + 1, queries), expected, rtol=1e-6)  # the control: it looks at the data


@pytest.mark.parametrize("kind", list(rt.ATTENTIONS))
def test_attention_with_all_examples_seen_equals_attention_without_a_mask(kind: str) -> None:
    attend = rt.ATTENTIONS[kind].attend
    queries, keys, values = torch.randn(3, 2, 2, 9, 4, generator=torch.Generator().manual_seed(0)).double()
    everything = torch.full((9,), 9)
    assert torch.allclose(attend(queries, keys, values, everything), attend(queries, keys, values, None))
    seen = torch.arange(9)
    masked = attend(queries, keys, values, seen)
    for token in (1, 4, 8):
        alone = attend(queries[..., token : token + 1, :], keys[..., :token, :], values[..., :token, :], None)
        assert torch.allclose(masked[..., token : token + 1, :], alone)
    assert (masked[..., 0, :] == 0).all()  # nothing seen, nothing taken


@pytest.mark.parametrize("kind", list(rt.ATTENTIONS))
@pytest.mark.parametrize("parts", PARTS.values(), ids=list(PARTS))
def test_module_has_gradients_everywhere_and_runs_on_meta(kind: str, parts: dict[str, Any]) -> None:
    module, given = make(kind, **parts), inputs()
    for tensor in given:
        tensor.requires_grad_()
    found = module(*given)
    assert found.shape == (4, 5)
    found.square().sum().backward()
    assert all(torch.isfinite(tensor.grad).all() and (tensor.grad != 0).any() for tensor in given)
    last = [name for name, parameter in module.named_parameters() if not (parameter.grad != 0).any()]
    assert not last
    empty = rt.Architecture(kind, layers=2, dim=3, **parts).make(device="meta", dtype="float64")
    assert empty(*(tensor.to("meta") for tensor in given)).shape == (4, 5)


# --- what the parts are -----------------------------------------------------------------------------------------------


def test_linear_attention_with_nothing_else_is_the_papers_full_model() -> None:
    module = make("linear", layers=3, heads=2)
    P, Q = (np.stack([getattr(block.attention, name).detach().numpy() for block in module.blocks]) for name in "PQ")
    # e_jᵀ Q e_i of the paper is ⟨q_i, k_j⟩ with q_i = Q e_i, k_j = e_j.
    model = rf.LinearTransformer("full", 3, {"P": P, "Q": Q})
    examples = make_examples(4, 7, 3, seed=1)
    assert relative_error(module.predict(*examples[:3]), rf.token_predictions(model, *examples[:3])) < 1e-12


def test_separate_softmax_attention_is_torchs_multihead_attention() -> None:
    module = make(layers=1, heads=3, width=12, projections="separate")
    own = module.blocks[0].attention
    theirs = torch.nn.MultiheadAttention(12, 3, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([weights.flatten(0, 1) for weights in (own.Q, own.K, own.V)]))
        theirs.out_proj.weight.copy_(own.P.transpose(0, 1).flatten(-2))
    tokens = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected, _ = theirs(tokens, tokens[:, :6], tokens[:, :6], need_weights=False)
    assert torch.allclose(own(tokens, 6, None), expected)


def test_kernelised_attention_is_its_formula() -> None:
    queries, keys, values = torch.randn(3, 1, 1, 6, 4, generator=torch.Generator().manual_seed(0)).double()
    scores = (queries @ keys.mT) / 2
    weights = 1 + scores + scores**2 / 2
    expected = weights @ values / weights.sum(dim=-1, keepdim=True)
    assert torch.allclose(rt.ATTENTIONS["taylor"].attend(queries, keys, values, None), expected)
    features = [torch.where(x > 0, x + 1, torch.exp(x)) for x in (queries, keys)]
    weights = features[0] @ features[1].mT
    expected = weights @ values / weights.sum(dim=-1, keepdim=True)
    assert torch.allclose(rt.ATTENTIONS["elu"].attend(queries, keys, values, None), expected)
    linear, normalised = (rt.ATTENTIONS[name].attend(queries, keys, values, None) for name in ("linear", "normalised"))
    assert torch.allclose(linear, (queries @ keys.mT) @ values)
    assert torch.allclose(6 * normalised, linear)


def test_causal_module_predicts_at_every_prefix_what_it_does_on_the_prefix_alone() -> None:
    module, (X, y, queries) = make(causal=True), inputs()
    found = module.prefix_predictions(X, y)
    for length in (1, 3, 6):
        alone = module(X[:, :length], y[:, :length], X[:, length : length + 1])
        assert torch.allclose(found[:, length : length + 1], alone)
    with refusal("causal"):
        make()(X, y, queries, torch.zeros(5, dtype=torch.long))


def test_tied_module_uses_one_layer_again_and_again() -> None:
    module = make(layers=3, tied=True)
    assert len(module.blocks) == 1
    once = module.blocks[0]
    X, y, queries = inputs()
    longer = rt.Transformer(rt.Architecture("softmax", layers=3, dim=3), dtype="float64")
    for block in longer.blocks:
        block.load_state_dict(once.state_dict())
    assert torch.allclose(longer(X, y, queries), module(X, y, queries))


def test_first_layers_share_weights_and_layerwise_reads_them_out() -> None:
    module = make(layers=3)
    one, all_of_them = module.first_layers(1), module.first_layers(None)
    given = inputs()
    assert torch.equal(all_of_them(*given), module(*given))
    assert len(one.blocks) == 1
    read = rf.layerwise(module, rf.Task(3, 8), 50)
    assert len(read) == 3
    assert read[-1].adjusted_loss == pytest.approx(rf.evaluate(module, rf.Task(3, 8), 50).adjusted_loss)


def test_equal_seeds_give_equal_weights_whatever_torchs_generators_did() -> None:
    first = make().state_dict()
    torch.manual_seed(5)
    torch.randn(10)
    again = make().state_dict()
    other = rt.Architecture("softmax", layers=2, dim=3).make(seed=2, dtype="float64").state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("kind", ["softmax", "elu"])
def test_compiled_module_gives_the_same_numbers(kind: str) -> None:
    module, given = make(kind, **WIDE), inputs()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(*given), module(*given))
    torch._dynamo.reset()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", PARTS.values(), ids=list(PARTS))
def test_saved_module_loads_as_the_same(parts: dict[str, Any], tmp_path: Path) -> None:
    from safetensors.torch import load_file

    module, path = make(**parts), tmp_path / "m.safetensors"
    module.info = {"trained": "here"}
    module.save_pretrained(path)
    again = rt.load(path)
    assert again.architecture == module.architecture
    assert again.info == module.info
    assert torch.equal(again(*inputs()), module(*inputs()))
    make(**parts).load_state_dict(load_file(path), strict=True)
    assert rt.load(path, dtype="float32").dtype == torch.float32


def test_file_of_a_module_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    make().save_pretrained(path)
    data = bytearray(path.read_bytes())
    for place in (-1, len(data) // 2):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        with refusal("damaged|metadata|readable|safetensors"):
            rt.load(path)
    for cut in (0, 7, 100, len(data) - 3):
        path.write_bytes(data[:cut])
        with refusal():
            rt.load(path)


def test_module_file_is_refused_by_load_with_a_sentence_that_says_what_reads_it(tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "m.safetensors")
    with refusal("ridgeformer.torch.load"):
        rf.load(tmp_path / "m.safetensors")


def test_names_that_do_not_exist_are_refused_with_the_nearest() -> None:
    assert rt.load("diag-4-uniform-5").kind == "diag"
    with refusal("Did you mean 'diag-4-uniform-5'"):
        rt.load("dag-4-uniform-5")
    with refusal("file or by its name"):
        rt.load(3)


def test_module_with_weights_that_are_not_finite_is_not_saved(tmp_path: Path) -> None:
    module = make()
    with torch.no_grad():
        module.blocks[0].attention.Q[0, 0, 0] = float("inf")
    with refusal("NaN or infinite weights"):
        module.save_pretrained(tmp_path / "bad.safetensors")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "sofmax"}, "Did you mean 'softmax'"),
        ({"layers": 0}, "layers"),
        ({"width": 0}, "width"),
        ({"mlp": -1}, "mlp"),
        ({"norm": 1}, "norm"),
        ({"projections": "shared"}, "projections"),
        ({"kind": "full", "mlp": 2}, "has no mlp"),
        ({"kind": "softmax", "registers": 2}, "width instead"),
        ({"heads": 20, "projections": "separate"}, "at least 20"),
    ],
)
def test_architecture_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with refusal(message):
        rt.Architecture(**values)


def test_transformer_of_something_else_is_refused() -> None:
    for wrong in ("softmax", rt.Architecture("full")):
        with refusal("Architecture"):
            rt.Transformer(wrong)
    with refusal("Did you mean 'layers'"):
        rt.Architecture.from_json({"layer": 3})
    with refusal("JSON object"):
        rt.Architecture.from_json([3])
