"""What a training run is: everything that decides its result, in one frozen dataclass."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ridgeformer.core.distributions import NoisePrior, is_builtin, parse_noise, prior_name
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.mixture import load_mixture, mixture_text, parse_mixture
from ridgeformer.core.model import MAX_HEADS, MAX_LAYERS, MAX_REGISTERS
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import read_whole, strict_json
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, former_names, nonnegative, one_of, shortened, whole_number

_MOST_BYTES = 1 << 20  # of a config file; one has a few hundred
FORMER_NAMES = {"model": "kind", "context": "examples"}
"""Fields that had another name: what users wrote then, and files of that time, still work."""
RUN_KEYS = START_DIGEST, DIGEST = "start_sha256", "sha256"
"""What the config.json of a run has besides the fields: digests of the weights it starts from, and of the file."""


@former_names(**FORMER_NAMES)
@dataclass(frozen=True)
class TrainConfig:
    """One run: a model, a task and how to train it. All fields have defaults; together they decide the result.

    Values of the wrong type or out of range raise `InputError`. ``as_json`` and ``from_json`` write and read a config.
    A noise prior that you wrote yourself is stored as its spec and the name of its class; to read such a config, pass
    the prior object again.

    >>> import ridgeformer as rf
    >>> config = rf.TrainConfig(kind="diag", layers=3, noise="uniform:1-3")
    >>> config.task
    Task(dim=10, examples=20, noise=Uniform(high=3.0, low=1.0))
    >>> rf.TrainConfig.from_json(config.as_json()) == config
    True
    """

    kind: str = "full"
    """Which parameters a layer has: gdpp (GD++, 3 numbers a head), diag (4 numbers) or full (dense matrices)."""
    layers: int = 7
    """Number of layers, L."""
    heads: int = 1
    """Attention heads in each layer, H."""
    registers: int = 0
    """Extra coordinates of each token, r, that start at zero and serve as memory; for diag and full."""
    noise: NoisePrior | str = "uniform:5"
    """Distribution of the noise level σ: uniform:5, uniform:1-3, categorical:1+3, fixed:1, or a `NoisePrior` object."""
    dim: int = 10
    """Number of features of an example, d."""
    examples: int | str = 20
    """Number of examples in a context, n, or a range such as 10..40, from which each context draws its n."""
    features: str = "isotropic"
    """Distribution of the features x, such as kappa:10+rotated; docs/tasks.md lists them."""
    weights: str = "normal"
    """Distribution of the true weights w, such as sparse:3 or pool:64."""
    noise_shape: str = "gaussian"
    """Shape of the noise at a given level σ: gaussian, student:5 or outliers:0.05x10."""
    mixture: str | None = None
    """Several tasks at once, as text or a file: 3*base | features=skewed | weights=scale:2,noise=uniform:2."""
    seed: int = 0
    """Seed of the initial weights and of all contexts."""
    recipe: str = "fast"
    """fast: exact objective, more training on hard contexts, tuned schedules. paper: as in the paper, 200 000 steps."""
    start: str | None = None
    """Model to start from, a file or a zoo name: of the same kind or a smaller one, no deeper, no more registers."""
    steps: int | None = None
    """Steps of the main part of the recipe; None: the number in the recipe."""
    batch: int | None = None
    """Contexts in a step; None: the number in the recipe."""
    rate: float | None = None
    """Step size of the main part, whose method depends on the recipe; None: the one in the recipe."""
    precision: str = "auto"
    """float32, float64 or auto. auto is float64 for tasks without noise, whose losses go below 1e-12, else float32."""
    sequences: int = 1_000_000
    """Fresh sequences on which the finished model is measured."""

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        one_of("recipe", self.recipe, ("fast", "paper"))
        whole_number("layers", self.layers, 1, MAX_LAYERS)
        whole_number("heads", self.heads, 1, MAX_HEADS)
        whole_number("registers", self.registers, 0, MAX_REGISTERS)
        KINDS[self.kind].shapes_with(1, 1, 1, self.registers)  # refuses registers if the kind has none
        whole_number("sequences", self.sequences, 2)
        check_seed(self.seed)
        one_of("precision", self.precision, ("auto", "float32", "float64"))
        if self.start is not None and not isinstance(self.start, str):
            raise InputError(f"start must be the name of a model file, not {self.start!r}.")
        prior = parse_noise(self.noise)
        object.__setattr__(self, "noise", prior.spec if is_builtin(prior) else prior)
        base = self._base_task
        if not (base.builtin or replace(base, noise="fixed:1").builtin):
            raise InputError(
                "To train on features, weights or a noise shape of your own, add the class to FEATURES, WEIGHTS or "
                "NOISE_SHAPES, so that a run can name it: docs/extending.md shows how."
            )
        for name in ("features", "weights", "noise_shape"):
            object.__setattr__(self, name, getattr(base, name).spec)
        object.__setattr__(self, "examples", base.specs["examples"])
        if self.mixture is not None:
            load_mixture(self.mixture, base)
            object.__setattr__(self, "mixture", mixture_text(self.mixture))
        for name in ("steps", "batch"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)
        if self.rate is not None and nonnegative("rate", self.rate) == 0:
            raise InputError("rate must be more than 0.")

    @property
    def task(self) -> Task:
        """The task that is trained on."""
        base = self._base_task
        return base if self.mixture is None else parse_mixture(self.mixture, base)

    @property
    def _base_task(self) -> Task:
        """The task without its mixture."""
        return Task(self.dim, self.examples, self.noise, self.features, self.weights, self.noise_shape)

    @property
    def own_prior(self) -> NoisePrior | None:
        """The noise prior if you wrote it yourself, so that a file cannot restore it; else None."""
        return None if isinstance(self.noise, str) else self.noise

    @property
    def noise_spec(self) -> str:
        """The spec of the noise prior, also of one that you wrote yourself."""
        return self._base_task.prior.spec

    @property
    def noise_free(self) -> bool:
        """Whether σ is always zero."""
        return float(self.task.prior.quadrature(1)[0].max()) == 0.0

    @property
    def dtype(self) -> str:
        """The precision of the trained model: float32 or float64."""
        return self.precision if self.precision != "auto" else ("float64" if self.noise_free else "float32")

    def as_json(self) -> dict[str, Any]:
        """The config as plain JSON values; a prior that you wrote yourself adds "prior", as module:Class."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        own = self.own_prior
        return values if own is None else values | {"noise": own.spec, "prior": prior_name(own)}

    @classmethod
    def from_json(cls, values: Any, source: str = "The config", prior: NoisePrior | None = None) -> TrainConfig:
        """The reverse of `as_json`; unknown names are rejected with the nearest valid one.

        ``prior``: the prior object, for a config whose prior you wrote yourself.
        """
        if not isinstance(values, dict):
            raise InputError(f"{source} must be a JSON object.")
        values = dict(values)
        own = values.pop("prior", None)
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            one_of(f"{source}: a name", FORMER_NAMES.get(name, name), names)
        if own is not None:
            if prior is None or (prior_name(prior), prior.spec) != (own, values.get("noise")):
                raise InputError(
                    f"{source} has a noise prior of your own, {shortened(own)} with spec "
                    f"{shortened(values.get('noise'))}; pass it again, as noise=… or --noise {own}(…)."
                )
            values["noise"] = prior
        return cls(**values)

    @classmethod
    def from_file(cls, path: Path, prior: NoisePrior | None = None) -> TrainConfig:
        """Read a JSON file; see `from_json`."""
        try:
            values = strict_json(read_whole(path, _MOST_BYTES))
        except (ValueError, RecursionError) as broken:
            raise InputError(f"{path} is not JSON: {broken}.") from broken
        if isinstance(values, dict):  # that of a run, perhaps changed by hand to make another one
            values = {name: value for name, value in values.items() if name not in RUN_KEYS}
        return cls.from_json(values, str(path), prior)
