"""Sweeps on a Dask cluster of real processes on loopback, whose workers and scheduler are killed meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from clusters import Cluster, cluster
from ridgeformer.core.validation import InterruptedRunError
from ridgeformer.sweeps import Event
from running import ENVIRONMENT, Capture, call, wait_for
from support import one_sentence, refused
from sweeping import attempts, check_whole, checkpoints, is_locked, start_main, tiny, trained_here

STUDY = tiny(2, 1500)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, trained in processes of this machine."""
    return trained_here(STUDY, tmp_path_factory.mktemp("local"))


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster", 2) as running:
        yield running


# --- kills ------------------------------------------------------------------------------------------------------------


def kill_workers_during(
    main: subprocess.Popen[str], running: Cluster, out: Path, kills: int, pause: tuple[float, float]
) -> list[tuple[float, dict[str, int]]]:
    """Kill so many workers at random, mostly busy ones, and start another for each.

    Returns (when, newest checkpoints before it) of every kill.
    """
    rng, before = random.Random(0), list[tuple[float, dict[str, int]]]()
    while len(before) < kills:
        time.sleep(rng.uniform(*pause))
        assert main.poll() is None, "the sweep was over too soon"
        before.append((time.time(), checkpoints(out)))
        at_work = {rows[-1]["process"] for rows in attempts(out).values() if "finished" not in rows[-1]}
        workers = running.workers()
        busy = [worker for worker in workers if worker.pid in at_work]
        running.kill(rng.choice(busy if busy and rng.random() < 0.8 else workers))
        running.start_worker()
    return before


def check_kills(
    tmp_path: Path, study: dict[str, Any], local: Path, cells: int, kills: int, pause: tuple[float, float], **own: str
) -> None:
    """``own``: variables of the cluster's processes."""
    out = tmp_path / "out"
    with cluster(tmp_path / "cluster", 3, **own) as running:
        main = start_main(study, out, running.address)
        assert wait_for(lambda: any(out.glob("*/checkpoints/step-*")))
        before = kill_workers_during(main, running, out, kills, pause)
        output, errors = main.communicate(timeout=280)
        assert main.returncode == 0, output + errors
        assert running.scheduler.poll() is None
    check_whole(out, local, cells)
    assert all(process.poll() is not None for process in running.all)
    begun_again = 0
    for name, rows in attempts(out).items():
        for row in rows:
            for moment, saved in before:  # nobody went back behind a checkpoint that was there
                if "from_step" in row and row["started"] > moment:
                    assert row["from_step"] >= saved.get(name, 0), name
        begun_again += sum("from_step" in row for row in rows) - 1
    assert begun_again > 0  # some cells were hit
    finished = [line.split()[1] for line in output.splitlines() if line.startswith("finished")]
    assert len(finished) == len(set(finished)) == cells


def test_sweep_whose_workers_are_killed_finishes_with_the_same_files(tmp_path: Path, local: Path) -> None:
    """Dask gives a cell up at the first death of its worker here, as it would at the fourth: we must not."""
    own = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    check_kills(tmp_path, STUDY, local, cells=6, kills=3, pause=(0.1, 0.4), **own)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sweep_of_24_cells_whose_workers_are_killed_30_times_finishes_with_the_same_files(tmp_path: Path) -> None:
    study = tiny(8, 5000)
    check_kills(tmp_path, study, trained_here(study, tmp_path / "local"), cells=24, kills=32, pause=(0.4, 2.0))


@contextlib.contextmanager
def interrupted_scheduler(tmp_path: Path, study: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[str], Cluster]]:
    """A sweep in whose middle the scheduler is killed and started again, and its workers with it."""
    with cluster(tmp_path / "cluster", 2) as running:
        main = start_main(study, tmp_path / "out", running.address)
        try:
            assert wait_for(lambda: any((tmp_path / "out").glob("*/result.json")))
            running.kill(running.scheduler)
            yield main, running
        finally:
            if main.poll() is None:
                main.kill()
                main.communicate()


def test_scheduler_that_is_killed_and_started_again_loses_nothing(tmp_path: Path, local: Path) -> None:
    with interrupted_scheduler(tmp_path, STUDY) as (main, running):
        running.start_scheduler()
        for _ in range(2):
            running.start_worker()
        output, errors = main.communicate(timeout=120)
        assert main.returncode == 0, output + errors
    check_whole(tmp_path / "out", local, cells=6)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_scheduler_of_24_cells_that_is_killed_twice_loses_nothing(tmp_path: Path) -> None:
    study, out = tiny(8, 5000), tmp_path / "out"
    local = trained_here(study, tmp_path / "local")
    with interrupted_scheduler(tmp_path, study) as (main, running):
        for done in (4, 12):
            running.start_scheduler()
            for _ in range(3):
                running.start_worker()
            assert wait_for(lambda done=done: len(list(out.glob("*/result.json"))) >= done, 300)  # type: ignore[misc]
            running.kill(running.scheduler)
        running.start_scheduler()
        running.start_worker()
        output, errors = main.communicate(timeout=600)
        assert main.returncode == 0, output + errors
    check_whole(out, local, cells=24)


