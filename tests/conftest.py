"""What every test shares: deterministic hypothesis runs, and an environment without the user's own settings."""

from __future__ import annotations

import pytest
from hypothesis import settings

# derandomize: the same examples on every run, so that a red build is red again at home. No deadline: the first call of
# a kernel compiles it. 40 examples: each property takes well under a second, and failures show within the first few.
settings.register_profile("ridgeformer", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("ridgeformer")


@pytest.fixture(autouse=True)
def _no_thread_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RIDGEFORMER_THREADS", raising=False)
