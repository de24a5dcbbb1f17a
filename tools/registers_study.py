"""What registers hold, what FULL models use instead, and how far one set of weights travels: docs/what-it-learned.md.

python tools/registers_study.py                   # measures all parts that docs/results/registers.json does not have
python tools/registers_study.py --again dropped   # measures a part again; `PARTS` lists them
python tools/registers_study.py --only held directions
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import ridgeformer as rf
from learned_page import claim, paragraph, table
from registers_fitting import NOISE, SIZES, bayes_pool, fitted, in_units, natural, prune, run_for, travel
from ridgeformer.analysis.registers import explain_registers
from ridgeformer.core.notation import Array
from ridgeformer.core.storage import plain, write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import RidgeformerError
from ridgeformer.evaluation.scoring import loss_chunks
from ridgeformer.theory.registers import register_models

_DOCS = Path(__file__).parents[1] / "docs"
_SHORT, _DEEP = "diag-4-registers-1-uniform-5", "diag-7-registers-2-uniform-5"
_STEPS = 200
_FEWEST = 14
_TRAVELS = 1500
_LARGEST = 10.0
_FIRST = "## What registers hold"
_SEQUENCES = 200_000
_TRACED = 5000
_PENALTIES = np.logspace(-2, 4, 61)
_BANDS = (0.0, 1.0, 2.0, 3.0, 4.0)
"""Lower ends of bands of σ, each 1 wide."""
_FULL = ("diag-7-uniform-5", *(f"full-{layers}-uniform-5" for layers in (4, 5, 6, 7)))
"""Models whose errors are split by directions of feature space."""
_ONE_REGISTER = ("diag-4-registers-1", "diag-7-registers-1")
_BLOCKS: dict[str, tuple[Any, ...] | None] = {
    "nothing": None,
    "P_xy": (..., slice(-1), -1),
    "P_yx": (..., -1, slice(-1)),
}
"""What is left out of FULL models that are fitted again."""
_UNSEEN = ((7, 14), (15, 30), (30, 60), (30, 120))
"""And where it is only measured."""


# --- what is measured -------------------------------------------------------------------------------------------------


def first_write(model: rf.LinearTransformer) -> int:
    """The first layer of a FULL model that writes targets into features: whose P_xy is not small against the largest.

    GD++ and DIAG models have no P_xy.
    """
    sizes = np.linalg.norm(model.parameters["P"][:, 0, :-1, -1], axis=-1)
    return int(np.argmax(sizes > 0.1 * sizes.max()))


def without(model: rf.LinearTransformer, left_out: tuple[Any, ...] | None) -> rf.LinearTransformer:
    """A FULL model fitted again without a part of P in all layers, and with everything else free."""
    P = model.parameters["P"].copy()
    if left_out is not None:
        P[left_out] = 0.0
    return fitted(run_for(model), model.replace({**model.parameters, "P": P}), 2 * _STEPS, None)[0]


def penalties(model: rf.LinearTransformer, task: Task, seed: int = 3) -> list[dict[str, Any]]:
    """√v of the ridge regression whose direction is closest to what ŵ and each register hold after each layer.

    Medians over the contexts of each band of noise; and the median cosine.
    """
    draw = task.draw_contexts(_TRACED, seed=seed)
    values, vectors, cross = draw.context.spectrum
    ridge = _unit(cross[:, None, :] / (values[:, None, :] + _PENALTIES[:, None]))
    bands = [(draw.sigma >= low) & (draw.sigma < low + 1) for low in _BANDS]
    found = []
    for layer, state in enumerate(register_models(model.astype(np.float64), draw.context)[1:], 1):
        for place in range(model.registers + 1):
            turned = _unit(np.einsum("bji,bj->bi", vectors, state.W[:, place]))
            cosines = np.abs(np.einsum("bgi,bi->bg", ridge, turned))
            root = np.sqrt(_PENALTIES[cosines.argmax(axis=1)])
            found.append(
                {
                    "layer": layer,
                    "register": place + 1 if place < model.registers else None,
                    "bands": [float(np.median(root[band])) for band in bands],
                    "cosine": float(np.median(cosines.max(axis=1))),
                }
            )
    return found


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(float).tiny))


# --- measurements -----------------------------------------------------------------------------------------------------


def held() -> dict[str, Any]:
    """What registers hold after each layer."""
    found = {}
    for name in (_SHORT, _DEEP):
        model, task = rf.load(name), Task(noise=NOISE)
        readouts = explain_registers(model, task, sequences=20_000).readouts
        found[name] = {"readouts": readouts, "penalties": penalties(model, task)}
    return found


def directions() -> dict[str, Any]:
    """The errors of FULL models by directions of feature space, and what they lose without P_xy."""
    kinds = (*(f"diag-{layers}" for layers in (4, 5, 6, 7)), "full-4", "full-7", *_ONE_REGISTER)
    found: dict[str, Any] = {"losses": {kind: _losses(kind) for kind in kinds}, "models": {}}
    for name in _FULL:
        _say(f"directions of {name}")
        found["models"][name] = _directions(rf.load(name), Task(noise=NOISE))
    return found


def dropped() -> dict[str, Any]:
    """The four-layer model with one register, with fewer and fewer numbers."""

    def measure(model: rf.LinearTransformer) -> dict[str, Any]:
        measured = rf.evaluate(model, Task(noise=NOISE), _SEQUENCES, 1)
        return {"loss": measured.adjusted_loss, "largest": measured.maximum}

    return {
        "steps": prune(rf.load(_SHORT), _FEWEST, _STEPS, measure),
        "trained": _losses(_SHORT.removesuffix("-uniform-5")),
    }


def sizes() -> dict[str, Any]:
    """One model for many d and n."""
    home = natural(rf.load(_DEEP))
    model, rows = travel(home, _TRAVELS), []
    for d, n in (*SIZES, *_UNSEEN):
        own, many = Task(d, n, noise=NOISE), min(_SEQUENCES, 4_000_000 // d**2)
        result, at_home = (rf.evaluate(in_units(one, d, n), own, many, 1) for one in (model, home))
        _, limit = bayes_pool(own, many, 1)
        losses = {"loss": result.adjusted_loss, "largest": result.maximum, "unmixed": at_home.adjusted_loss}
        rows.append({"d": d, "n": n, "limit": limit, **losses, "median": result.median})
        _say(f"d = {d}, n = {n}: {result.adjusted_loss:.4g}, limit {limit:.4g}")
    return {"rows": rows, **{name: array.tolist() for name, array in model.parameters.items()}}


PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "held": held,
    "directions": directions,
    "dropped": dropped,
    "sizes": sizes,
}


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _losses(prefix: str) -> float:
    return float(rf.load(f"{prefix}-uniform-5").info["evaluation"]["adjusted_loss"])


def capped_loss(model: rf.LinearTransformer, task: Task, seed: int = 4) -> float:
    """The mean loss, where losses above 10 count as 10: a model that was fitted in a hurry may explode now and then."""
    losses = np.concatenate([adjusted for adjusted, _ in loss_chunks(model, task, _SEQUENCES, seed)])
    return float(np.minimum(losses, _LARGEST).mean())


def _directions(model: rf.LinearTransformer, task: Task) -> dict[str, Any]:
    """The excess over the posterior mean by directions, the worst first; and whether targets are written into it."""
    contexts, _ = bayes_pool(task, _SEQUENCES, 3)
    error = model.weights(rf.Context(contexts.gram, 20)) - contexts.oracle
    values, vectors = np.linalg.eigh(error.T @ error / len(error))
    found: dict[str, Any] = {"excess": (0.5 * values[::-1]).tolist()}
    if model.kind == "full":
        layer = first_write(model)
        written = model.parameters["P"][layer, 0, :-1, -1].astype(np.float64)
        found |= {"layer": layer + 1, "share": float((written @ vectors[:, -1]) ** 2 / (written @ written))}
        for name, part in _BLOCKS.items():
            found[name] = capped_loss(without(model, part), task)
    return found


# --- text -------------------------------------------------------------------------------------------------------------


def recorded_section(record: Path) -> list[str]:
    """The last sections of the page, from the numbers of an earlier measurement; nothing if there was none."""
    return list(section(json.loads(record.read_text(encoding="utf-8")))) if record.exists() else []


def section(found: dict[str, Any]) -> Iterator[str]:
    """The last sections of the page, with the numbers of the parts that were measured."""
    for name, text in {"held": _held, "directions": _spent, "dropped": _shortest, "sizes": _travels}.items():
        if name in found:
            yield from (block if block[0] in "#|`" else paragraph(block) for block in text(found[name]))


def _held(found: dict[str, Any]) -> Iterator[str]:
    yield _FIRST
    yield (
        "A register m of a token is A_m y − <w_m, x>: each layer keeps r weight vectors w_m beside its answer ŵ "
        "([theory](theory.md)). The tables show medians over contexts: the share A_m of y, the length of w_m relative "
        "to ŵ, and its cosines with ŵ, with what the layer added to ŵ, with α (the first gradient) and with ridge "
        "regression that is told σ. The last column is the share of the next change of ŵ that lies in the span of ŵ "
        "and all w_m."
    )
    for name, read in found.items():
        yield f"`{name}`:"
        head = ("layer", "register", "A", "length", "ŵ", "change", "α", "oracle", "next change")
        rows = []
        for each in read["readouts"]:
            numbers = [each[key] for key in ("target", "size", "own", "change", "gradient", "oracle", "span")]
            rows.append(
                (str(each["layer"]), str(each["register"]), *("" if v is None else f"{v:.2f}" for v in numbers))
            )
        yield table(head, rows)
    yield from _second_answer(found[_SHORT]["penalties"])


def _spent(found: dict[str, Any]) -> Iterator[str]:
    yield "## Does FULL use features as registers?"
    losses, models = found["losses"], found["models"]
    yield (
        "A FULL model has no registers, but it may spend directions of feature space as such. Then its answers should "
        "be worse there. The table splits the excess over the Bayes limit by directions, the worst first, in units of "
        "0.001."
    )
    heads = ("model", *map(str, range(1, 11)))
    yield table(heads, [(f"`{name}`", *(f"{1000 * v:.2f}" for v in e["excess"])) for name, e in models.items()])
    full = {name: each for name, each in models.items() if "layer" in each}
    equal = [each["excess"] for name, each in models.items() if name not in full]
    yield claim(
        "For DIAG all directions are the same. Each FULL model has one in which it is far worse than in most others.",
        all(max(values) < 1.2 * min(values) for values in equal)
        and all(each["excess"][0] > 1.8 * float(np.median(each["excess"])) for each in full.values()),
    )
    yield (
        "The block P_xy of a layer writes targets into features. It is zero in DIAG models, and next to zero in the "
        "first layers of FULL ones. For the first layer where it is not, the next table has the share of P_xy that "
        "lies along the worst direction. Beside it are losses: of the model fitted again as it is (a short natural "
        "gradient), fitted again without P_xy in all layers, and without P_yx, which is as large; and of DIAG. Losses "
        "above 10 count as 10 here."
    )
    rows = []
    for name, each in full.items():
        fitted = (f"{each[block]:.4f}" for block in _BLOCKS)
        rows.append(
            (f"`{name}`", str(each["layer"]), f"{each['share']:.1%}", *fitted, f"{_diagonal(name, losses):.4f}")
        )
    yield table(("model", "layer", "share", "fitted again", "without P_xy", "without P_yx", "DIAG"), rows)
    one = {depth: losses[f"diag-{depth}-registers-1"] for depth in (4, 7)}
    yield claim(
        "So targets are written into the direction that is given up: **FULL models make themselves a register out of a "
        "feature**. When they may not, most of their advantage over DIAG is gone, or all of it. A true register is "
        f"better: DIAG with one has {one[4]:.4f} with 4 layers and {one[7]:.4f} with 7, where FULL has "
        f"{losses['full-4']:.4f} and {losses['full-7']:.4f}.",
        all(each["share"] > 0.95 and each["P_yx"] < each["P_xy"] for each in full.values())
        and all(_advantage_left(name, each, losses) < 0.5 for name, each in full.items())
        and all(one[depth] < losses[f"full-{depth}"] < losses[f"diag-{depth}"] for depth in (4, 7)),
    )


def _shortest(found: dict[str, Any]) -> Iterator[str]:
    yield "## The shortest four layers with one register"
    steps, own = found["steps"], found["trained"]
    short = min((each for each in steps if each["loss"] <= 1.05 * own), key=lambda each: each["left"])
    yield (
        "Its parameters were dropped one at a time, the least missed first, and the others fitted again each time. "
        "Each layer has one number, and the register one, that only sets a scale: 5 of what is left is not free."
    )
    yield table(
        ("left", "loss", "of trained", "largest"),
        [
            (
                str(e["left"]),
                *(f"{v:.4f}" if v < _LARGEST else "explodes" for v in (e["loss"], e["loss"] / own)),
                f"{e['largest']:.3g}",
            )
            for e in steps
        ],
    )
    yield (
        f"With {short['left']} numbers, {short['left'] - 5} of them free, the loss is {short['loss']:.4f}. The next "
        "table says what is left of each layer, with m for the register: what the layer reads from a token, and which "
        "sums over the context it adds to which part of a token."
    )
    yield table(("layer", "reads", "adds"), [(str(layer), *names) for layer, names in enumerate(_left(short), 1)])
    yield "As code:"
    yield "```python\n" + "\n".join(_code(short)) + "\n```"


def _left(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The names of the numbers that are not zero, of Q and of P, for each layer of a model with one register."""
    parts = ("m", "y")
    reads = ("x", *(f"{to} from {of}" if to != of else to for to in parts for of in parts))
    adds = ("x to x", *(f"{of} to {to}" for to in parts for of in parts))
    for p, q in zip(found["p"], found["q"], strict=True):
        yield tuple(
            ", ".join(name for name, value in zip(names, numbers[0], strict=True) if value)
            for names, numbers in ((reads, q), (adds, p))
        )


