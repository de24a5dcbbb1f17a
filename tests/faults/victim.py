"""A process that starts trainings and has them killed. Started once: a new Python for each of them would cost a second.

Reads a JSON object from each line of standard input, forks, trains in the child, and answers with a line. The child
dies by a real SIGKILL, at a chosen step or file operation: at once, or microseconds later in the middle of a write.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from plans import TINY, tiny_run
from ridgeformer import RidgeformerError
from ridgeformer.training import StepInfo, train

_FILE_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.listdir", "os.scandir", "fcntl.flock"}


def child(order: dict[str, Any], told: int) -> int:
    """Train as ordered; at the chosen moment die, or tell the parent so that it kills."""
    run, left = replace(tiny_run(order["seed"], order["warm"]), threads=1), order["after"]

    def moment() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            if order["delay"] is None:
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(told, b"now")

    def on_file(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FILE_EVENTS and any(name in str(arguments[0]) for name in order["files"]):
            moment()

    def on_step(info: StepInfo) -> None:
        if order["files"] == []:
            moment()

    if order["files"]:
        sys.addaudithook(on_file)
    given = None if order["resume"] else run.given
    options = {"resume": order["resume"], "overwrite": order["overwrite"]}
    train(replace(run, given=given), out=order["out"], callbacks=on_step, checkpoint_seconds=0.0, **options)
    return 0


def serve() -> None:
    """Answer orders until there are no more."""
    train(TINY)  # kernels are loaded once, here
    for line in sys.stdin:
        order = json.loads(line)
        reading, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            message, code = "", 1
            try:
                code = child(order, told)
            except RidgeformerError as refused:
                message, code = str(refused), 2
            except BaseException as error:
                message, code = repr(error), 3
            Path(order["out"] + ".message").write_text(message)
            os._exit(code)
        os.close(told)
        if os.read(reading, 3):  # nothing if it ended before the moment came
            time.sleep(order["delay"] * 1e-6)
            os.kill(pid, signal.SIGKILL)
        os.close(reading)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        message = "" if status < 0 else Path(order["out"] + ".message").read_text()
        sys.stdout.write(json.dumps({"status": status, "message": message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
