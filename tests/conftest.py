"""What every test shares: deterministic hypothesis runs, and an environment without the user's own settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import settings

# NumPy's own threads: two test processes with two each would wait for one another, up to 20 times as long. It reads
# this when it is first imported, which is later.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell that starts us in the background ignores Ctrl-C, and so would every process that tests press it in.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# derandomize: the same examples on every run, so that a red build is red again at home. No deadline: the first call of
# a kernel compiles it. 40 examples: each property takes well under a second, and failures show within the first few.
settings.register_profile("ridgeformer", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("ridgeformer")


def pytest_addoption(parser: pytest.Parser) -> None:
    """For the attacks in tests/faults."""
    parser.addoption("--faults", choices=("small", "full"), default="small", help="size of the attacks")
    parser.addoption("--faults-seed", type=int, default=13, help="equal seeds give equal attacks")
    parser.addoption("--faults-json", default=None, help="where to write what the attacks found")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RIDGEFORMER_THREADS", "COLUMNS"):  # the second is set in workers of xdist
        monkeypatch.delenv(name, raising=False)


# Every kernel in one precision.
COMPILE = """
import sys
import ridgeformer as rf
dtype, task = sys.argv[1], rf.Task(3, 8)
context = task.draw_contexts(1, seed=0, dtype=dtype, backend="fused").context
for kind in ("diag", "full"):
    model = rf.LinearTransformer.init(kind, layers=1, dim=3, dtype=dtype)
    rf.loss_and_gradient(model, task, batch=1, seed=0, backend="fused")
    rf.evaluate(model, task, 1)
    model.weights(context)
"""


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before several workers start: compile the kernels once, on two cores. Each worker would compile all of them."""
    if session.config.getoption("numprocesses", None) and not hasattr(session.config, "workerinput"):
        commands = [[sys.executable, "-c", COMPILE, dtype] for dtype in ("float32", "float64")]
        for process in [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]:
            process.wait()