def _travels(found: dict[str, Any]) -> Iterator[str]:
    yield "## Does one set of weights travel?"
    yield (
        "DIAG models with registers have the same parameters for every d. In natural units, x/(√n + √d) and y/√(nd), a "
        "single model with 7 layers and 2 registers was trained on all sizes of the first rows together, with σ ~ "
        "uniform:5 and the loss of each size relative to its Bayes limit. The last rows are sizes that it was not "
        "trained on. Beside it stands the model trained at d = 10, n = 20 only, in the same units."
    )
    rows = []
    for each in found["rows"]:
        texts = (_ratio_text(each, key) for key in ("loss", "median", "unmixed"))
        largest = "∞" if each["largest"] is None else f"{each['largest']:.3g}"
        rows.append((f"{each['d']}", f"{each['n']}", f"{each['limit']:.4f}", *texts, largest))
    yield table(("d", "n", "Bayes limit", "one model", "its median", "10, 20 only", "largest"), rows)
    calm = [each for each in found["rows"] if _calm(each["loss"])]
    wild = [f"d = {each['d']}, n = {each['n']}" for each in found["rows"] if each not in calm]
    low = [each["loss"] / each["limit"] for each in calm]
    at_home = min(each["unmixed"] / each["limit"] for each in found["rows"] if _calm(each["unmixed"]))
    yield (
        "The columns are ratios to the Bayes limit; the median is that of the model's losses. "
        f"**One set of weights travels, at a price**: its loss is {min(low):.2f} to {max(low):.2f} times the Bayes "
        f"limit, where a model for one size reaches {at_home:.2f}."
        + (f" It explodes on some contexts of {' and '.join(wild)}." if wild else "")
    )


