"""The fused engine: everything between a batch of contexts and its loss and gradient, compiled with numba.

`core.backend.engine` loads it. Importing this package, or ridgeformer itself, neither imports numba nor
compiles anything. Files, each uses those before it: `jit` (how things are compiled), `vectors` (a SIMD value for
numba), `products` and `matrices` (small linear algebra over lanes), `random` and `sampling` (contexts), `chain` (what
the recursions share), `full`, `diagonal`, `inference` (the kernels), `threads` and `engine` (their Python side).
"""

from __future__ import annotations

from collections.abc import Callable

compile_hooks: list[Callable[[bool], None]] = []
"""Called with True when a kernel begins to be compiled, and with False when it is: the command line says so."""
