"""Recipes: which stages a run consists of. docs/training.md shows by measurements what each ingredient gains."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ridgeformer.core.distributions import Categorical, NoisePrior, mean_variance
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.kinds import KINDS
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.natural_stage import Calm, NaturalStage
from ridgeformer.training.pools import Mining, PoolStage
from ridgeformer.training.spectral import SpectralStage
from ridgeformer.training.stages import Stage

_Stage = TypeVar("_Stage", bound=Stage)


def stages_of(config: TrainConfig) -> tuple[Stage, ...]:
    """The stages of a run, with the steps, batch and rate of the config if it has them."""
    if config.recipe == "paper":
        return _paper(config)
    if config.kind == "gdpp" or config.noise_free:
        # Without noise there is nothing to adapt to: no kind was found to be better than the GD++ solution.
        return (SpectralStage(name="spectral", origin="init"),)
    return _recipe(config)(config)


def _recipe(config: TrainConfig) -> Callable[[TrainConfig], tuple[Stage, ...]]:
    """The fast recipe for a kind and depth."""
    if config.kind == "diag":
        return _deep if config.layers >= SHALLOW else _diagonal
    if config.kind == "full" and config.layers < SHALLOW:
        return _shallow_full
    if config.kind == "full" and _size(config) <= (_LARGEST_SIZE if config.start is None else _LARGEST_GIVEN):
        return _deep
    return _adam  # also for every kind that users add: it needs nothing but a gradient


def starts_from_diagonal(layers: int, prior: NoisePrior) -> bool:
    """Whether a FULL model should start from a DIAG model: below `SHALLOW` layers; with little noise also at it."""
    return layers < SHALLOW or (layers == SHALLOW and mean_variance(prior) < _LITTLE_NOISE)


def _size(config: TrainConfig) -> int:
    """How many numbers a model has."""
    shapes = KINDS[config.kind].shapes_with(config.layers, config.heads, config.dim, config.registers)
    return sum(math.prod(shape) for shape in shapes.values())


_LARGEST_SIZE = 3500  # numbers up to which the curvature, a matrix, pays for itself
_LARGEST_GIVEN = 7000  # the same for a given model, of which Adam may lose more than it gains
_MANY = 10  # layers from which on FULL models with several heads need no larger pool; seven and twelve were tried
SHALLOW = 3
"""Up to this many layers tails are heavy even at the minimum. With fewer, FULL is hardly better than DIAG."""


def _paper(config: TrainConfig) -> tuple[Stage, ...]:
    """As in section 3 of the paper: Adam with step size 1e-4, 200 000 steps of 2048 sequences with one query each."""
    steps, rate, batch = config.steps or 200_000, config.rate or 1e-4, config.batch or 2048
    origin = "init" if config.start is None else "given"
    scale = _initial_scale(config.layers)  # with 0.1, diagonal models of seven layers diverge
    stage = AdamStage(name="as printed", steps=steps, rate=rate, batch=batch, origin=origin, init_scale=scale)
    # Contexts that explode beyond measure are left out; the gradient of all others is as it is. Without this rule most
    # steps of deep diagonal models have no finite gradient for thousands of steps.
    return (replace(stage, objective="sampled", saturation=EXPLODED, warmup=1, final=1.0),)


def _initial_scale(layers: int) -> float:
    """Initial standard deviation: shallow models learn faster from larger weights, deep models would explode."""
    return 0.02 if layers <= 4 else 0.002


# --- three layers and more --------------------------------------------------------------------------------------------


def _deep(config: TrainConfig) -> tuple[Stage, ...]:
    """Several random starts, because most minima are poor; then natural gradient, at length, from the best of them.

    The last stages are for models that still explode beyond the task: the first for nearly all, the other for DIAG
    models that do so closer to it.
    """
    full, scratch = config.kind == "full", config.start is None
    usual = 600 if full else 1500 if config.registers and scratch else 800
    steps, rate, batch = config.steps or usual, config.rate or 0.2, config.batch or 4096
    main = NaturalStage(name="natural gradient", steps=steps, rate=rate, batch=batch, origin="best", tolerance=_CALM)
    main = replace(main, calm=_calm(config))
    if full:  # a thousand numbers: the curvature needs more contexts, and costs more
        main = replace(main, sample=8192, every=20, rate=0.75 * rate)
        if config.heads > 1 and config.layers < _MANY:  # they learn a smaller pool by heart: rare contexts explode them
            main = replace(main, pool=4 * main.pool)
    starts = _full_starts(config, main) if full else _diagonal_starts(config, main)
    last: list[NaturalStage] = []
    if config.layers > SHALLOW:
        calm = replace(_calm(config), reach=2.2, weight=0.05, last_weight=0.003, rise=(0.0, 0.4))
        last = [replace(main, name="calm", calm=calm, unless_borne=calm, tolerance=_PRICE[config.kind])]
        if not full:
            last.append(_calm_again(config, last[0]))
    return (*starts, main, *last)


def _short(main: NaturalStage, name: str, origin: str) -> NaturalStage:
    """A short natural gradient without tail control: after it, it is clear how good a minimum is."""
    short = replace(main, name=name, origin=origin, steps=min(200, main.steps), rate=0.3, batch=-(-main.batch // 4))
    # New layers of a given model hardly change its answers at first, so that early steps would be too long.
    warmup = 50 if origin == "given" else 10
    return replace(short, memory=0.5, largest_change=0.3, warmup=warmup, calm=None, tolerance=0.0)


def _diagonal_starts(config: TrainConfig, main: NaturalStage) -> list[Stage]:
    """Random starts, whose small batches and long steps are noisy: that leads out of the poorest minima.

    Without registers each is followed by a short natural gradient, because Adam's last loss does not show which minimum
    is the best. Hops from the best minimum find others near it.
    """
    given, short = config.start is not None, replace(main, sample=2048)
    first = [_short(short, "from given", "given")] if given else []
    start = AdamStage(name="start", steps=min(2000, 3 * main.steps), rate=3e-2, batch=128, origin="init", final=0.02)
    start = replace(start, init_scale=0.03)
    hop = replace(_short(short, "hop", "shaken"), init_scale=0.5)
    if config.registers:  # most minima are good; of three and four layers not all
        starts, hops = (0, 4) if given and config.layers > SHALLOW + 1 else (12, 8)
        return [*first, *_numbered(start, starts), *_numbered(hop, hops)]
    # Shorter runs lead to the best minimum as often, so that more of them can be tried.
    start, sharpen = replace(start, steps=min(1000, start.steps)), _short(short, "sharpen", "previous")
    starts, hops = (12, min(24, 4 * config.layers - 5)) if given else (20, 24)
    prior = config.task.prior
    if given and config.layers >= 2 * SHALLOW and isinstance(prior, Categorical) and mean_variance(prior) < _SOME_NOISE:
        starts, hops = 40, 0  # on {1, 3} nearly all hops explode, and one start in ten or twenty finds the best minimum
    return [*first, *_sharpened(start, sharpen, starts), *_numbered(hop, hops)]


def _full_starts(config: TrainConfig, main: NaturalStage) -> list[Stage]:
    """Random starts, up to six layers each with a short natural gradient; with a given model few or none.

    With four layers a long run of Adam often goes to where DIAG ends. So it is stopped early, and the natural gradient
    takes over. From seven layers on most minima are good.
    """
    scratch, layers = config.start is None, config.layers
    given = [] if scratch else [_short(main, "from given", "given")]
    start = AdamStage(name="start", steps=min(2000, 4 * main.steps), rate=1e-2, batch=512, origin="init", final=0.02)
    start = replace(start, init_scale=0.05 if layers == SHALLOW else _initial_scale(layers))
    short = _short(main, "sharpen", "previous")
    if layers == SHALLOW:
        return [*given, *_sharpened(start, short, 8 if scratch else 2)]
    if layers == SHALLOW + 1:
        start = replace(start, steps=min(500, main.steps), rate=2e-2, batch=256)
        short = replace(short, steps=min(400, main.steps), competes=True)
        final = replace(main, name="final", steps=min(300, main.steps), origin="finalist", calm=None, tolerance=0.0)
        return [*given, *_sharpened(start, short, 24 if scratch else 6), *_numbered(final, 6 if scratch else 2)]
    if not scratch:
        return [*given]
    return [*(_sharpened(start, short, 8) if layers <= 2 * SHALLOW else _numbered(start, 4))]


def _sharpened(start: AdamStage, short: NaturalStage, count: int) -> list[Stage]:
    """Random starts, each with a short natural gradient, after which they can be compared."""
    pairs = zip(_numbered(start, count), _numbered(short, count), strict=True)
    return [stage for pair in pairs for stage in pair]


def _calm(config: TrainConfig) -> Calm:
    """What a model of three layers and more shall bear, and how much that may cost.

    With little noise a deep model is nearly GD++, a polynomial of the eigenvalues: large features explode it. Registers
    make it cheap to be calm.
    """
    noise, full = mean_variance(config.task.prior), config.kind == "full"
    if config.layers == SHALLOW:
        return _shallow_calm_with_registers(noise) if config.registers else _shallow_calm(noise, full)
    little = noise < _LITTLE_NOISE
    if config.registers:
        return Calm(widen=1.4 if little else 1.25, reach=2.6, weight=0.003)
    if config.layers == SHALLOW + 1 and noise < _SOME_NOISE and not full:
        return Calm(widen=1.3 if little else 1.25, reach=2.2, weight=0.003)
    return Calm(widen=1.4 if little else 1.25, reach=2.2, weight=0.005 if full else 0.01)


def _calm_again(config: TrainConfig, first: NaturalStage) -> NaturalStage:
    """The second stage of calm of a DIAG model, which costs more: what the model must bear to be spared it.

    Registers make it cheap to bear noise as loud as in the paper's figures. With little noise it is features that
    explode a model, one context in some millions; a milder stage than the first is better there.
    """
    again = replace(first, name="calm again", tolerance=_PRICE_AGAIN if config.registers else _PRICE_NEAR)
    if not config.registers:
        return replace(again, unless_borne=_NEAR)
    if mean_variance(config.task.prior) >= _LITTLE_NOISE:
        return replace(again, unless_borne=_LOUD)
    calm = replace(_calm(config), widen=1.3, reach=1.5, weight=0.02, last_weight=0.002, rise=(0.0, 0.4))
    return replace(again, calm=calm, unless_borne=replace(_NEAR, widen=1.2))


def _shallow_calm(noise: float, full: bool) -> Calm:
    """Models of three layers have heavy tails at their very optimum.

    They can bear less, or would lose too much on the task itself. Without more control one context in 10⁷ has a loss of
    10⁴ and more, so that a tenth of the mean over all contexts comes from there. Two things help, each for some models:
    contexts just beyond the task with a larger weight, or much larger features and targets with a smaller weight.
    """
    if full and _SOME_NOISE <= noise < _MUCH_NOISE:
        # Louder noise with a smaller weight costs less, and calms as well.
        return Calm(reach=2.5, weight=0.005)
    if noise >= _MUCH_NOISE:
        return Calm(widen=1.4, stretch=1.4, reach=1.5, weight=0.002) if full else Calm(reach=1.25, weight=0.03)
    if noise >= (_LITTLE_NOISE if full else _MODEST_NOISE):
        return Calm(widen=1.4, stretch=1.4, weight=0.002 if full else 0.0015)
    return Calm(widen=1.3 if noise < _LITTLE_NOISE else 1.25, reach=2.0, weight=0.003)


def _shallow_calm_with_registers(noise: float) -> Calm:
    """The same for a model with registers, by its mean of σ²."""
    if _LITTLE_NOISE <= noise < _MODEST_NOISE:
        return Calm(widen=1.4, stretch=1.4, reach=2.6, weight=0.0015)
    if noise < _QUIET or _SOME_NOISE <= noise < _MUCH_NOISE:
        return Calm(reach=2.6, weight=0.003)
    return Calm(reach=1.5, weight=0.0045 if noise < _LITTLE_NOISE else 0.02)


# How much worse the saturated mean, by which stages are ranked, may get
_CALM = 0.5  # for weights that do not explode: at most a sixth was seen
_PRICE = {"diag": 0.003, "full": 0.03}  # when a stage calms a model that still explodes beyond the task
_PRICE_AGAIN = 0.01  # when a model with registers explodes closer to the task
_PRICE_NEAR = 0.03  # when a model without registers explodes so close to the task that one context in a million does
# Noise as far as the paper's figures go. A loss below 10⁴ hardly changes the mean over the contexts that are tried.
_LOUD = Calm(widen=1.0, stretch=1.0, reach=2.0, loudest=True, exploding=1e4)
_NEAR = Calm(widen=1.1, stretch=1.1, reach=1.2, exploding=1e4)

# Means of σ²
_LITTLE_NOISE = 2.0  # U(0, 2) has 4/3, U(0, 3) has 3
_MODEST_NOISE = 4.0  # U(0, 3) has 3, {1, 3} has 5
_SOME_NOISE = 6.0  # U(0, 4) has 5.3, U(0, 5) has 8.3
_MUCH_NOISE = 10.0  # U(0, 6) has 12


# --- large models, and kinds that users add ---------------------------------------------------------------------------

_WIDEN_MINED = 1.3  # mined contexts should be extreme; one in a million has an eigenvalue of 90, three times the usual


def _adam(config: TrainConfig) -> tuple[Stage, ...]:
    """A few short starts (some end in a poor minimum, up to four layers); a long stage from the best; a polish.

    From a given model no start is needed, and three quarters of the steps are enough.
    """
    given, shallow = config.start is not None, config.layers <= 4
    starts = 0 if given else 3 if shallow else 1
    steps = config.steps or (9_000 if given else 12_000)
    batch = config.batch or (2048 if shallow else 1024)
    # The shallower of these models can explode because of large features alone.
    widen = _WIDEN_MINED if shallow else 1.0
    pool = 64 if shallow else 128  # 131 072 contexts
    rate = config.rate or (1e-3 if given or shallow else 2e-3)
    scale, origin = _initial_scale(config.layers), "given" if given else "best"
    start = AdamStage(
        name="start", steps=max(1, steps // 6), rate=rate, batch=batch, origin="init", init_scale=scale, final=0.1
    )
    mining = Mining(first_step=max(1, steps // 10), every=max(1, min(500, steps // 20)), pool=pool, widen=widen)
    main = AdamStage(name="main", steps=steps, rate=rate, batch=batch, origin=origin, mining=mining, tolerance=0.05)
    mining = Mining(every=200, pool=4 * pool, keep=1024, first_step=0, widen=widen)
    polish = replace(main, name="polish", steps=max(1, steps // 5), rate=rate * 0.2, origin="previous", mining=mining)
    polish = replace(polish, square_decay=0.99, warmup=50, final=0.02)
    return (*_numbered(start, starts), main, polish)


# --- up to two layers -------------------------------------------------------------------------------------------------

_QUIET = 0.5  # mean of σ² below which a model is nearly GD++, a polynomial of the eigenvalues: U(0, 1) has 1/3
_WIDEN = 1.1  # ‖X‖² is then two standard deviations larger than usual at n = 20, d = 10
_WIDEN_QUIET = {"diag": 1.2, "full": 1.3}


def _diagonal(config: TrainConfig) -> tuple[Stage, ...]:
    """Many short starts, because most end in a poor minimum; then from the best one down to the nearest minimum."""
    given = config.start is not None
    starts = 1 if config.layers == 1 else 4
    batch = config.batch or 512
    first = [_descend(batch, "given")] if given else []
    steps, rate = config.steps or 1000, config.rate or 1e-2
    start = AdamStage(name="start", steps=steps, rate=rate, batch=batch, origin="init", init_scale=0.1, final=0.05)
    finish = PoolStage(name="finish", steps=60, pool=512 * batch, widen=_widen(config), tolerance=_CALM)
    return (*first, *_numbered(start, starts), _descend(batch, "best"), finish, _sifted(batch, config))


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
    last = [replace(stage, stream=number) for number, stage in enumerate((finish, _sifted(batch, config)), 1)]
    return *first, *last


def _widen(config: TrainConfig) -> float:
    """How far the features of pools are widened."""
    return _WIDEN_QUIET[config.kind] if mean_variance(config.task.prior) < _QUIET else _WIDEN


def _sifted(batch: int, config: TrainConfig) -> PoolStage:
    """A last stage, because the best weights of such models explode on one context in a million."""
    return PoolStage(
        name="sifted", steps=40, pool=128 * batch, sift=16, stretch=1.1, widen=_widen(config), tolerance=_CALM
    )


def _numbered(start: _Stage, count: int) -> list[_Stage]:
    """``count`` stages of the same kind: start 1, start 2, …"""
    return [replace(start, name=f"{start.name} {number}") for number in range(1, count + 1)]


def _descend(batch: int, origin: str) -> PoolStage:
    """A descent on the saturated loss: it leads a model that sometimes explodes to where the plain mean makes sense."""
    return PoolStage(
        name=f"descend from {origin}", steps=60, origin=origin, pool=32 * batch, saturation=100.0, tolerance=0.1
    )
