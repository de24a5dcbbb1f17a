"""The models of the paper's Table 1 and Figures 5 and 7, and ours beyond: what each is called and starts from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import product

from ridgeformer.core.distributions import parse_noise
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.validation import InputError, one_of, whole_number
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
REGISTER_LAYERS = (*range(1, 9), 10, 12)
REGISTERS = {1: BEYOND_PRIORS, 2: PRIORS, 3: BEYOND_PRIORS}
"""Numbers of registers of DIAG models, and the priors for which there are such models."""

# Training is faster from the weights for a neighbouring noise level; the chains of such starts begin at uniform:5.
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
_FROM_SCRATCH = 5
"""FULL models of so many layers find better minima for {1, 3} from random weights; {1, 3, 5} is treated alike."""


@dataclass(frozen=True)
class Cell:
    """One trained model of the grid."""

    kind: str
    layers: int
    noise: str
    seed: int = 0
    heads: int = 1
    registers: int = 0
    sequences: int = 1_000_000
    """Fresh sequences on which it is measured."""

    @property
    def name(self) -> str:
        """Its name in the zoo and the name of its run directory."""
        return zoo_name(self.kind, self.layers, self.noise, self.seed, self.heads, self.registers)

    @property
    def beyond(self) -> bool:
        """Whether the paper does not have it."""
        deepest = (SEEDED_LAYERS if self.noise == SEEDED_PRIOR else LAYERS)[-1]
        return self.heads > 1 or self.registers > 0 or self.layers > deepest

    @property
    def parent(self) -> Cell | None:
        """The cell whose weights this one starts from, if any."""
        if self.heads > 1:
            return replace(self, heads=2 if self.heads > 2 else 1)
        if self.noise == "uniform:0" and self.kind != "gdpp":
            return replace(self, kind="gdpp", layers=min(self.layers, LAYERS[-1]), registers=0)
        if self.beyond and (not self.registers or self.layers > SEEDED_LAYERS[-1]):
            return replace(self, layers={12: 10, 10: 8, 9: 8}.get(self.layers, LAYERS[-1]))
        if self.kind == "gdpp":
            return replace(self, layers=self.layers - 1) if self.layers > 1 else None
        if self.kind == "full" and starts_from_diagonal(self.layers, parse_noise(self.noise)):
            return replace(self, kind="diag")
        scratch = self.kind == "full" and self.layers >= _FROM_SCRATCH and "categorical" in self.noise
        neighbour = None if scratch else _NEIGHBOUR.get(self.noise)
        if neighbour not in (None, *REGISTERS.get(self.registers, PRIORS)):
            neighbour = SEEDED_PRIOR
        return None if neighbour is None else replace(self, noise=neighbour)

    @property
    def config(self) -> TrainConfig:
        """How it is trained."""
        return TrainConfig(**asdict(self), start=None if self.parent is None else self.parent.name)


def zoo_name(kind: str, layers: int, noise: str, seed: int = 0, heads: int = 1, registers: int = 0) -> str:
    """kind-layers-noise, such as full-7-uniform-5; several heads, registers and seeds other than 0 are named."""
    size = f"{layers}" + (f"-heads-{heads}" if heads > 1 else "") + (f"-registers-{registers}" if registers else "")
    return f"{kind}-{size}-{noise.replace(':', '-')}" + (f"-seed-{seed}" if seed else "")


DEPTH = LAYERS[-1]
"""Layers of the models that figures show for every prior."""
EVERY_DEPTH = tuple(range(2, DEPTH))
EVERY_DEPTH_PRIORS = BEYOND_PRIORS
"""Priors for which the paper draws models of 2 to 7 layers."""
SHOWN = tuple(zoo_name("full", 4, noise) for noise in ("categorical:1+3", "categorical:1+3+5", "uniform:5"))
"""Whose weights figure 4 shows: the paper's model of four layers, and the same for two other priors."""


def grid_cells(
    kinds: Iterable[str] = tuple(KINDS),
    layers: Iterable[int] | None = None,
    columns: Iterable[str] = PRIORS,
    seeds: Iterable[int] = SEEDS,
) -> tuple[Cell, ...]:
    """The chosen part of the grid, with the cells that it starts from, parents before children."""
    kinds, columns = _checked(kinds, columns)
    wanted = None if layers is None else {whole_number("layers", depth, 1, SEEDED_LAYERS[-1]) for depth in layers}
    if wanted == set():
        raise InputError(f"layers must name at least one depth between 1 and {SEEDED_LAYERS[-1]}.")
    first, *more = sorted({whole_number("seeds", seed, 0) for seed in seeds}) or [0]
    cells: list[Cell] = []
    for seed in (first, *more):  # the whole table first, then what only the figures need
        priors = columns if seed == first else [SEEDED_PRIOR] * (SEEDED_PRIOR in columns)
        for kind, noise in product(kinds, priors):
            depths = SEEDED_LAYERS if noise == SEEDED_PRIOR else LAYERS
            chosen = depths if wanted is None else [depth for depth in depths if depth in wanted]
            cells += [Cell(kind, depth, noise, seed) for depth in chosen]
    return _with_parents(cells)


def beyond_cells(kinds: Iterable[str] = tuple(KINDS), columns: Iterable[str] = BEYOND_PRIORS) -> tuple[Cell, ...]:
    """The models beyond the paper's, with the cells that they start from, parents before children."""
    kinds, columns = _checked(kinds, columns)
    return _with_parents(
        Cell(kind, layers, noise, heads=heads)
        for kind in kinds
        if kind != "gdpp"  # more layers and heads do not help it: see `ridgeformer.training.spectral`
        for noise in columns
        if noise in BEYOND_PRIORS
        for layers, heads in BEYOND_SIZES
    )


def register_cells(columns: Iterable[str] = PRIORS) -> tuple[Cell, ...]:
    """The DIAG models with registers, with the cells that they start from, parents before children."""
    _, columns = _checked((), columns)
    return _with_parents(
        Cell("diag", layers, noise, registers=registers)
        for registers, priors in REGISTERS.items()
        for noise in columns
        if noise in priors
        for layers in (*REGISTER_LAYERS, *([9] if (registers, noise) == (3, "categorical:1+3") else []))
    )


def _checked(kinds: Iterable[str], columns: Iterable[str]) -> tuple[list[str], list[str]]:
    """Kinds and columns that there are; uniform:5, where the chains begin, comes before the others."""
    columns = [one_of("columns", column, PRIORS) for column in columns]
    columns.sort(key=lambda noise: (noise != SEEDED_PRIOR, PRIORS.index(noise)))
    return [one_of("kinds", kind, KINDS) for kind in kinds], columns


def _with_parents(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    chosen: dict[str, Cell] = {}

    def add(cell: Cell) -> None:
        if cell.parent is not None:
            add(cell.parent)
        chosen.setdefault(cell.name, cell)

    for cell in cells:
        add(cell)
    return tuple(chosen.values())
