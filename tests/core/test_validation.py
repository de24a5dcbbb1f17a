"""The checks of what users pass in, alone and through the public functions: canonical values out, or one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.validation import (
    InputError,
    RidgeformerError,
    finite_array,
    float_dtype,
    former_names,
    instance,
    nonnegative,
    one_of,
    shortened,
    whole_number,
)
from support import KINDS, refusal, refused

# --- the checks alone -------------------------------------------------------------------------------------------------

CHOICES = ("gdpp", "diag", "full")


@pytest.mark.parametrize("value", [1, 5, 10, np.int64(3), np.uint8(7)])
def test_whole_number_within_bounds_is_returned_as_an_int(value: Any) -> None:
    assert whole_number("count", value, 1, 10) == value
    assert type(whole_number("count", value, 1, 10)) is int
    assert whole_number("count", 10**100, 1) == 10**100


@pytest.mark.parametrize("value", [0, 2.5, np.float32(1.5), Fraction(1, 2)])
def test_nonnegative_number_is_returned_as_a_float(value: Any) -> None:
    assert type(nonnegative("scale", value)) is float
    assert nonnegative("scale", value) == value


def test_one_of_the_choices_is_returned() -> None:
    assert one_of("kind", "diag", CHOICES) == "diag"


@pytest.mark.parametrize("dtype", [np.float32, "float32", "f4", np.dtype(np.float32)])
def test_float_dtype_accepts_every_spelling(dtype: Any) -> None:
    assert float_dtype(dtype) == np.float32
    assert float_dtype(float) == np.float64


def test_finite_array_keeps_the_two_precisions_and_widens_everything_else() -> None:
    ones = np.ones(2)
    kept = [ones.astype(dtype) for dtype in (np.float32, np.float64)]
    widened = [ones.astype(dtype) for dtype in (np.float16, np.longdouble, ">f8", np.uint8)]
    for given in (*kept, *widened, [1, 2], [True, False]):
        array = finite_array("y", given, ("n",))
        assert array.dtype == (np.float32 if given is kept[0] else np.float64)
        assert array.dtype.isnative


# What is passed, and what the sentence says.
REFUSED: dict[Callable[[Any], Any], tuple[str, list[Any]]] = {
    lambda value: whole_number("count", value, 1, 10): ("count must be between 1 and 10", [0, 11, -1, 10**100]),
    lambda value: whole_number("count", value, 1): (
        "count must be a whole number",
        [1.0, np.float64(2), True, np.True_, "3", None, [1], Fraction(2), 1 + 0j],
    ),
    lambda value: nonnegative("scale", value): ("scale must be", [-1.0, np.nan, np.inf, True, "1", None, [1.0], 1j]),
    lambda value: one_of("kind", value, CHOICES): (
        "kind must be one of gdpp, diag, full",
        ["softmax", "", None, 5, ["diag"], {"diag"}, b"diag"],
    ),
    lambda value: one_of("kind", value, CHOICES): ("Did you mean 'diag'", ["dag", "diags"]),
    lambda value: one_of("kind", value, CHOICES): ("Did you mean 'full'", ["ful", "fulll"]),
    lambda value: instance("task", value, rf.Task): ("task must be a Task, not", [None, 5, "uniform:5", rf.Task]),
    float_dtype: (
        "float32 or float64",
        ["floaty", np.int32, np.float16, np.longdouble, "f4,f8", "f4,,", object, object(), str, [1], 5, None],
    ),
    lambda value: finite_array("X", value, ("batch", "n", "m", "dim")): (
        r"\(batch, n, m, dim\)",
        [5.0, [[1.0]], np.ones((2, 2, 2)), []],
    ),
    lambda value: finite_array("y", [1.0, value], ("n",)): ("NaN or infinite", [np.nan, np.inf, -np.inf]),
    lambda value: finite_array("y", value, ("n",)): (
        "y ",
        ["text", ["a", "b"], [1, [2, 3]], None, [None, 1.0], [1j], [object()], b"ab", {1: 2}],
    ),
    lambda value: finite_array("y", np.ma.masked_array([1.0, 2.0], value), ("n",)): (
        "y is a masked array",
        [[False, True], [True, True], False],
    ),
}


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_check_of_something_else_is_refused_in_one_sentence(number: int) -> None:
    check, (match, values) = list(REFUSED.items())[number]
    for value in values:
        refused(match, check, value)


def test_shortened_value_is_whole_if_short_and_cut_if_long() -> None:
    assert shortened("abc") == "'abc'"
    assert len(shortened("a" * 10**6)) == 101


def test_input_errors_are_errors_of_the_package() -> None:
    """The command line catches RidgeformerError alone and turns it into exit code 2."""
    assert issubclass(InputError, RidgeformerError)


# --- former names -----------------------------------------------------------------------------------------------------


def test_former_names_still_work_and_only_one_of_two_names_may_be_given() -> None:
    @former_names(old="new")
    @dataclass(frozen=True)
    class Renamed:
        new: int = 1

    maker: Any = Renamed
    assert (maker(old=5), maker(new=5), maker(5), maker()) == (Renamed(5), Renamed(5), Renamed(5), Renamed(1))
    refused("old is the former name of new; pass only one", maker, old=5, new=5)
    refused("old is the former name of new", maker, old=5, new=1)


def test_former_names_of_the_package_still_work() -> None:
    task: Any = rf.Task
    assert task(3, context=8) == rf.Task(3, examples=8)
    assert task(3, context=8).context == 8
    refused("context is the former name of examples", task, 3, context=8, examples=8)
    config: Any = rf.TrainConfig
    assert config(model="gdpp", context=7, layers=2) == rf.TrainConfig(kind="gdpp", examples=7, layers=2)
    refused("model is the former name of kind", config, model="gdpp", kind="diag")


# --- the public functions: tokens -------------------------------------------------------------------------------------

X, Y, QUERIES = np.ones((2, 4, 3)), np.ones((2, 4)), np.ones((2, 5, 3))
BACKENDS = ("auto", "reference", "fused")


def model(kind: str = "diag", dim: int = 3) -> rf.LinearTransformer:
    return rf.LinearTransformer.init(kind, layers=2, dim=dim)


RAGGED: Any = [[[1.0, 2.0, 3.0]], [[1.0, 2.0]]]


def bad_arrays(good: Array) -> dict[str, Any]:
    """What may not take the place of this one."""
    return {
        "of one axis less": good[0],
        "of one axis more": good[None],
        "of another batch": good[:1],
        "a number": 1.0,
        "a string": "X",
        "nothing": None,
        "ragged": RAGGED,
        "of strings": np.full(good.shape, "1"),
        "of objects": np.full(good.shape, None),
        "complex": good + 0j,
        "masked": np.ma.masked_array(good, good > 5),
        "NaN": np.full_like(good, np.nan),
        "infinite": np.full_like(good, -np.inf),
    }


BAD_TOKENS: dict[str, tuple[Any, Any]] = {
    **{f"X {name}": (bad, Y) for name, bad in bad_arrays(X).items()},
    **{f"y {name}": (X, bad) for name, bad in bad_arrays(Y).items()},
    "y of another n": (X, Y[:, :3]),
    "no examples": (X[:, :0], Y[:, :0]),
    "no features": (X[..., :0], Y),
}
BAD_QUERIES = {**bad_arrays(QUERIES), "of another dim": QUERIES[..., :2]}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_bad_tokens_are_refused_by_everything_that_takes_tokens(name: str) -> None:
    tokens = BAD_TOKENS[name]
    culprit = "X|y|context"  # the message names an argument, or says what a context needs
    refused(culprit, rf.Context.from_tokens, *tokens)
    refused(culprit, rf.transform_tokens, model(), *tokens, QUERIES)
    refused(culprit, rf.token_predictions, model(), *tokens, QUERIES)
    for backend in BACKENDS:
        refused(culprit, rf.implicit_weights, model(), *tokens, backend=backend)
        refused(culprit, rf.predict, model(), *tokens, QUERIES, backend=backend)


@pytest.mark.parametrize("name", BAD_QUERIES)
def test_bad_queries_are_refused_by_everything_that_takes_queries(name: str) -> None:
    queries = BAD_QUERIES[name]
    refused("queries", rf.transform_tokens, model(), X, Y, queries)
    refused("queries", rf.token_predictions, model(), X, Y, queries)
    for backend in BACKENDS:
        refused("queries", rf.predict, model(), X, Y, queries, backend=backend)


def calls(model: rf.LinearTransformer) -> list[Callable[..., Any]]:
    """Everything that takes a model and a back end, on contexts of three features."""
    task, context = rf.Task(3, 8), rf.Context.from_tokens(X, Y)
    return [
        partial(rf.implicit_weights, model, X, Y),
        partial(rf.predict, model, X, Y, QUERIES),
        partial(rf.context_weights, model, context),
        partial(rf.loss_and_gradient, model, task, batch=2, seed=0),
        partial(rf.losses_and_gradient_on, model, task.draw_contexts(2, seed=0)),
    ]


draw_two: Callable[..., Any] = partial(rf.Task(3, 8).draw_contexts, 2, seed=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 4])
def test_model_of_another_dim_than_the_contexts_is_refused(kind: str, dim: int) -> None:
    """Without the check the kernels would read past the end of an array."""
    other = model(kind, dim)
    refused("features", rf.transform_tokens, other, X, Y, QUERIES)
    refused("features", rf.token_predictions, other, X, Y, QUERIES)
    for call in calls(other):
        for backend in BACKENDS:
            refused("features", call, backend=backend)


@pytest.mark.parametrize("layers", [0, -1, 3, 1.5, "1", True])
def test_readout_after_an_impossible_number_of_layers_is_refused(layers: Any) -> None:
    refused("layers must be", model().first_layers, layers)
    for call in calls(model())[:3]:
        for backend in BACKENDS:
            refused("layers must be", call, layers=layers, backend=backend)


# --- choices, counts, threads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backend", "hint"), [("fuse", "Did you mean 'fused'"), ("cuda", ""), (None, ""), (1, "")])
def test_unknown_back_end_is_refused_with_the_nearest_name(backend: Any, hint: str) -> None:
    for call in [*calls(model()), draw_two]:
        refused(f"backend must be one of auto, reference, fused.*{hint}", call, backend=backend)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"objective": "exakt"}, "objective must be one of exact, sampled.*Did you mean 'exact'"),
        ({"objective": "mse"}, "objective must be"),
        ({"objective": None}, "objective must be"),
        ({"objectiv": "exact"}, "Did you mean 'objective'"),
        *(({"saturation": bad}, "saturation") for bad in (-1.0, np.nan, np.inf, "1", None, [1.0, 2.0], 1j)),
        *(
            ({"importance": bad}, "importance")
            for bad in (np.ones((2, 1)), 1.0, [1, np.nan], ["1"] * 2, np.ones(2) * 1j)
        ),
    ],
)
def test_bad_options_of_the_objective_are_refused(options: dict[str, Any], match: str) -> None:
    for call in calls(model())[3:]:
        for backend in BACKENDS:
            refused(match, call, backend=backend, **options)


@pytest.mark.parametrize(("kind", "hint"), [("diagonal", "diag"), ("ful", "full"), ("GDPP", ""), ("", ""), (None, "")])
def test_unknown_kind_is_refused_with_the_nearest_name(kind: Any, hint: str) -> None:
    match = "kind must be one of gdpp, diag, full.*" + (f"Did you mean '{hint}'" if hint else "")
    refused(match, rf.LinearTransformer.init, kind, layers=1)
    refused(match, rf.LinearTransformer, kind, 3, model().parameters)
    refused(match, model().embed, kind)


@pytest.mark.parametrize("count", [0, -1, 10**30, 1.5, "2", None, True])
def test_bad_counts_are_refused(count: Any) -> None:
    task, init = rf.Task(3, 8), rf.LinearTransformer.init
    refused("dim must be", rf.Task, count, 8)
    refused("examples must be", rf.Task, 3, count)
    refused("layers must be", init, "diag", layers=count)
    refused("heads must be", init, "diag", layers=1, heads=count)
    refused("dim must be", init, "diag", layers=1, dim=count)
    refused("dim must be", rf.LinearTransformer, "diag", count, model().parameters)
    refused("batch must be", task.draw_sigma, count, seed=0)
    refused("batch must be", task.draw_tokens, count, seed=0)
    for backend in BACKENDS:
        refused("batch must be", task.draw_contexts, count, seed=0, backend=backend)
        refused("batch must be", rf.loss_and_gradient, model(), task, batch=count, seed=0, backend=backend)


@pytest.mark.parametrize("step", [-1, 2**63, 1.5, "0", None, True])
def test_bad_steps_are_refused(step: Any) -> None:
    task = rf.Task(3, 8)
    refused("step must be", task.draw_sigma, 2, seed=0, step=step)
    refused("step must be", task.draw_tokens, 2, seed=0, step=step)
    for backend in BACKENDS:
        refused("step must be", draw_two, step=step, backend=backend)
        refused("step must be", rf.loss_and_gradient, model(), task, batch=2, seed=0, step=step, backend=backend)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_bad_number_of_threads_is_refused(threads: Any) -> None:
    for call in [*calls(model()), draw_two]:
        refused("threads", call, backend="fused", threads=threads)


@pytest.mark.parametrize("setting", ["0", "-1", "1.5", "two", "", " ", "²", "1e3"])
def test_bad_thread_setting_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv("RIDGEFORMER_THREADS", setting)
    for call in [*calls(model()), draw_two]:
        refused("RIDGEFORMER_THREADS", call, backend="fused")


@pytest.mark.parametrize("dtype", ["foo", np.int64, np.float16])
def test_bad_precision_is_refused(dtype: Any) -> None:
    refused("float32 or float64", model().astype, dtype)
    refused("float32 or float64", rf.LinearTransformer.init, "diag", layers=1, dtype=dtype)
    refused("float32 or float64", rf.Task().draw_tokens, 2, seed=0, dtype=dtype)
    refused("float32 or float64", draw_two, dtype=dtype)


# --- things of the wrong type altogether ------------------------------------------------------------------------------

TASK = rf.Task(3, 8)
WRONG_TYPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "evaluate on a number": ("task must be a Task, not 5", lambda m: rf.evaluate(m, 5)),  # type: ignore[arg-type]
    "evaluate on a bad prior": ("Cannot read the noise prior", lambda m: rf.evaluate(m, "unifrom:5")),
    "evaluate of a number": ("A predictor is", lambda m: rf.evaluate(5, TASK)),
    "evaluate of a class": (r"not the class AdaRR: write AdaRR\(", lambda m: rf.evaluate(rf.baselines.AdaRR, TASK)),
    "compare of a list": ("a mapping from names", lambda m: rf.compare([m], TASK)),  # type: ignore[arg-type]
    "compare on None": ("task must be a Task", lambda m: rf.compare({"m": m}, None)),  # type: ignore[arg-type]
    "profile on a number": ("task must be a Task", lambda m: rf.profile({"m": m}, 5)),  # type: ignore[arg-type]
    "shift_table on a number": ("task must be a Task", lambda m: rf.shift_table({"m": m}, 5)),  # type: ignore[arg-type]
    "evaluate of a config": ("A predictor is", lambda m: rf.evaluate(rf.TrainConfig(), TASK)),
    "compare paired by an array": ("paired must be a bool", lambda m: rf.compare({"m": m}, TASK, paired=X)),  # type: ignore[arg-type]
    "train resumed by an array": ("resume must be a bool", lambda m: rf.train(rf.TrainConfig(), resume=X)),  # type: ignore[arg-type]
    "layerwise of a baseline": ("layerwise needs a model", lambda m: rf.layerwise(rf.baselines.OLS(), TASK)),
    "a name for a model": (r"rf.load\('diag'\)", lambda m: rf.implicit_weights("diag", X, Y)),  # type: ignore[arg-type]
    "predict with no model": ("model must be a LinearTransformer", lambda m: rf.predict(None, X, Y, QUERIES)),  # type: ignore[arg-type]
    "tokens of no model": ("model must be", lambda m: rf.transform_tokens(rf.Task(), X, Y, QUERIES)),  # type: ignore[arg-type]
    "weights of arrays": ("context must be a Context", lambda m: rf.context_weights(m, X)),  # type: ignore[arg-type]
    "loss on a prior": ("task must be a Task", lambda m: rf.loss_and_gradient(m, "uniform:5", batch=2, seed=0)),  # type: ignore[arg-type]
    "loss on arrays": ("contexts must be a GramDraw", lambda m: rf.losses_and_gradient_on(m, X)),  # type: ignore[arg-type]
    "a model's weights for arrays": ("context must be a Context", lambda m: m.weights(X)),
    "a baseline's weights for arrays": ("context must be a Context", lambda m: rf.baselines.AdaRR().weights(X)),  # type: ignore[arg-type]
    "other parameters as a list": ("must be a mapping", lambda m: m.replace([1, 2])),
    "profile at a number": ("levels must be a list, not 5", lambda m: rf.profile({"m": m}, TASK, 5)),  # type: ignore[arg-type]
    "shift_table of a text": ("scenarios must be a list", lambda m: rf.shift_table({"m": m}, TASK, "scale:2")),
    "a purpose that is a list": ("purpose must be a Purpose", lambda m: TASK.draw_sigma(2, seed=0, purpose=[])),  # type: ignore[arg-type]
    "a cap of several numbers": ("The cap", lambda m: rf.baselines.TunedRR(1.0, np.ones(3))),  # type: ignore[arg-type]
    "a task of a number": ("A noise prior is", lambda m: rf.Task(noise=3)),  # type: ignore[arg-type]
    "a task of a prior's class": ("A noise prior is", lambda m: rf.Task(noise=rf.Uniform)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_argument_of_another_type_is_refused_in_one_sentence(name: str) -> None:
    match, call = WRONG_TYPES[name]
    refused(match, call, model())


# --- contexts given as arrays -----------------------------------------------------------------------------------------

GOOD = GramDraw(np.ones((4, 4, 4)), np.ones((4, 3)), np.ones((4, 3)), np.ones((4, 3)))
BAD_DRAWS: dict[str, GramDraw] = {
    "no contexts": GOOD.rows(slice(0)),
    "weights of another batch": GOOD._replace(weights=np.ones((2, 3))),
    "query of another batch": GOOD._replace(query=np.ones((5, 3))),
    "oracle of another dim": GOOD._replace(oracle=np.ones((4, 2))),
    "weights of one axis": GOOD._replace(weights=np.ones(4)),
    "gram of two axes": GOOD._replace(gram=np.ones((4, 4))),
    "gram not square": GOOD._replace(gram=np.ones((4, 3, 4))),
    "gram of strings": GOOD._replace(gram=np.full((4, 4, 4), "a")),
    "weights missing": GOOD._replace(weights=None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD_DRAWS)
@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_bad_contexts_are_refused_before_a_kernel_reads_them(name: str, backend: str, kind: str) -> None:
    refused(
        "context|gram|weights|query|oracle", rf.losses_and_gradient_on, model(kind), BAD_DRAWS[name], backend=backend
    )


def test_good_contexts_are_accepted() -> None:
    """The control of the test above."""
    losses, _ = rf.losses_and_gradient_on(model(), GOOD, backend="fused")
    assert losses.shape == (4,)


def test_messages_are_printable_and_short_whatever_a_file_put_into_them() -> None:
    message = str(rf.InputError("red \x1b[31m, bell \a, right to left \u202e: " + "x" * 100_000))
    assert message.startswith("red �[31m, bell �, right to left �: xxx")
    assert message.isprintable()
    assert len(message) < 2100


def test_work_beyond_the_memory_of_the_machine_is_refused_before_it_begins() -> None:
    """A model of 4096 features and 300 layers has 2400 numbers, and would need hundreds of gigabytes to run."""
    with refusal("would take .* GiB of memory; this machine has"):
        rf.Task(4096, 5000).draw_contexts(32_768, seed=0)
    with refusal("would take .* GiB"):
        rf.Task(10, 2**31 - 1).draw_tokens(1000, seed=0)
    model = rf.LinearTransformer.init("diag", layers=300, dim=4095, dtype=np.float64)
    with refusal("would take .* GiB"):
        rf.loss_and_gradient(model, rf.Task(4095, 5000), batch=8, seed=0)
