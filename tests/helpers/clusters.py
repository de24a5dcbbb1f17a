"""A Dask scheduler and workers as real processes on loopback, for the tests of sweeps on a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from running import ENVIRONMENT, wait_for

_QUIET = {"DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False", "OPENBLAS_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """A scheduler with a fixed address, and workers; all end when it is closed."""

    def __init__(self, folder: Path, environment: Mapping[str, str], scheme: str = "tcp") -> None:
        self._folder, self._port, self._environment = folder, free_port(), {**ENVIRONMENT, **_QUIET, **environment}
        self.address = f"{scheme}://127.0.0.1:{self._port}"
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self.all: list[subprocess.Popen[bytes]] = []
        self.start_scheduler()

    def _start(
        self, module: str, *arguments: object, prefix: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        command = [*prefix, sys.executable, "-m", f"distributed.cli.{module}", *map(str, arguments)]
        log = (self._folder / f"{module}-{len(self.all)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                command, env={**self._environment, **environment}, stdout=log, stderr=log, cwd=self._folder
            )
        self.all.append(process)
        return process

    def start_scheduler(self) -> None:
        self.scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", self._port, "--no-dashboard", "--no-show"
        )
        assert wait_for(self._answers)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
            return True
        return False

    def start_worker(self, prefix: Sequence[str] = (), **environment: str) -> subprocess.Popen[bytes]:
        """``prefix`` is what its command begins with."""
        worker = self._start(
            "dask_worker",
            *(self.address, "--no-nanny", "--no-dashboard", "--nthreads", 1, "--host", "127.0.0.1"),
            *("--local-directory", self._folder / "scratch", "--memory-limit", 0),
            prefix=prefix,
            **environment,
        )
        self._workers[worker.pid] = worker
        return worker

    def workers(self) -> list[subprocess.Popen[bytes]]:
        """Those that are alive."""
        return [worker for worker in self._workers.values() if worker.poll() is None]

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for process in self.all:
            if process.poll() is None:
                self.kill(process)


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 0, scheme: str = "tcp", **environment: str) -> Iterator[Cluster]:
    """A cluster with so many workers, all of whose processes have these variables."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Cluster(folder, environment, scheme)
    try:
        for _ in range(workers):
            running.start_worker()
        yield running
    finally:
        running.close()
