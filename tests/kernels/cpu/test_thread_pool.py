"""A thread pool gives the bytes of one thread, whichever thread runs a piece."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support import mixed_net

from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.run import ALONE
from mdtensor.kernels.cpu.program.steps import Add, Lookup
from mdtensor.kernels.cpu.threads import (
    pool,
    split,
    work_queue,
)
from mdtensor.kernels.cpu.threads.pool import NO_BYTES, NO_PIECES, NO_ROWS, ThreadPool
from mdtensor.kernels.cpu.threads.words import CAN_WAIT, QUEUE_WORDS
from mdtensor.kernels.cpu.threads.work_queue import CALLER, CLOSED, OVER, TAKEN, WAIT

#: Where a script of its own finds `support`.
TESTS = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not CAN_WAIT, reason="threads cannot wait here")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Steps of a few hundred codes are cut, for workers; a loss brings no rest."""
    monkeypatch.setattr(split, "PIECE_NANOSECONDS", 10)
    monkeypatch.setattr(pool, "WAKING", 0.0)
    monkeypatch.setattr(pool, "REST", 0.0)


@pytest.fixture
def built():
    net, outputs = mixed_net.record()
    return net.program.build(outputs)


@pytest.fixture
def short():
    """A few microseconds of work in four groups."""
    program = Program()
    x = y = program.input((1 << 13,), np.uint8)
    for shift in (1, 2):
        table = np.roll(np.arange(256, dtype=np.uint8), shift)
        y = program.append(Lookup(table), y)
        y = program.append(Add((Fraction(1), Fraction(1, 2)), (3, 7)), y, x)
    return program.build([y])


def codes(seed):
    return np.random.default_rng(seed).integers(0, 256, 1 << 13, dtype=np.uint8)


@pytest.mark.parametrize("threads", [2, 3])
def test_bytes_of_one_thread(built, threads):
    x = mixed_net.sample()
    want = mixed_net.digest(built.values(x))
    for _ in range(20):
        assert mixed_net.digest(built.values(x, threads=threads)) == want
    want = mixed_net.digest(built(x))
    for _ in range(20):
        assert mixed_net.digest(built(x, threads=threads)) == want


def test_ten_thousand_calls(short):
    inputs = [codes(seed) for seed in range(4)]
    wanted = [short(x)[0] for x in inputs]
    for i in range(10_000):
        assert np.array_equal(short(inputs[i % 4], threads=2)[0], wanted[i % 4])