@pytest.mark.slow
def test_scheduler_that_never_comes_back_is_one_sentence_and_the_same_command_goes_on(
    tmp_path: Path, local: Path
) -> None:
    with interrupted_scheduler(tmp_path, STUDY) as (main, _):
        _, errors = main.communicate(timeout=120)
        assert main.returncode != 0
        assert "The Dask scheduler is gone. Nothing is lost: the same command continues." in errors
    with cluster(tmp_path / "again", 2) as running:
        main = start_main(STUDY, tmp_path / "out", running.address)
        output, errors = main.communicate(timeout=200)
        assert main.returncode == 0, errors
        assert "kept " in output
    check_whole(tmp_path / "out", local, cells=6)


# --- failures, refusals, Ctrl-C ---------------------------------------------------------------------------------------


def write_study(folder: Path, study: dict[str, Any]) -> Path:
    path = folder / "study.json"
    path.write_text(json.dumps(study))
    return path


def failing(steps: int) -> dict[str, Any]:
    """A study whose first chain explodes at its first cell."""
    good = tiny(2, steps)["grid"]
    return {"grid": [{**good, "rate": 1e30, "seed": 0}, good]}


@pytest.mark.parametrize("here", [True, False])
def test_cell_that_always_fails_is_reported_its_dependants_are_skipped_and_the_rest_finishes(
    tmp_path: Path, capsys: Capture, here: bool
) -> None:
    study, out = write_study(tmp_path, failing(200)), tmp_path / "out"
    with contextlib.nullcontext() if here else cluster(tmp_path / "cluster", 1) as running:
        where = () if running is None else ("--cluster", running.address)
        code, _, err = call(capsys, "sweep", study, "--out", out, "--json", tmp_path / "result.json", *where)
    result = json.loads((tmp_path / "result.json").read_text())
    (bad, reason), *others = result["failed"].items()
    assert (code, len(result["finished"]), others) == (2, 6, [])
    assert reason.startswith("Training diverged")
    assert list(result["skipped"].values()) == [bad, bad]
    first, last = [line for line in err.splitlines() if line.startswith("ridgeformer: ")]  # not of progress
    assert first == f"ridgeformer: {bad}: {reason}"
    assert last == f"ridgeformer: 1 of 9 cells failed, and 2 that start from them were skipped: {bad}."


def test_second_sweep_is_refused_and_a_main_process_that_is_killed_leaves_nothing_that_disturbs_the_next(
    tmp_path: Path, local: Path, workers: Cluster, capsys: Capture
) -> None:
    out = tmp_path / "out"
    main = start_main(STUDY, out, workers.address)
    assert wait_for(lambda: any(out.glob("*/checkpoints/step-*")))
    for more in ((), ("--cluster", workers.address)):
        code, _, err = call(capsys, "sweep", write_study(tmp_path, STUDY), "--out", out, *more)
        assert (code, err) == (2, f"ridgeformer: Another sweep is working in {out}.\n")
    os.kill(main.pid, signal.SIGKILL)
    main.communicate()
    assert not rf.sweep(STUDY, out=out, cluster=workers.address, checkpoint_seconds=0.2).failed
    check_whole(out, local, cells=6)


OLDER = """
import ridgeformer._version
ridgeformer._version.__version__ = ridgeformer.__version__ = "0.0.1"
"""


def test_worker_with_another_version_is_refused_and_the_others_do_the_work(tmp_path: Path) -> None:
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "sitecustomize.py").write_text(OLDER)
    path = os.pathsep.join([str(tmp_path / "older"), ENVIRONMENT["PYTHONPATH"]])
    study, messages = tiny(1, 40), list[str]()
    with cluster(tmp_path / "cluster") as running:
        running.start_worker(PYTHONPATH=path)
        with pytest.raises(rf.InputError) as caught:
            rf.sweep(study, out=tmp_path / "out", cluster=running.address, on_message=messages.append)
        sentence = one_sentence(caught.value)
        assert f"it has ridgeformer 0.0.1, and the sweep has {rf.__version__}." in sentence
        assert not list((tmp_path / "out").glob("*/*"))
        running.start_worker()
        assert wait_for(lambda: len(running.workers()) == 2)
        started = start_main(study, tmp_path / "out", running.address)
        _, errors = started.communicate(timeout=120)
        assert started.returncode in (0, 1), errors  # 1 if the old worker was first, and alone
        if started.returncode:
            rf.sweep(study, out=tmp_path / "out", cluster=running.address)
    hosts = {row["process"] for rows in attempts(tmp_path / "out").values() for row in rows}
    assert hosts == {running.all[-1].pid}
    assert any("0.0.1" in message for message in messages)


