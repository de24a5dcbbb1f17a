"""Recipes: which stages a run consists of. docs/training.md shows by measurements what each ingredient gains."""

from __future__ import annotations

from dataclasses import replace

from ridgeformer.core.distributions import NoisePrior, mean_variance
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
    if config.kind == "diag":
        return _natural(config) if config.registers and config.layers > SHALLOW else _diagonal(config)
    if config.kind == "full" and starts_from_diagonal(config.layers, config.task.prior):
        return _shallow_full(config)
    return _adam(config)  # also for every kind that users add: it needs nothing but a gradient


def starts_from_diagonal(layers: int, prior: NoisePrior) -> bool:
    """Whether a FULL model should start from a DIAG model: below `SHALLOW` layers; with little noise also at it."""
    return layers < SHALLOW or (layers == SHALLOW and mean_variance(prior) < _LITTLE_NOISE)


SHALLOW = 3
"""Up to this many layers tails are heavy even at the minimum. With fewer, FULL is hardly better than DIAG."""


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


# --- registers, four layers and more ----------------------------------------------------------------------------------


def _natural(config: TrainConfig) -> tuple[Stage, ...]:
    """Several short starts, because most end in a poor minimum; then natural gradient, at length, from the best.

    After each start follows a short natural gradient: then it is clear which minimum will be the best. From a given
    model no start is needed, and two thirds of the steps are enough.
    """
    steps, rate, batch = config.steps or 1500, config.rate or 0.2, config.batch or 4096
    # With little noise a model is nearly GD++, a polynomial of the eigenvalues: what explodes it are large features.
    calm = Calm(widen=1.4) if mean_variance(config.task.prior) < _LITTLE_NOISE else Calm()
    main = NaturalStage(name="natural gradient", steps=steps, rate=rate, batch=batch, tolerance=_CALM, calm=calm)
    if config.start is not None:
        # New layers of a deeper model hardly change its answers at first, so that early steps would be too long.
        given = replace(main, origin="given", steps=-(-2 * steps // 3), warmup=200, tolerance=_WORSE)
        return (given,)
    start = AdamStage(name="start", steps=min(1000, 3 * steps), rate=1e-2, batch=512, init_scale=0.1, final=0.05)
    little = Calm(rise=(0.0, 1.0), reach=1.2, weight=0.003)
    short = replace(main, name="sharpen", steps=min(150, steps), batch=-(-batch // 2), calm=little, tolerance=0.0)
    starts: list[Stage] = []
    for number in range(1, 13):
        starts.append(replace(start, name=f"start {number}", origin="init"))
        starts.append(replace(short, name=f"sharpen {number}", origin="previous"))
    return (*starts, replace(main, origin="best"))


_WORSE = 0.02  # the same for a model that starts from a good one: worse than that, and the start is the result
_CALM = 0.5  # how much worse the saturated mean may get for weights that do not explode: at most a sixth was seen


# --- FULL, three layers and more --------------------------------------------------------------------------------------

_WIDEN_MINED = 1.3  # mined contexts should be extreme; one in a million has an eigenvalue of 90, three times the usual
_QUIET = 0.5  # mean of σ² below which noise is little: U(0, 1) has 1/3, U(0, 2) 4/3
_LITTLE_NOISE = 2.0  # mean of σ² below which FULL models of three layers are no better than DIAG ones, with worse tails
_SOME_NOISE = 6.0  # mean of σ² from which no FULL model of four layers exploded: U(0, 4) has 5.3, U(0, 5) 8.3


def _adam(config: TrainConfig) -> tuple[Stage, ...]:
    """A few short starts (some end in a poor minimum, up to four layers); a long stage from the best; a polish.

    From a given model no start is needed, and three quarters of the steps are enough.
    """
    given = config.start is not None
    starts = 0 if given else 3 if config.layers <= 4 else 1
    steps = config.steps or (9_000 if given else 12_000)
    batch = config.batch or (2048 if config.layers <= 4 else 1024)
    # The shallower of these models can explode because of large features alone.
    widen = _WIDEN_MINED if config.layers <= 4 or _widened(config) else 1.0
    pool = 64 if config.layers <= 4 else 128  # 131 072 contexts
    rate = config.rate or (1e-3 if given or config.layers <= 4 else 2e-3)
    scale, origin = _full_scale(config.layers), "given" if given else "best"
    start = AdamStage(
        name="start", steps=max(1, steps // 6), rate=rate, batch=batch, origin="init", init_scale=scale, final=0.1
    )
    mining = Mining(first_step=max(1, steps // 10), every=max(1, min(500, steps // 20)), pool=pool, widen=widen)
    main = AdamStage(name="main", steps=steps, rate=rate, batch=batch, origin=origin, mining=mining, tolerance=0.05)
    mining = Mining(every=200, pool=4 * pool, keep=1024, first_step=0, widen=widen)
    polish = replace(main, name="polish", steps=max(1, steps // 5), rate=rate * 0.2, origin="previous", mining=mining)
    polish = replace(polish, square_decay=0.99, warmup=50, final=0.02)
    return (*_numbered(start, starts), main, polish, *_widened(config))


def _widened(config: TrainConfig) -> list[PoolStage]:
    """Last stages for FULL models of three layers, with little noise up to five: large eigenvalues of Σ explode them.

    Features are widened in small steps: on a pool full of explosions, a second-order method would go far away.
    """
    noise = mean_variance(config.task.prior)
    if config.layers > (4 if noise >= _QUIET else 5) or (config.layers > SHALLOW and noise >= _SOME_NOISE):
        return []
    most = 20 if config.layers == SHALLOW and noise < _SOME_NOISE else 12
    return [
        PoolStage(
            name=f"widen {percent} %", steps=30, origin="best", pool=131_072, widen=1 + percent / 100, tolerance=0.1
        )
        for percent in range(2, most + 1, 2)
    ]


# --- DIAG, FULL up to two layers --------------------------------------------------------------------------------------

_WIDEN = 1.1  # ‖X‖² is then two standard deviations larger than usual at n = 20, d = 10
_WIDEN_QUIET = {"diag": 1.2, "full": 1.3}  # with little noise a model is nearly GD++: a polynomial of the eigenvalues


def _diagonal(config: TrainConfig) -> tuple[Stage, ...]:
    """Many short starts, because most end in a poor minimum; then from the best one down to the nearest minimum."""
    given = config.start is not None
    starts = {1: 1, 2: 4}.get(config.layers, 4 if given else 12)
    batch = config.batch or 512
    first = [_descend(batch, "given")] if given else []
    steps, rate = config.steps or 1000, config.rate or 1e-2
    start = AdamStage(name="start", steps=steps, rate=rate, batch=batch, origin="init", init_scale=0.1, final=0.05)
    finish = PoolStage(name="finish", steps=60, pool=512 * batch, widen=_widen(config), tolerance=_CALM)
    if config.layers > SHALLOW:  # most of the way on a smaller pool: deep ones converge slowly
        finish = replace(finish, pool=256 * batch, steps=120)
    return (*first, *_numbered(start, starts), _descend(batch, "best"), finish, *_sifted(batch, config))


def _shallow_full(config: TrainConfig) -> tuple[Stage, ...]:
    """Start from the DIAG model, or a given one, and go down to the nearest minimum."""
    batch = config.batch or 512
    first: tuple[Stage, ...] = (_descend(batch, "given"),)
    if config.start is None:
        stages = _diagonal(replace(config, kind="diag", steps=None, batch=None, rate=None))
        first = tuple(replace(stage, name=f"diagonal, {stage.name}", kind="diag") for stage in stages)
    origin = "smaller" if config.start is None else "previous"
    steps, widen = config.steps or 60, _widen(config)
    finish = PoolStage(name="finish", steps=steps, origin=origin, pool=256 * batch, widen=widen, tolerance=_CALM)
    # Random streams are numbered as if the DIAG model were one stage, as in older versions: same results.
    last = [replace(stage, stream=number) for number, stage in enumerate((finish, *_sifted(batch, config)), 1)]
    return *first, *last


def _widen(config: TrainConfig) -> float:
    """How far the features of pools are widened; deep models do not need it, with more noise from one layer less on."""
    if mean_variance(config.task.prior) < _QUIET:
        return _WIDEN_QUIET.get(config.kind, _WIDEN) if config.layers <= SHALLOW + 1 else 1.0
    return _WIDEN if config.layers <= SHALLOW else 1.0


def _sifted(batch: int, config: TrainConfig) -> list[PoolStage]:
    """A last stage for models of at most three layers, whose best weights explode on one context in a million."""
    if config.layers > SHALLOW:
        return []
    return [
        PoolStage(
            name="sifted", steps=40, pool=128 * batch, sift=16, stretch=1.1, widen=_widen(config), tolerance=_CALM
        )
    ]


def _numbered(start: AdamStage, count: int) -> list[AdamStage]:
    """``count`` random starts: start 1, start 2, …"""
    return [replace(start, name=f"{start.name} {number}") for number in range(1, count + 1)]


def _descend(batch: int, origin: str) -> PoolStage:
    """A descent on the saturated loss: it leads a model that sometimes explodes to where the plain mean makes sense."""
    return PoolStage(
        name=f"descend from {origin}", steps=60, origin=origin, pool=32 * batch, saturation=100.0, tolerance=0.1
    )
