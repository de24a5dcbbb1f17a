"""Everything behind ``ridgeformer bench``: speed, memory and growth, measured on the machine it runs on.

Files: `config` (what to run), `report` (rows and how they are shown), `timing` (how a time is taken), `runner` (all
sections in turn); the sections are in `step`, `flops`, `sampling`, `scaling`, `long_contexts` and `startup`; whom we
meet there is in `token_losses`, `competitors_jax`, `competitors_torch` and `attention`. jax and torch are optional.
"""

from __future__ import annotations

from ridgeformer.bench.config import SECTIONS, BenchConfig
from ridgeformer.bench.report import BenchReport, Row, Target
from ridgeformer.bench.runner import run_bench

__all__ = ["SECTIONS", "BenchConfig", "BenchReport", "Row", "Target", "run_bench"]