def _calm(loss: float | None) -> bool:
    """Whether a mean does not come from a few contexts that explode; null is a mean that is not finite."""
    return loss is not None and loss < _LARGEST


def _ratio_text(found: dict[str, Any], key: str) -> str:
    return f"{found[key] / found['limit']:.2f}" if _calm(found[key]) else "explodes"


def _second_answer(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What the one register of the four-layer model holds, in terms of ridge regression."""
    yield (
        "With one register there is a simple answer. For ŵ and for the register's weights, take the ridge regression "
        f"whose direction is the closest. The table shows medians of the root √v of its penalty in `{_SHORT}`, in five "
        "bands of noise; values from 0.1 to 100 were tried, and the right one would be σ. The last column is the "
        "median cosine."
    )
    rows = []
    for each in found:
        who = "ŵ" if each["register"] is None else "register"
        rows.append((str(each["layer"]), who, *(f"{v:.2f}" for v in each["bands"]), f"{each['cosine']:.3f}"))
    yield table(("layer", "of", *(f"σ in {low:.0f}–{low + 1:.0f}" for low in _BANDS), "cosine"), rows)
    *_, before, own_before, _, own = found
    spread = [each["bands"][-1] / each["bands"][0] for each in (own_before, own)]
    yield claim(
        "Before the last layer ŵ depends little on the noise: √v goes from "
        f"{own_before['bands'][0]:.2f} to {own_before['bands'][-1]:.2f}. The register holds a regression with a far "
        f"smaller penalty, √v ≤ {max(before['bands']):.2f}, about least squares. The last layer mixes the two, and √v "
        f"of the answer goes from {own['bands'][0]:.2f} to {own['bands'][-1]:.2f}. **So the register is a second "
        "answer, for another noise level.**",
        spread[1] > 2 * spread[0]
        and 2 * max(before["bands"]) < min(own_before["bands"])
        and all(each["cosine"] > 0.95 for each in (before, own_before, own)),
    )


def _diagonal(name: str, losses: dict[str, float]) -> float:
    """The loss of the DIAG model as deep as a FULL one."""
    return losses[f"diag-{name.split('-')[1]}"]


def _advantage_left(name: str, found: dict[str, Any], losses: dict[str, float]) -> float:
    """The share of FULL's advantage over DIAG that is left without P_xy; negative if it is worse than DIAG."""
    diagonal = _diagonal(name, losses)
    return float((diagonal - found["P_xy"]) / (diagonal - found["nothing"]))


def _code(found: dict[str, Any]) -> Sequence[str]:
    """The algorithm as a function, with the parameters of `prune`."""
    lines = ["import numpy as np", "", "LAYERS = ("]
    for p, q in zip(found["p"], found["q"], strict=True):
        numbers = [f"{value:.5g}" for value in (*p[0], *q[0])]
        px, P, qx, Q = numbers[0], numbers[1:5], numbers[5], numbers[6:]
        lines.append(f"    ({px}, {qx}, [[{P[0]}, {P[1]}], [{P[2]}, {P[3]}]], [[{Q[0]}, {Q[1]}], [{Q[2]}, {Q[3]}]]),")
    return (
        *lines,
        ")",
        "",
        "",
        "def fit(X, y):",
        '    """Weights w (d,) for features X (n, d) and targets y (n,), d = 10, n = 20."""',
        "    n, d = np.shape(X)",
        "    x = np.vstack([X, np.eye(d)])  # the unit vectors are queries",
        "    s = np.zeros((n + d, 2))  # register and target",
        "    s[:n, 1] = y",
        "    for p, q, P, Q in LAYERS:",
        "        seen, moved = x[:n], s @ np.transpose(Q)",
        "        from_s = moved @ (s[:n].T @ seen) + q * x @ (seen.T @ seen)",
        "        to_s = moved @ (s[:n].T @ s[:n]) + q * x @ (seen.T @ s[:n])",
        "        x, s = x + p * from_s, s + to_s @ np.transpose(P)",
        "    return -s[n:, 1]",
    )


def main(only: tuple[str, ...] = (), again: tuple[str, ...] = (), page: Path = _DOCS / "what-it-learned.md") -> int:
    """Measure what is missing, and write the sections.

    Args:
        only: Parts to measure; by default all.
        again: Parts to measure again.
        page: The page to write into.
    """
    record = _DOCS / "results" / "registers.json"
    try:
        known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        for name, part in PARTS.items():
            if name in again or (name not in known and name in (only or PARTS)):
                _say(f"measuring: {name}")
                known[name] = plain(part())
                write_whole(record, (json.dumps(known) + "\n").encode())
        before, _, _ = page.read_text(encoding="utf-8").partition(_FIRST)
        write_whole(page, (before + "\n\n".join(recorded_section(record)) + "\n").encode())
    except (RidgeformerError, OSError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
