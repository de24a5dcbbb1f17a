"""Recipes: which stages a run consists of. docs/training.md shows by measurements what each ingredient gains."""

from __future__ import annotations

import math
from dataclasses import replace

from ridgeformer.core.distributions import NoisePrior, mean_variance
from ridgeformer.core.kinds import KINDS, Diag
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.natural_stage import Calm, NaturalStage
from ridgeformer.training.pools import Mining, PoolStage
from ridgeformer.training.spectral import SpectralStage
from ridgeformer.training.stages import Stage


def stages_of(config: TrainConfig) -> tuple[Stage, ...]:
    """The stages of a run, with the steps, batch and rate of the config if it has them."""
    if config.recipe == "paper":
        return _paper(config)
    if config.kind == "gdpp" or config.noise_free:
        # Without noise there is nothing to adapt to: no kind was found to be better than the GD++ solution.
        return (SpectralStage(name="spectral", origin="init"),)
    if config.layers > SHALLOW:
        return _natural(config) if _size(config) <= MOST_PARAMETERS else _adam(config)
    if isinstance(KINDS[config.kind], Diag):
        return _shallow(config)
    return _shallow_full(config) if starts_from_diagonal(config.layers, config.task.prior) else _adam(config)


def starts_from_diagonal(layers: int, prior: NoisePrior) -> bool:
    """Whether a FULL model should start from a DIAG model: below `SHALLOW` layers; with little noise also at it."""
    return layers < SHALLOW or (layers == SHALLOW and mean_variance(prior) < _LITTLE_NOISE)


SHALLOW = 3
"""Up to this many layers tails are heavy even at the minimum: the second-order steps of longer stages lead astray."""
MOST_PARAMETERS = 2500
"""Of models that are trained by natural gradient: the time of a step grows with their square and cube."""


def _size(config: TrainConfig) -> int:
    """The number of parameters."""
    shapes = KINDS[config.kind].shapes_with(config.layers, config.heads, config.dim, config.registers)
    return sum(math.prod(shape) for shape in shapes.values())


def _paper(config: TrainConfig) -> tuple[Stage, ...]:
    """As in section 3 of the paper: Adam with step size 1e-4, 200 000 steps of 2048 sequences with one query each."""
    steps, rate, batch = config.steps or 200_000, config.rate or 1e-4, config.batch or 2048
    origin = "init" if config.start is None else "given"
    # With 0.1, diagonal models of seven layers diverge from every seed that was tried.
    scale = _full_scale(config.layers) if config.kind == "full" else 0.02
    stage = AdamStage(name="as printed", steps=steps, rate=rate, batch=batch, origin=origin, init_scale=scale)
    return (replace(stage, objective="sampled", saturation=0.0, warmup=1, final=1.0),)


def _full_scale(layers: int) -> float:
    """Initial standard deviation: shallow models learn faster from larger weights, deep models would explode."""
    return 0.02 if layers <= 4 else 0.002


# --- four layers and more -------------------------------------------------------------------------------------------


