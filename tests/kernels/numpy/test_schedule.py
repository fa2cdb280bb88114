"""Uniform and adaptive pieces: each index once, errors, nesting, threads, forks."""

import os
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from mdtensor.kernels.numpy import threads as schedule
from mdtensor.kernels.numpy.threads import ThreadPool

both = pytest.mark.parametrize("scheduling", schedule.PIECES)
MANY = 100_000


@pytest.fixture(autouse=True)
def three(monkeypatch: Any) -> None:
    """Three threads, however many cores there are."""
    monkeypatch.setattr(schedule, "POOL", ThreadPool(3))


@both
@pytest.mark.parametrize("grain", [1, 7, 1024, MANY, 10 * MANY])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, MANY])
def test_each_index_once(scheduling: str, count: int, grain: int) -> None:
    seen, pieces = np.zeros(count, int), []

    def work(start: int, stop: int) -> None:
        seen[start:stop] += 1
        pieces.append(stop - start)

    schedule.run(work, count, scheduling, grain)
    assert (seen == 1).all()
    assert bool(pieces) == bool(count)
    assert all(length >= min(grain, count) for length in sorted(pieces)[1:])
    assert len(pieces) <= 3 * schedule.PIECES[scheduling]


@pytest.mark.parametrize(("scheduling", "each"), [("uniform", 1), ("adaptive", 16)])
def test_adaptive_pieces_are_many_and_uniform_ones_few(
    scheduling: str, each: int
) -> None:
    """One piece for each thread, or sixteen; all of one length but the last."""
    lengths: dict[int, int] = {}
    schedule.run(
        lambda start, stop: lengths.update({start: stop - start}), MANY, scheduling, 1
    )
    assert len(lengths) == 3 * each
    assert set([lengths[at] for at in sorted(lengths)][:-1]) == {-(-MANY // (3 * each))}


@both
def test_every_thread_gets_a_piece(scheduling: str) -> None:
    """Three pieces that wait for each other end only if three threads work."""
    meeting = threading.Barrier(3, timeout=60)
    first = threading.local()

    def work(start: int, stop: int) -> None:
        if not hasattr(first, "met"):
            first.met = True
            meeting.wait()

    schedule.run(work, MANY, scheduling, 1)


@both
@pytest.mark.parametrize("at", [0, 1, MANY - 1])
def test_an_error_reaches_the_caller_and_the_team_lives(
    scheduling: str, at: int
) -> None:
    def fail(start: int, stop: int) -> None:
        if start <= at < stop:
            raise ZeroDivisionError(at)

    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match=str(at)):
            schedule.run(fail, MANY, scheduling, 1)
        test_each_index_once(scheduling, MANY, 1)


@both
@pytest.mark.parametrize("inner", schedule.PIECES)
def test_a_piece_may_share_out_work_itself(scheduling: str, inner: str) -> None:
    seen = np.zeros((100, 100), int)

    def outer(start: int, stop: int) -> None:
        for row in range(start, stop):

            def fill(first: int, last: int, row: int = row) -> None:
                seen[row, first:last] += 1

            schedule.run(fill, 100, inner, 1)

    schedule.run(outer, 100, scheduling, 1)
    assert (seen == 1).all()


@both
def test_four_threads_submit_at_once(scheduling: str) -> None:
    found = []

    def call() -> None:
        for _ in range(10):
            seen = np.zeros(MANY, int)
            add = partial(lambda seen, a, b: seen[a:b].__iadd__(1), seen)
            schedule.run(add, MANY, scheduling, 1)
            found.append(bool((seen == 1).all()))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 40


@both
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_shares_out_work(scheduling: str, monkeypatch: Any) -> None:
    from mdtensor.kernels.numpy.threads import POOL

    monkeypatch.setattr(schedule, "POOL", POOL)
    before, POOL.size = POOL.size, 2
    try:
        test_each_index_once_with_two(scheduling)
        child = os.fork()
        if child == 0:
            test_each_index_once_with_two(scheduling)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        POOL.size = before


def test_each_index_once_with_two(scheduling: str = "adaptive") -> None:
    seen = np.zeros(MANY, int)
    schedule.run(lambda a, b: seen[a:b].__iadd__(1), MANY, scheduling, 1)
    assert (seen == 1).all()
