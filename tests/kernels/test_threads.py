"""The thread pool: every piece once, errors come back, and it survives being used from several threads."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import ridgeformer as rf
from ridgeformer.kernels import threads as pool
from ridgeformer.kernels.threads import default_threads, run_divided


class Recorder:
    """Remembers the ranges it was called with, and the threads it ran in."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.threads: set[str] = set()

    def __call__(self, begin: int, end: int) -> None:
        self.ranges.append((begin, end))
        self.threads.add(threading.current_thread().name)


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 16, 100])
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 16, 1000])
def test_run_divided_covers_every_piece_once_in_near_equal_ranges(pieces: int, threads: int) -> None:
    record = Recorder()
    run_divided(record, pieces, min(threads, 32))
    ranges = sorted(record.ranges)
    assert [number for begin, end in ranges for number in range(begin, end)] == list(range(pieces))
    assert len(ranges) == min(threads, 32, pieces)
    sizes = [end - begin for begin, end in ranges]
    assert max(sizes) - min(sizes) <= 1
    if pieces == 1:
        assert record.threads == {threading.current_thread().name}  # the caller's own


def test_run_divided_over_no_pieces_does_nothing_wrong() -> None:
    record = Recorder()
    run_divided(record, 0, 4)
    assert record.ranges == [(0, 0)]


def test_run_divided_runs_side_by_side() -> None:
    """Three ranges that wait for one another finish only if three threads run at once."""
    barrier = threading.Barrier(3, timeout=30)

    def meet(begin: int, end: int) -> None:
        barrier.wait()

    run_divided(meet, 3, 3)
    assert not barrier.broken


def test_run_divided_on_one_thread_stays_in_the_caller() -> None:
    record = Recorder()
    run_divided(record, 10, 1)
    assert record.threads == {threading.current_thread().name}
    assert record.ranges == [(0, 10)]


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_run_divided_raises_what_a_worker_raises_after_all_have_finished(
    failing: int, error: type[BaseException]
) -> None:
    """Workers write into arrays of the caller: it may not go on while one still runs."""
    finished: list[int] = []
    gate = threading.Event()

    def work(begin: int, end: int) -> None:
        if begin == failing:
            gate.set()
            raise error("on purpose")
        assert gate.wait(30)
        finished.append(begin)

    with pytest.raises(error, match="on purpose"):
        run_divided(work, 4, 4)
    assert sorted([*finished, failing]) == [0, 1, 2, 3]


def test_run_divided_after_an_error_works_again() -> None:
    def fail(begin: int, end: int) -> None:
        raise ValueError

    for _ in range(5):
        with pytest.raises(ValueError):  # noqa: PT011
            run_divided(fail, 4, 4)
    record = Recorder()
    run_divided(record, 4, 4)
    assert len(record.ranges) == 4


def test_run_divided_from_many_threads_at_once_gives_each_its_own() -> None:
    def one(number: int) -> int:
        total = [0] * 50

        def work(begin: int, end: int) -> None:
            for piece in range(begin, end):
                total[piece] += number

        run_divided(work, 50, 4)
        return sum(total)

    with ThreadPoolExecutor(8) as several:
        assert list(several.map(one, range(200))) == [50 * number for number in range(200)]


def test_workers_are_kept_and_do_not_keep_the_interpreter_alive() -> None:
    run_divided(Recorder(), 4, 4)
    before = threading.active_count()
    for _ in range(20):
        run_divided(Recorder(), 4, 4)
    assert threading.active_count() == before
    ours = [thread for thread in threading.enumerate() if thread.name == "ridgeformer"]
    assert ours
    assert all(thread.daemon for thread in ours)


def test_default_threads_is_the_setting_or_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert default_threads() == cores
    monkeypatch.setenv("RIDGEFORMER_THREADS", "3")
    assert default_threads() == 3
    record = Recorder()
    run_divided(record, 10)
    assert len(record.ranges) == 3


def test_forgetting_workers_lets_new_ones_be_hired(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a forked child does: the parent's threads are not there."""
    for name in ("_jobs", "_workers", "_lock"):
        monkeypatch.setattr(pool, name, getattr(pool, name))  # put back afterwards
    pool._forget_workers()
    record = Recorder()
    run_divided(record, 3, 3)
    assert len(record.ranges) == 3


@pytest.mark.parametrize("chosen", ["5000", "257", "9" * 100_000])
def test_more_threads_than_any_machine_has_cores_to_spare_are_refused(
    monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setenv("RIDGEFORMER_THREADS", chosen)
    with pytest.raises(rf.InputError, match="from 1 to 256"):
        default_threads()