def _natural(config: TrainConfig) -> tuple[Stage, ...]:
    """Several short starts, because some end in a poor minimum; then natural gradient, at length, from the best.

    From a given model no start is needed, and half of the steps are enough.
    """
    diagonal = isinstance(KINDS[config.kind], Diag)
    steps, rate, batch = config.steps or (1500 if diagonal else 1000), config.rate or 0.2, config.batch or 4096
    main = NaturalStage(name="natural gradient", steps=steps, rate=rate, batch=batch, tolerance=_CALM)
    main = replace(main, calm=Calm(weight=0.01 if diagonal else 0.02))
    if not diagonal:
        main = replace(main, rate=0.75 * rate, sample=2 * batch, every=20)
    if config.start is not None:
        return (replace(main, origin="given", steps=max(1, steps // 2)),)
    return (*_starts(config, main, diagonal), replace(main, origin="best"))


def _starts(config: TrainConfig, main: NaturalStage, diagonal: bool) -> list[Stage]:
    """Adam from random weights, and a short natural gradient: then it is clear which minimum will be the best.

    FULL models of four layers have the most minima. They need a long stage of Adam to leave the poor ones.
    """
    many = not diagonal and config.layers == 4
    count, steps, rate, batch, scale = (12, 1000, 1e-2, 512, 0.1)
    if not diagonal:
        count, steps, rate, batch = (6, 3000, 1e-3, 1024) if many else (2, 2000, 3e-3, 1024)
        scale = _full_scale(config.layers)
    start = AdamStage(name="start", steps=steps, rate=rate, batch=batch, init_scale=scale, final=0.05)
    calm = Calm(rise=(0.0, 1.0), reach=1.2, weight=0.003)
    short = replace(main, name="sharpen", steps=150, batch=-(-main.batch // 2), calm=calm, tolerance=0.0)
    starts: list[Stage] = []
    for number in range(1, count + 1):
        starts.append(replace(start, name=f"start {number}", origin="init", steps=min(steps, 3 * main.steps)))
        if not many:
            starts.append(replace(short, name=f"sharpen {number}", origin="previous", steps=min(150, main.steps)))
    if many:
        starts.append(replace(start, name="Adam", origin="best", steps=min(10_000, 10 * main.steps), final=0.01))
    return starts


_CALM = 0.5  # how much worse the saturated mean may get for weights that do not explode: at most a sixth was seen


def _adam(config: TrainConfig) -> tuple[Stage, ...]:
    """Adam with hard contexts, at length, then a polish: for FULL models whose curvature is too large or too wild.

    From a given model no start is needed, and three quarters of the steps are enough.
    """
    given, three = config.start is not None, config.layers <= SHALLOW
    starts = 0 if given else 3 if three else 1
    steps, batch = config.steps or (9_000 if given else 12_000), config.batch or (2048 if three else 1024)
    rate = config.rate or (1e-3 if given or three else 2e-3)
    widen, pool = (_WIDEN_MINED, 64) if three else (1.0, 128)  # 131 072 contexts
    scale, origin = _full_scale(config.layers), "given" if given else "best"
    start = AdamStage(
        name="start", steps=max(1, steps // 6), rate=rate, batch=batch, origin="init", init_scale=scale, final=0.1
    )
    mining = Mining(first_step=max(1, steps // 10), every=max(1, min(500, steps // 20)), pool=pool, widen=widen)
    main = AdamStage(name="main", steps=steps, rate=rate, batch=batch, origin=origin, mining=mining, tolerance=0.05)
    mining = Mining(every=200, pool=4 * pool, keep=1024, first_step=0, widen=widen)
    polish = replace(main, name="polish", steps=max(1, steps // 5), rate=rate * 0.2, origin="previous", mining=mining)
    polish = replace(polish, square_decay=0.99, warmup=50, final=0.02)
    return (*_numbered(start, starts), main, polish, *(_widened(config) if three else []))


def _widened(config: TrainConfig) -> list[PoolStage]:
    """Last stages for FULL models of three layers: large eigenvalues of Σ explode them.

    Features are widened in small steps: on a pool full of explosions, a second-order method would go far away.
    """
    most = 20 if mean_variance(config.task.prior) < _SOME_NOISE else 12
    return [
        PoolStage(
            name=f"widen {percent} %", steps=30, origin="best", pool=131_072, widen=1 + percent / 100, tolerance=0.1
        )
        for percent in range(2, most + 1, 2)
    ]


# --- up to three layers ---------------------------------------------------------------------------------------------

_WIDEN = 1.1  # ‖X‖² is then two standard deviations larger than usual at n = 20, d = 10
_WIDEN_QUIET = {"diag": 1.2, "full": 1.3}  # with little noise a model is nearly GD++: a polynomial of the eigenvalues
_WIDEN_MINED = 1.3  # mined contexts should be extreme; one in a million has an eigenvalue of 90, three times the usual
_QUIET = 0.5  # mean of σ² below which noise is little: U(0, 1) has 1/3, U(0, 2) 4/3
_LITTLE_NOISE = 2.0  # mean of σ² below which FULL models of three layers are no better than DIAG ones, with worse tails
_SOME_NOISE = 6.0  # mean of σ² from which smaller steps of widening are enough: U(0, 4) has 5.3, U(0, 5) 8.3


def _shallow(config: TrainConfig) -> tuple[Stage, ...]:
    """A few short starts; then L-BFGS from the best one down to the nearest minimum."""
    given = config.start is not None
    batch = config.batch or 512
    first = [_descend(batch, "given")] if given else []
    steps, rate = config.steps or 1000, config.rate or 1e-2
    start = AdamStage(name="start", steps=steps, rate=rate, batch=batch, origin="init", init_scale=0.1, final=0.05)
    starts = _numbered(start, {1: 1, 2: 4}.get(config.layers, 4 if given else 12))
    finish = PoolStage(name="finish", steps=60, pool=512 * batch, widen=_widen(config), tolerance=_CALM)
    return (*first, *starts, _descend(batch, "best"), finish, _sifted(batch, config))


def _shallow_full(config: TrainConfig) -> tuple[Stage, ...]:
    """Start from the DIAG model, or a given one, and go down to the nearest minimum."""
    batch = config.batch or 512
    first: tuple[Stage, ...] = (_descend(batch, "given"),)
    if config.start is None:
        stages = _shallow(replace(config, kind="diag", steps=None, batch=None, rate=None))
        first = tuple(replace(stage, name=f"diagonal, {stage.name}", kind="diag") for stage in stages)
    origin = "smaller" if config.start is None else "previous"
    steps, widen = config.steps or 60, _widen(config)
    finish = PoolStage(name="finish", steps=steps, origin=origin, pool=256 * batch, widen=widen, tolerance=_CALM)
    # Random streams are numbered as if the DIAG model were one stage, as in older versions: same results.
    return *first, replace(finish, stream=1), replace(_sifted(batch, config), stream=2)


def _widen(config: TrainConfig) -> float:
    """How far the features of pools are widened."""
    quiet = mean_variance(config.task.prior) < _QUIET
    return _WIDEN_QUIET.get(config.kind, _WIDEN) if quiet else _WIDEN


def _numbered(start: AdamStage, count: int) -> list[AdamStage]:
    """``count`` random starts: start 1, start 2, …"""
    return [replace(start, name=f"{start.name} {number}") for number in range(1, count + 1)]


def _sifted(batch: int, config: TrainConfig) -> PoolStage:
    """A last stage, because the best weights explode on one context in a million."""
    return PoolStage(
        name="sifted", steps=40, pool=128 * batch, sift=16, stretch=1.1, widen=_widen(config), tolerance=_CALM
    )


def _descend(batch: int, origin: str) -> PoolStage:
    """A descent on the saturated loss: it leads a model that sometimes explodes to where the plain mean makes sense."""
    return PoolStage(
        name=f"descend from {origin}", steps=60, origin=origin, pool=32 * batch, saturation=100.0, tolerance=0.1
    )
