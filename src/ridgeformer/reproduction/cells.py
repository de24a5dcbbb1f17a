"""The models of the paper's Table 1 and Figures 5 and 7, and ours beyond: what each is called and starts from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ridgeformer.core.validation import one_of
from ridgeformer.core.validation import InputError
from ridgeformer.core.model import KINDS
from ridgeformer.core.distributions import parse_noise
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import starts_from_diagonal

PRIORS = (*(f"uniform:{level}" for level in range(8)), "categorical:1+3", "categorical:1+3+5")
LAYERS = tuple(range(1, 8))
SEEDED_PRIOR = "uniform:5"
"""The prior of figures 5 and 7, for which there is an eighth layer, and five seeds of every model."""
SEEDED_LAYERS = (*LAYERS, 8)
SEEDS = (0, 1, 2, 3, 4)
BEYOND_PRIORS = (SEEDED_PRIOR, "categorical:1+3", "categorical:1+3+5")
"""The priors for which there are models beyond the paper's."""
BEYOND_SIZES = ((8, 1), (10, 1), (12, 1), (7, 2), (7, 4), (12, 2))
"""(layers, heads) of the models beyond the paper's."""

_DEEPEST = max(layers for layers, _ in BEYOND_SIZES)
_STEPS_ON_THE_WAY = 6_000  # of models beyond the paper's from which others start
# A noise level is learned sooner from the weights of a neighbouring one; uniform:5 is where the chains begin.
_NEIGHBOUR = {
    "uniform:6": "uniform:5",
    "uniform:7": "uniform:6",
    "uniform:4": "uniform:5",
    "uniform:3": "uniform:4",
    "uniform:2": "uniform:3",
    "uniform:1": "uniform:2",
    "categorical:1+3": "uniform:3",
    "categorical:1+3+5": "uniform:5",
}


@dataclass(frozen=True)
class Cell:
    """One trained model of the grid."""

    model: str
    layers: int
    noise: str
    seed: int = 0
    heads: int = 1
    sequences: int = 1_000_000
    """Fresh sequences on which it is measured."""

    @property
    def name(self) -> str:
        """Its name in the zoo and the name of its run directory."""
        return zoo_name(self.model, self.layers, self.noise, self.seed, self.heads)

    @property
    def beyond(self) -> bool:
        """Whether it is none of the paper's."""
        return self.heads > 1 or self.layers > (SEEDED_LAYERS if self.noise == SEEDED_PRIOR else LAYERS)[-1]

    @property
    def parent(self) -> Cell | None:
        """The cell whose weights this one starts from, if any."""
        if self.heads > 1:
            return replace(self, heads=2 if self.heads > 2 else 1)
        if self.beyond:
            return replace(self, layers={12: 10, 10: 8}.get(self.layers, LAYERS[-1]))
        if self.model == "gdpp":
            return replace(self, layers=self.layers - 1) if self.layers > 1 else None
        if self.noise == "uniform:0":
            return replace(self, model="gdpp")
        if self.model == "full" and starts_from_diagonal(self.layers, parse_noise(self.noise)):
            return replace(self, model="diag")
        neighbour = _NEIGHBOUR.get(self.noise)
        return None if neighbour is None else replace(self, noise=neighbour)

    @property
    def config(self) -> TrainConfig:
        """How it is trained."""
        return TrainConfig(
            kind=self.model,
            layers=self.layers,
            noise=self.noise,
            seed=self.seed,
            heads=self.heads,
            steps=_STEPS_ON_THE_WAY if self.model == "full" and self.beyond and self.layers < _DEEPEST else None,
            start=None if self.parent is None else self.parent.name,
            sequences=self.sequences,
        )


def zoo_name(model: str, layers: int, noise: str, seed: int = 0, heads: int = 1) -> str:
    """kind-layers-noise, such as full-7-uniform-5; seeds other than 0 and several heads are named."""
    size = f"{layers}-heads-{heads}" if heads > 1 else f"{layers}"
    return f"{model}-{size}-{noise.replace(':', '-')}" + (f"-seed-{seed}" if seed else "")


def _order(noise: str) -> tuple[bool, int]:
    """uniform:5, where the chains begin, before the others."""
    return noise != SEEDED_PRIOR, PRIORS.index(noise)


def grid_cells(
    models: Iterable[str] = KINDS,
    layers: Iterable[int] | None = None,
    columns: Iterable[str] = PRIORS,
    seeds: Iterable[int] = SEEDS,
    sequences: int = 1_000_000,
) -> tuple[Cell, ...]:
    """The chosen part of the grid, with the cells that it starts from, parents before children."""
    columns = sorted((one_of("columns", column, PRIORS) for column in columns), key=_order)
    models = [one_of("models", model, KINDS) for model in models]
    wanted = None if layers is None else sorted(set(layers))
    if wanted is not None and (not wanted or wanted[0] < 1 or wanted[-1] > SEEDED_LAYERS[-1]):
        raise InputError(f"layers must be between 1 and {SEEDED_LAYERS[-1]}, not {wanted}.")
    found: list[Cell] = []
    seeds = sorted(set(seeds)) or [0]
    for seed in seeds:  # the whole table first, then what only the figures need
        for model in models:
            for noise in columns if seed == seeds[0] else [c for c in columns if c == SEEDED_PRIOR]:
                depths = SEEDED_LAYERS if noise == SEEDED_PRIOR else LAYERS
                found += [
                    Cell(model, depth, noise, seed, sequences=sequences)
                    for depth in depths
                    if wanted is None or depth in wanted
                ]
    return _with_parents(found)


def beyond_cells(
    models: Iterable[str] = ("diag", "full"), columns: Iterable[str] = BEYOND_PRIORS, sequences: int = 1_000_000
) -> tuple[Cell, ...]:
    """The models beyond the paper's, with the cells that they start from, parents before children."""
    found = [
        Cell(model, layers, noise, heads=heads, sequences=sequences)
        for model in models
        if model != "gdpp"  # more layers and heads are no use to it: see `ridgeformer.training.spectral`
        for noise in columns
        if noise in BEYOND_PRIORS
        for layers, heads in BEYOND_SIZES
    ]
    return _with_parents(found)


def _with_parents(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    chosen: dict[str, Cell] = {}

    def add(cell: Cell) -> None:
        if cell.parent is not None:
            add(cell.parent)
        chosen.setdefault(cell.name, cell)

    for cell in cells:
        add(cell)
    return tuple(chosen.values())