def test_four_callers(short):
    inputs = [codes(seed) for seed in range(4)]
    wanted = [short(x)[0] for x in inputs]

    def work(i):
        return all(
            np.array_equal(short(inputs[i], threads=2)[0], wanted[i])
            for _ in range(300)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


@pytest.fixture
def roles(monkeypatch):
    """(who carries out each of so many calls, which begin so many seconds apart)."""
    clock, done, asked = [100.0], [], ThreadPool()
    monkeypatch.setattr(pool, "WAKING", 200e-6)
    monkeypatch.setattr(pool, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(pool, "run", lambda role, *_: done.append(role))
    monkeypatch.setattr(asked, "_hire", lambda count: None)

    def called(job, count, seconds):
        done.clear()
        for _ in range(count):
            asked.run(2, job, NO_BYTES, NO_BYTES)
            clock[0] += seconds
        return done

    return called


@pytest.fixture
def job(short):
    """One that takes one thread 60 microseconds."""
    found = short._layout.job()._replace(profitability=pool.Profitability())
    found.profitability.alone, found.profitability.calls = (
        60e-6,
        2,
    )  # after the first probe
    return found


def test_short_calls_one_by_one_wake_nobody(roles, job):
    assert roles(job, 50, 1e-3) == [ALONE] * 50


def test_calls_in_a_row_wake_workers_who_stay_awake(roles, job):
    """Each misses 30 us, and waking costs 200; pauses of 150 us are too short."""
    assert roles(job, 9, 60e-6) == [ALONE] * 6 + [CALLER] * 3
    assert roles(job, 9, 150e-6) == [CALLER] * 9
    assert roles(job, 1, 1.0) == [CALLER]
    assert roles(job, 9, 1e-3) == [ALONE] * 9


def test_long_calls_wake_workers_each_time(roles, job):
    job.profitability.alone = 1e-3
    assert roles(job, 5, 0.1) == [CALLER] * 5
    job.profitability.alone = None  # nobody knows how long it takes
    assert roles(job, 1, 0.1) == [CALLER]


def has_two_processors():
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


@pytest.mark.skipif(not has_two_processors(), reason="one processor is all there is")
def test_workers_keep_off_the_processor_of_their_caller(short, monkeypatch):
    own = ThreadPool()
    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", own)
    everywhere = os.sched_getaffinity(0)
    for _ in range(20):
        short(codes(0), threads=2)
        at = own._words[work_queue.AT]
        found = os.sched_getaffinity(own.workers[0].native_id)
        assert at in everywhere
        assert found == everywhere - {at}


@pytest.mark.skipif(not has_two_processors(), reason="one processor is all there is")
def test_a_caller_with_one_processor_leaves_workers_where_they_are():
    here, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [here])
    try:
        with ThreadPoolExecutor(1) as pool:
            helper = pool.submit(threading.get_native_id).result()
            os.sched_setaffinity(helper, others)
            given = work_queue.processor(), np.array([helper])
            assert not work_queue.keep_off(*given)
            assert os.sched_getaffinity(helper) == set(others)
    finally:
        os.sched_setaffinity(0, [here, *others])


@pytest.mark.skipif(not has_two_processors(), reason="one processor is all there is")
def test_workers_who_began_beside_a_bound_caller_move_once_it_is_free(
    short, monkeypatch
):
    own, everywhere = ThreadPool(), os.sched_getaffinity(0)
    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", own)
    try:
        for here in sorted(everywhere)[:2]:
            for places in ([here], everywhere):
                os.sched_setaffinity(0, places)
                for _ in range(3):  # the second call is timed alone
                    short(codes(0), threads=2)
            found = os.sched_getaffinity(own.workers[0].native_id)
            assert found == everywhere - {own._words[work_queue.AT]}
    finally:
        os.sched_setaffinity(0, everywhere)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such signals here")
def test_an_interrupt_never_keeps_the_pool(short, monkeypatch):
    def interrupt(*_):
        raise Failure

    own = ThreadPool()
    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", own)
    x, before = codes(0), signal.signal(signal.SIGALRM, interrupt)
    short(x, threads=2)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(pool, "run", lambda *_: None)  # signals come between calls
            for i in range(500):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-6 * (i % 100))
                    while True:
                        short(x, threads=2)
                except Failure:
                    pass
                assert pool.FREE in own._free
    finally:
        signal.signal(signal.SIGALRM, before)
    assert np.array_equal(short(x, threads=2)[0], short(x)[0])


def test_a_worker_that_never_comes(short, monkeypatch):
    alone = ThreadPool()
    monkeypatch.setattr(alone, "_hire", lambda count: None)
    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", alone)
    want = short(codes(0))[0]
    for _ in range(50):
        assert np.array_equal(short(codes(0), threads=2)[0], want)


