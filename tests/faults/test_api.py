"""Random calls of everything that is public: what fits gives the same answer twice, anything else is one sentence."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ridgeformer as rf
from attacks import Tally
from plans import TINY
from ridgeformer.core.notation import Array
from ridgeformer.training.run_directory import RunDirectory
from support import make_examples


class Call(NamedTuple):
    """A function of the package and what it is called with."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r:.200}' for name, value in self.arguments.items())})"


class Things(NamedTuple):
    """A model, and contexts that fit it, as most calls need them."""

    model: rf.LinearTransformer
    context: rf.Context
    X: Array
    y: Array
    queries: Array
    task: rf.Task
    draw: rf.ContextDraw


@cache
def things(kind: str, dim: int) -> Things:
    """The same for equal arguments."""
    examples = make_examples(2, 5, dim, seed=dim)
    model = rf.LinearTransformer.init(kind, layers=2, dim=dim, scale=0.01)
    task = rf.Task(dim, 5, "uniform:2")
    context = rf.Context.from_tokens(examples.X, examples.y)
    draw = task.draw_contexts(3, seed=0, backend="reference")
    return Things(model, context, examples.X, examples.y, examples.queries, task, draw)


# --- what fits --------------------------------------------------------------------------------------------------------

_levels = st.floats(0, 5, allow_subnormal=False)
_specs = ("uniform:5", "uniform:1-3", "fixed:1", "categorical:1+3", "loguniform:0.1-10", "uniform:0")
_FITTING: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from(["gdpp", "diag", "full"]),
    "noise": st.sampled_from([*_specs, rf.Uniform(2.0), rf.Fixed(0.0)]),
    "spec": st.sampled_from(_specs),
    "prior": st.sampled_from(_specs),
    "layers": st.integers(1, 3),
    "dim": st.integers(1, 4),
    "heads": st.integers(1, 2),
    "examples": st.integers(1, 9),
    "seed": st.integers(0, 2**63 - 1),
    "step": st.integers(0, 100),
    "start": st.integers(0, 5),
    "batch": st.integers(1, 8),
    "sequences": st.integers(2, 40),
    "sequences_per_level": st.integers(2, 40),
    "iterations": st.integers(1, 5),
    "nodes": st.integers(1, 9),
    "threads": st.sampled_from([None, 1, 2]),
    "dtype": st.sampled_from(["float32", np.float64, np.dtype("float32")]),
    "backend": st.sampled_from(["auto", "reference", "fused"]),
    "objective": st.sampled_from(["exact", "sampled"]),
    "saturation": st.floats(0, 10),
    "importance": st.none(),
    "scale": st.floats(0, 1),
    "penalty": st.floats(0, 10),
    "high": st.floats(1, 5),
    "low": st.floats(0.1, 0.9),
    "sigma": _levels,
    "v": _levels,
    "c": _levels,
    "cap": _levels,
    "levels": st.lists(_levels, min_size=1, max_size=3),
    "scenarios": st.sampled_from([None, ["noise:2"], []]),
    "info": st.just({}),
    "recipe": st.sampled_from(["fast", "paper"]),
    "rate": st.sampled_from([None, 0.1]),
    "steps": st.sampled_from([None, 1]),
    "precision": st.sampled_from(["auto", "float64"]),
    "values": st.just({"kind": "diag", "layers": 2}),
    "source": st.sampled_from(["diag-1-uniform-5", "no such model", "/dev/null", "."]),
    "thing": st.sampled_from([rf.baselines.OLS(), lambda X, y, queries: queries[..., 0]]),
    "paired": st.booleans(),
}
_OF_THINGS = {"model", "context", "X", "y", "queries", "task"}
_SKIPPED = {"self", "cls", "on_chunk", "kwargs", "args"}

# --- what does not ----------------------------------------------------------------------------------------------------

_LONG = {"sequences", "sequences_per_level", "iterations", "nodes", "steps", "levels"}
"""Numbers of these may be as large as one likes: it takes as long as it takes."""
_small_numbers = st.sampled_from(
    [-(2**63), -1, 0, 1, 2, 7, True, False, 2.0, 2.5, -0.0, np.nan, np.inf, -np.inf, 5e-324]
)
_numbers = _small_numbers | st.sampled_from(
    [2**31, 2**63, 10**400, 1e308, np.float32(3), np.int8(-5), np.uint64(2**63)]
)
_texts = st.text(max_size=20) | st.sampled_from(
    ["", "\0", "\x1b[31m", "uniform:", "uniform:nan", "fixed:1e999", "a" * 9999]
)
_arrays = hnp.arrays(
    dtype=st.sampled_from(["f4", "f8", ">f8", "f2", "i4", "u1", "?", "c16", "O", "U3", "M8[s]"]),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    elements=None,
    fill=st.nothing(),
)
_others = st.sampled_from(
    [
        *(None, object(), object, lambda *_: None, print, ..., NotImplemented, Path("x"), b"x", bytearray(2), range(3)),
        *(Decimal("1.5"), Fraction(1, 2), 1j, {1, 2}, {"a": 1}, [], [[]], [[1, 2], [3]], (1, 2), iter([1]), slice(1)),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.full((2, 5, 2), np.nan),
        np.full((2, 5, 2), 1e200),
        np.ones((2, 5, 2))[:, ::-1, ::-1],
        *(rf.Task(), TINY, TINY.config, rf.Fixed(1.0), rf.InputError, "full"),
    ]
)


def _unfitting(name: str) -> st.SearchStrategy[Any]:
    numbers = _small_numbers if name in _LONG else _numbers
    return (
        numbers
        | _texts
        | _arrays
        | _others
        | st.lists(numbers, max_size=3)
        | st.dictionaries(_texts, numbers, max_size=2)
    )


