"""One thread for torch: two test processes with two each would wait for one another, up to 50 times as long."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)