def test_a_worker_that_cannot_start(short, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    alone = ThreadPool()
    monkeypatch.setattr("threading.Thread.start", refuse)
    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", alone)
    want = short(codes(0))[0]
    assert np.array_equal(short(codes(0), threads=2)[0], want)
    assert not alone.workers
    alone.dismiss()


def _run(executable, x, queue):
    queue.put(executable(x, threads=2)[0].tobytes())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child(short):
    want = short(codes(0), threads=2)[0].tobytes()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    for _ in range(3):
        child = context.Process(target=_run, args=(short, codes(0), queue))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert queue.get() == want


def test_the_process_ends():
    script = f"""
        import sys
        sys.path.insert(0, {str(TESTS)!r})
        from support import mixed_net as net
        from mdtensor.kernels.cpu.threads import split
        split.PIECE_NANOSECONDS = 10
        recorded, outputs = net.record()
        program = recorded.program.build(outputs)
        print(net.digest(program.values(net.sample(), threads=2)))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    net, outputs = mixed_net.record()
    values = net.program.build(outputs).values(mixed_net.sample())
    assert found.stdout.strip() == mixed_net.digest(values)


def published(groups):
    """Words with a job of so many pieces in each group."""
    words = np.zeros(QUEUE_WORDS, np.int64)
    words[TAKEN], words[work_queue.WORKERS] = CLOSED, 1
    publish(words, groups)
    return words


def publish(words, groups):
    first = np.cumsum([0, *groups])
    work_queue.publish(words, first, NO_ROWS, NO_PIECES, NO_BYTES, NO_BYTES)


def test_the_caller_begins_in_front_and_workers_behind():
    words = published([4])
    assert work_queue.take_item(words, CALLER) == 0
    assert work_queue.take_item(words, 1) == 3
    assert work_queue.take_item(words, 1) == 2
    assert work_queue.take_item(words, CALLER) == 1
    assert work_queue.take_item(words, CALLER) == work_queue.take_item(words, 1) == WAIT


def test_a_group_begins_when_the_one_before_is_done():
    words = published([2, 1])
    assert work_queue.take_item(words, CALLER) == 0
    assert work_queue.take_item(words, 1) == 1
    work_queue.finish(words)
    assert work_queue.take_item(words, CALLER) == WAIT
    work_queue.finish(words)
    assert work_queue.take_item(words, 1) == 2
    assert work_queue.take_item(words, CALLER) == WAIT
    work_queue.finish(words)
    assert work_queue.take_item(words, CALLER) == work_queue.take_item(words, 1) == OVER


def test_a_worker_beyond_the_threads_of_the_call_takes_nothing():
    words = published([2])
    assert work_queue.take_item(words, 2) == WAIT
    assert work_queue.take_item(words, 1) == 1


def test_jobs_follow_each_other():
    words = published([1])
    for groups in ([2], [1, 1], [3]):
        count = words[work_queue.DONE]
        while work_queue.take_item(words, CALLER) != OVER:
            work_queue.finish(words)
        assert words[work_queue.DONE] > count
        publish(words, groups)
    assert [work_queue.take_item(words, CALLER) for _ in range(3)] == [0, 1, 2]


def test_a_caller_that_failed_leaves_nothing_to_take():
    words = published([3, 1])
    assert work_queue.take_item(words, 1) == 2
    assert work_queue.take_item(words, CALLER) == 0
    work_queue.finish(words)  # of the worker; the caller's piece failed
    work_queue.withdraw(words)
    assert work_queue.take_item(words, 1) == work_queue.take_item(words, CALLER) == WAIT
    work_queue.withdraw(words)


class Failure(Exception):
    pass


def test_an_error_of_a_worker_reaches_the_caller(short, monkeypatch):
    failing, run = ThreadPool(), pool.run

    def fail(role, words, *arguments):
        if role <= CALLER:
            return run(role, words, *arguments)
        while work_queue.take_item(words, role) < 0:
            pass
        raise Failure

    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", failing)
    monkeypatch.setattr(pool, "run", fail)
    want = short(codes(0))[0]
    found = 0
    while not found:
        try:
            assert np.array_equal(short(codes(0), threads=2)[0], want)
        except Failure:
            found += 1
    monkeypatch.setattr(pool, "run", run)  # ends the worker's loop of failures
    for _ in range(10):
        try:
            assert np.array_equal(short(codes(0), threads=2)[0], want)
        except Failure:
            found += 1
    assert found <= 2


def test_an_error_of_the_caller_is_raised(short, monkeypatch):
    failing, run = ThreadPool(), pool.run

    def fail(role, words, rows, pieces, first, arena, constants):
        if role != CALLER:
            return run(role, words, rows, pieces, first, arena, constants)
        work_queue.publish(words, first, rows, pieces, arena, constants)
        work_queue.take_item(words, CALLER)
        raise Failure

    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", failing)
    want = short(codes(0))[0]
    for _ in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(pool, "run", fail)
            with pytest.raises(Failure):
                short(codes(0), threads=2)
        assert np.array_equal(short(codes(0), threads=2)[0], want)


def test_errors_of_two_threads_end_one_call(short, monkeypatch):
    failing, want = ThreadPool(), short(codes(0))[0]

    def fail(role, *arguments):
        # A worker that fails, too, leaves its error for the caller.
        failing._error = Failure("of a worker")
        raise Failure("of the caller")

    monkeypatch.setattr("mdtensor.kernels.cpu.program.program.POOL", failing)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "run", fail)
        with pytest.raises(Failure, match="of the caller"):
            short(codes(0), threads=2)
    for _ in range(5):
        assert np.array_equal(short(codes(0), threads=2)[0], want)
