"""The results that speak of a given model, held against it."""

from __future__ import annotations

import numpy as np

from ridgeformer.core.model import LinearTransformer
from ridgeformer.theory import implicit_model, momentum, nonlinear_limit
from ridgeformer.theory.measure import ROUNDING, Check
from ridgeformer.theory.samples import random_sample

LONG = 25
"""How many times `examples_needed` contexts have for Theorem 4.2. The expected cosine is then 0.1/5, and its spread at
d = 1 is as large as itself: 0.1 is five standard deviations away."""


def checks_of(model: LinearTransformer, n: int, rng: np.random.Generator) -> list[Check]:
    """Theorems 4.1 and 4.2, and for diag and gdpp models Lemma 4.4, on contexts of ``n`` examples.

    A model that explodes on them is not finite and passes nothing: the theorems hold for it, but not in floats.
    """
    sample = random_sample(rng, 64, n, model.dim)
    shape = f"64 contexts, n = {n}, σ = 1"
    checks = [
        Check.at_most(
            "Theorem 4.1, this model",
            "Its tokens after every layer are M x + y u and a y − <w, x>.",
            implicit_model.difference_from_tokens(model, *sample),
            ROUNDING,
            shape,
        )
    ]
    if model.kind != "full":
        checks.append(
            Check.at_most(
                "Lemma 4.4, this model",
                "Its layers are steps of gradient descent with momentum.",
                momentum.difference_from_recursion(model, sample.context),
                ROUNDING,
                shape,
            )
        )
    long = LONG * nonlinear_limit.examples_needed(model.dim)
    record = nonlinear_limit.cosine_records(model.dim, [long], rng, model, made_for=n)[0]
    checks.append(
        Check.at_most(
            "Theorem 4.2, this model",
            "Its outputs have a cosine of at most 0.1 with x(1)² in long contexts.",
            record.largest,
            nonlinear_limit.PRINTED_BOUND,
            f"all layers, 8 contexts, n = {long}, attention averaged over them",
        )
    )
    return checks
