"""The fused engine: everything between a batch of contexts and its loss and gradient, compiled with numba.

Import `ridgeformer.kernels.engine` to use it. Importing this package, or ridgeformer itself, neither imports numba nor
compiles anything. Files, from the bottom up: `jit` (how things are compiled), `vectors` (a SIMD value for numba),
`products` and `matrices` (small linear algebra over lanes), `random` and `sampling` (contexts), `chain` (what the
recursions share), `full`, `diagonal`, `inference` (the kernels), `workspace`, `pool` and `engine` (their Python side).
"""
