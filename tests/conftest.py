"""What every test shares: deterministic hypothesis runs, and an environment without the user's own settings."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# NumPy's own threads: two test processes with two each would wait for one another, up to 20 times as long. It reads
# this when it is first imported, which is later.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# derandomize: the same examples on every run, so that a red build is red again at home. No deadline: the first call of
# a kernel compiles it. 40 examples: each property takes well under a second, and failures show within the first few.
settings.register_profile("ridgeformer", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("ridgeformer")


@pytest.fixture(autouse=True)
def _no_thread_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RIDGEFORMER_THREADS", raising=False)
