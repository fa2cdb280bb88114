"""A team of threads: every element once, the same bytes, and nobody waits for ever."""

import os
import threading
import time
from collections import deque
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels.numpy import threads as team, ufunc
from mdtensor.kernels.numpy.threads import ThreadPool

PIECE = 1 << 13
LONG = 9 * PIECE + 123


@pytest.fixture(autouse=True)
def short(monkeypatch: Any) -> None:
    """Arrays of some thousand elements are large."""
    monkeypatch.setattr(team, "PIECE", PIECE)
    for module in (team, ufunc):
        monkeypatch.setattr(module, "LARGE", 2 * PIECE)


@pytest.mark.parametrize("count", [0, 1, PIECE, 2 * PIECE - 1, 2 * PIECE, LONG])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_every_element_is_worked_on_once(size: int, count: int) -> None:
    seen, pieces = np.zeros(count, int), []

    def work(start: int, stop: int) -> None:
        seen[start:stop] += 1
        pieces.append(start)

    ThreadPool(size).spread(work, count)
    assert (seen == 1).all()
    shared = size > 1 and count >= 2 * PIECE
    assert len(pieces) <= 2 * size and all(start % PIECE == 0 for start in pieces)
    assert (len(pieces) > 1) == shared


@pytest.mark.parametrize(("size", "count"), [(3, 2), (3, 3), (3, 9), (1, 4)])
def test_no_more_threads_start_than_have_work(
    size: int, count: int, monkeypatch: Any
) -> None:
    started, start = [], ThreadPool._start_worker

    def start_worker(pool: ThreadPool, pieces: Any, work: Any) -> Any:
        started.append(pool)
        return start(pool, pieces, work)

    monkeypatch.setattr(ThreadPool, "_start_worker", start_worker)
    ThreadPool(size).share(lambda start, stop: None, deque([(0, 1)] * count))
    assert len(started) == min(size, count) - 1


def test_an_error_reaches_the_caller_and_the_team_goes_on() -> None:
    two = ThreadPool(2)

    def fail(start: int, stop: int) -> None:
        if start:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        two.spread(fail, 4 * PIECE)
    two.spread(lambda start, stop: None, 4 * PIECE)


def test_an_error_waits_for_whoever_still_works() -> None:
    """What they write to may be freed as soon as the call has raised."""
    three, begun, done = ThreadPool(3), threading.Barrier(3), []

    def work(start: int, stop: int) -> None:
        begun.wait()
        if start < 2:
            raise ZeroDivisionError(start)
        time.sleep(0.2)
        done.append(start)

    with pytest.raises(ZeroDivisionError):
        three.share(work, deque([(0, 1), (1, 2), (2, 3)]))
    assert done == [2]


def test_an_interrupt_waits_for_whoever_still_works() -> None:
    class Slow:
        """A future whose first wait is interrupted."""

        waits = 0

        def exception(self) -> None:
            self.waits += 1
            if self.waits == 1:
                raise KeyboardInterrupt

    slow: Any = Slow()
    assert isinstance(team._wait_for([slow], None), KeyboardInterrupt)
    assert slow.waits == 2


def test_a_piece_may_spread_work_itself() -> None:
    two, seen = ThreadPool(2), np.zeros((4 * PIECE, 2), int)

    def outer(start: int, stop: int) -> None:
        def inner(first: int, last: int) -> None:
            seen.reshape(-1)[2 * start + first : 2 * start + last] += 1

        two.spread(inner, 2 * (stop - start))

    two.spread(outer, len(seen))
    assert (seen == 1).all()


def test_many_threads_share_a_team() -> None:
    three, found = ThreadPool(3), []

    def call(value: int) -> None:
        out = np.zeros(LONG, int)
        for _ in range(20):
            three.spread(lambda a, b: out[a:b].__iadd__(value), LONG)
        found.append((out == 20 * value).all())

    threads = [threading.Thread(target=call, args=(n,)) for n in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_a_team_of_its_own() -> None:
    x = md.asarray(np.arange(LONG, dtype=np.float32))
    before = md.get_num_threads()
    md.set_num_threads(2)
    try:
        want = (x + x).buffer.tobytes()
        child = os.fork()
        if child == 0:
            os._exit(0 if (x + x).buffer.tobytes() == want else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        md.set_num_threads(before)


@pytest.mark.parametrize("operation", [md.add, md.div, md.exp, md.sin, md.sigmoid])
@pytest.mark.parametrize(
    "dtype", [md.float16, md.bfloat16, md.float32, md.float64], ids=str
)
@pytest.mark.compiled
def test_bytes_do_not_depend_on_the_number_of_threads(
    operation: Any, dtype: Any, rng: Any
) -> None:
    arrays = [rng.standard_normal(LONG).astype(dtype.storage) for _ in range(2)]
    x, y = map(md.from_numpy, arrays)
    operands = (x, y) if operation in (md.add, md.div) else (x,)
    before, found = md.get_num_threads(), set()
    for size in (1, 2, 3, 5):
        md.set_num_threads(size)
        found.add(operation(*operands).buffer.tobytes())
    md.set_num_threads(before)
    assert len(found) == 1


def test_the_number_of_threads_is_set_and_told() -> None:
    before = md.get_num_threads()
    md.set_num_threads(3)
    assert md.get_num_threads() == 3
    md.set_num_threads(before)
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(md.errors.OptionError) as caught:
            md.set_num_threads(wrong)
        assert str(caught.value) == (
            f"set_num_threads({type(wrong).__name__}): {wrong!r} is not a number of "
            "threads. Use an integer from 1 to 64."
        )
    assert md.get_num_threads() == before


def test_the_environment_limits_the_team(monkeypatch: Any) -> None:
    monkeypatch.setenv("MDTENSOR_NUM_THREADS", "3")
    assert team.available() == 3
    cores = {0, 1, 2, 3, 4}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores, raising=False)
    for nonsense in ("", "0", "many", "-2"):
        monkeypatch.setenv("MDTENSOR_NUM_THREADS", nonsense)
        assert team.available() == len(cores)


def test_large_operands_of_every_layout(rng: Any) -> None:
    """What is no row of memory, or does not broadcast, goes another way."""
    a = rng.standard_normal((4, 4 * PIECE)).astype(np.float32)
    x = md.from_numpy(a)
    for b in (a[:, ::-1], a[:1], a[:, :1], np.float32(2), a[:1, :1], a.T.copy().T):
        found = x - md.from_numpy(np.asarray(b))
        assert np.array_equal(found.buffer, a - b)
    column, row = a[0, :, None][: PIECE // 16], a[0][: PIECE // 16]
    product = md.from_numpy(column) * md.from_numpy(row)
    assert np.array_equal(product.buffer, column * row)
    with pytest.raises(md.errors.ShapeError):
        x + md.from_numpy(a[:, 1:])
    assert np.array_equal(md.isnan(x).buffer, np.isnan(a))
    assert np.array_equal((x * 2).buffer, a * 2)


def test_two_threads_take_a_piece_each() -> None:
    pieces: list[tuple[int, int]] = []
    before = md.get_num_threads()
    md.set_num_threads(2)
    try:
        team.run(lambda *ends: pieces.append(ends), 10, "uniform", 1)
        assert sorted(pieces) == [(0, 5), (5, 10)]
        pieces.clear()
        team.run(lambda *ends: pieces.append(ends), 10, "uniform", 10)
        assert pieces == [(0, 10)]
    finally:
        md.set_num_threads(before)
