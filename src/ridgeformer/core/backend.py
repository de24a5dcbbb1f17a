"""The only place where `core` reaches the compiled kernels, which are loaded when they are first needed.

`core` itself imports only NumPy. So importing ridgeformer is fast, and a small prediction never compiles anything.
The protocol `Engine` says what the kernels must provide; `ridgeformer.kernels.engine` provides it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from ridgeformer.core.kinds import Compiled
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GaussianSource, GramDraw, Source
from ridgeformer.core.validation import one_of

if TYPE_CHECKING:
    from ridgeformer.core.gradient import Options

BACKENDS = ("auto", "reference", "fused")
"""auto: the faster of the other two; reference: NumPy; fused: the compiled kernels. They agree up to rounding."""


class Engine(Protocol):
    """The same mathematics, compiled."""

    def loss_and_gradient(
        self, parameters: Compiled, dim: int, contexts: GramDraw | Source, options: Options
    ) -> tuple[Array, tuple[Array, ...]]:
        """Losses (batch,), and the sums over contexts of the gradient with respect to each array of parameters."""
        ...

    def group_gradients(
        self, parameters: Compiled, dim: int, contexts: GramDraw, options: Options
    ) -> tuple[Array, ...]:
        """The same sums over each `GROUP` contexts, with the groups as the first axis."""
        ...

    def losses(self, parameters: Compiled, dim: int, source: Source, threads: int | None = None) -> Array:
        """(2, batch): ½‖ŵ − w*‖² and ½‖ŵ − w‖²."""
        ...

    def weights(
        self, parameters: Compiled, gram: Array, every_layer: bool = False, threads: int | None = None
    ) -> Array:
        """Implicit weights (batch, d), or (L, batch, d)."""
        ...

    def draw(self, dim: int, source: Source | GaussianSource, dtype: Any, threads: int | None = None) -> GramDraw:
        """Contexts as arrays."""
        ...


@cache
def engine() -> Engine:
    """The compiled kernels; the first call takes about a second, or ten if they have to be compiled."""
    return cast(Engine, import_module("ridgeformer.kernels.engine"))


def uses_kernels(backend: str, worth_it: bool) -> bool:
    """Whether to use the kernels; with "auto" only if ``worth_it``."""
    return one_of("backend", backend, BACKENDS) == "fused" or (backend == "auto" and worth_it)
