"""``ridgeformer bench``: speed on this machine."""

from __future__ import annotations

from typing import Annotated

import tyro

from ridgeformer.bench.config import BenchConfig
from ridgeformer.commands.output import File, output_console, write_json
from ridgeformer.storage import write_whole


def bench(config: Annotated[BenchConfig, tyro.conf.OmitArgPrefixes], json: File = None, markdown: File = None) -> int:
    """Measure speed, memory and growth on this machine, against JAX and PyTorch where they are installed (4 minutes).

    Args:
        config: What to measure.
        json: Also write the rows and the machine as JSON.
        markdown: Also write them as a Markdown page.
    """
    from ridgeformer.bench import run_bench

    report = run_bench(config)
    report.print(output_console())
    if json is not None:
        write_json(json, report.as_json())
    if markdown is not None:
        write_whole(markdown, report.as_markdown().encode())
    return 0