def test_worker_that_does_not_see_the_folder_is_refused(tmp_path: Path) -> None:
    """The worker is in a mount namespace of its own, in which another folder is in the place of the shared one."""
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("only root can hide a folder from a process")
    out = tmp_path / "shared" / "out"
    for hidden, hint in (("shared", "it does not see the folder"), ("shared/out", "that is not the one of the sweep")):
        out.mkdir(parents=True, exist_ok=True)
        with cluster(tmp_path / "cluster") as running:
            hide = f'mount -t tmpfs none "{tmp_path / hidden}" && exec "$@"'
            running.start_worker(prefix=("unshare", "--mount", "sh", "-c", hide, "sh"))
            with pytest.raises(rf.InputError, match=hint) as caught:
                rf.sweep(tiny(1, 40), out=out, cluster=running.address)
            one_sentence(caught.value)
        assert not list(out.glob("*/*"))


def test_interrupt_saves_all_cells_and_the_same_command_goes_on(tmp_path: Path, local: Path, workers: Cluster) -> None:
    out = tmp_path / "out"

    def stop(event: Event) -> None:
        if any(out.glob("*/history.jsonl")) and event.what != "started":
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=re.escape(f"saved in {out}")) as caught:
        rf.sweep(STUDY, out=out, cluster=workers.address, on_event=stop)
    one_sentence(caught.value)
    saved = checkpoints(out)
    assert saved  # though a checkpoint is only due after 15 seconds
    assert wait_for(lambda: not any(is_locked(path) for path in out.rglob("lock")), 10)
    assert not rf.sweep(STUDY, out=out, cluster=workers.address).failed
    for name, step in saved.items():
        begun = [row["from_step"] for row in attempts(out)[name] if "from_step" in row]
        assert begun in ([0, step], [0])  # the second had been finished
    check_whole(out, local, cells=6)


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("tcp://127.0.0.1:9", "There is no Dask scheduler at 'tcp://127.0.0.1:9'"),
        ("tls://127.0.0.1:9", "begins with tls:// needs certificates"),
        ("slrum", "a batch system (slurm, pbs"),
        ("empty.yaml", "must have the settings of one batch system"),
        ("broken.yaml", "is not a dask-jobqueue config file"),
    ],
)
def test_cluster_that_is_none_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ridgeformer.sweeps.cluster._CONNECT", 0.5)
    Path("empty.yaml").write_text("distributed: {}")
    Path("broken.yaml").write_text("jobqueue: [")
    refused(re.escape(hint), rf.sweep, tiny(1, 40), out=tmp_path / "out", cluster=address)


def test_cluster_with_encryption_is_joined_by_those_who_have_its_certificate(tmp_path: Path) -> None:
    files = {"cert": str(tmp_path / "cert.pem"), "key": str(tmp_path / "key.pem")}
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test"]
    subprocess.run([*made, "-keyout", files["key"], "-out", files["cert"]], check=True, capture_output=True)
    comm = "DASK_DISTRIBUTED__COMM__"
    own = {f"{comm}REQUIRE_ENCRYPTION": "True", f"{comm}TLS__CA_FILE": files["cert"]}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        own |= {f"{comm}TLS__{who}__{what.upper()}": path for what, path in files.items()}
    study, out = tiny(1, 40), tmp_path / "out"
    with cluster(tmp_path / "cluster", 1, scheme="tls", **own) as running:
        refused("no Dask scheduler", rf.sweep, study, out=out, cluster=running.address.replace("tls", "tcp"))
        main = start_main(study, out, running.address, environment=own)
        output, errors = main.communicate(timeout=60)
    assert main.returncode == 0, output + errors
    check_whole(out, trained_here(study, tmp_path / "local"), cells=3)


def test_number_of_workers_of_a_scheduler_that_runs_is_refused(tmp_path: Path) -> None:
    refused("has its workers already", rf.sweep, tiny(1, 40), out=tmp_path, cluster="tcp://127.0.0.1:9", workers=2)