@cache
def _targets() -> dict[str, Callable[[Things], Callable[..., Any]]]:
    """Everything public that computes or checks, by name."""

    def plain(function: Callable[..., Any]) -> Callable[[Things], Callable[..., Any]]:
        return lambda _: function

    names = "Categorical Fixed LogUniform Uniform Context Options Task TrainConfig as_predictor compare context_weights"
    names += " evaluate implicit_weights layerwise load loss_and_gradient losses_and_gradient_on parse_noise predict"
    names += " profile shift_table token_predictions transform_tokens"
    targets = {name: plain(getattr(rf, name)) for name in names.split()}
    targets |= {
        name: plain(getattr(rf.baselines, name)) for name in ("Bayes", "ConstRR", "IterativeAdaRR", "TunedRR", "Oracle")
    }
    targets |= {
        "LinearTransformer": plain(rf.LinearTransformer),
        "LinearTransformer.init": plain(rf.LinearTransformer.init),
        "Context.from_tokens": plain(rf.Context.from_tokens),
        "TrainConfig.from_json": plain(rf.TrainConfig.from_json),
        "train": plain(rf.train),
    }
    for baseline in (
        rf.baselines.OLS(),
        rf.baselines.AdaRR(),
        rf.baselines.TunedRR(1.0),
        rf.baselines.Bayes("uniform:5"),
    ):
        targets[f"{baseline.name}.weights"] = plain(baseline.weights)
    methods = {"model": "astype embed first_layers unflatten replace weights", "context": "ridge"}
    methods["task"] = "draw_contexts draw_tokens draw_sigma"
    for owner, some in methods.items():
        for method in some.split():
            targets[f"{owner}.{method}"] = attrgetter(f"{owner}.{method}")
    return targets


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """A call with at most two arguments that do not fit."""
    own = things(draw(_FITTING["kind"]), draw(st.integers(1, 3)))
    name = draw(st.sampled_from(sorted(_targets())))
    function = _targets()[name](own)
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in _SKIPPED or (parameter.default is not parameter.empty and draw(st.booleans())):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= {one: draw(_FITTING[one]) for one in draw(st.sets(st.sampled_from(["backend", "saturation"])))}
        else:
            arguments[parameter.name] = draw(_fitting(name, parameter, own))
    for unfit in draw(st.lists(st.sampled_from(sorted(arguments)), max_size=2)) if arguments else []:
        arguments[unfit] = draw(_unfitting(unfit))
    for long in {"sequences", "sequences_per_level"} & set(inspect.signature(function).parameters):
        arguments.setdefault(long, 10)  # the default takes seconds
    return Call(name, function, arguments)


def _fitting(function: str, parameter: inspect.Parameter, own: Things) -> st.SearchStrategy[Any]:
    special: dict[str, Any] = {
        "vector": own.model.flatten(),
        "parameters": own.model.parameters,
        "contexts": own.draw,
        "gram": own.context.gram,
        "predictor": own.model,
        "predictors": {"model": own.model, "OLS": rf.baselines.OLS()},
        "config": rf.TrainConfig("diag", 1, dim=2, examples=4, recipe="paper", steps=1, batch=2, sequences=10),
        "out": None,
        "given": None,
        "callbacks": (),
        "on_message": print,
        "checkpoint_seconds": 1.0,
        **{name: getattr(own, name) for name in _OF_THINGS},
    }
    if parameter.name in special:
        return st.just(special[parameter.name])
    if function == "Categorical":
        return _FITTING["levels"].map(tuple)
    if parameter.name == "start" and function == "TrainConfig":
        return st.none()
    default = parameter.default
    return _FITTING.get(parameter.name, st.just(None if default is parameter.empty else default))


def _bits(value: Any) -> Any:
    """What two answers to the same call must agree in."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes() if value.dtype != object else None
    if isinstance(value, rf.LinearTransformer):
        return value.kind, _bits(value.flatten())
    if isinstance(value, rf.Context):
        return _bits(value.gram)
    if isinstance(value, tuple | list):
        return [_bits(item) for item in value]
    return repr(value) if isinstance(value, rf.Evaluation | rf.Comparison | rf.TrainConfig | float) else None


@pytest.mark.attack("random calls of the public API", small=300, full=21_000, parts=4)
def test_any_call_of_the_public_api_gives_an_answer_or_one_sentence(
    tally: Tally, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scratch)
    for kind, dtype in itertools.product(("diag", "full"), ("float32", "float64")):  # no call is to wait for a compiler
        own = things(kind, 2)
        rf.loss_and_gradient(own.model.astype(dtype), own.task, batch=1, seed=0, backend="fused")
        rf.evaluate(own.model.astype(dtype), own.task, 2)
        own.model.astype(dtype).weights(own.context)
        own.task.draw_contexts(1, seed=0, dtype=dtype, backend="fused")

    @seed(tally.random.randrange(2**63))
    @settings(
        max_examples=tally.wanted,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(calls())
    def attack(call: Call) -> None:
        with warnings.catch_warnings(), tally.case("calls", lambda: repr(call)):
            warnings.simplefilter("ignore")
            answer = call.function(**call.arguments)
            if call.name != "train" and _bits(answer) != _bits(call.function(**call.arguments)):
                tally.find("differing bits", repr(call))

    attack()
    assert tally.outcomes["went through"] > tally.wanted // 10
    left = [path.name for path in scratch.iterdir() if not RunDirectory(path).exists()]  # a text may name a folder
    if left:
        tally.find("leftovers", str(left))
