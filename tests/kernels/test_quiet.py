"""Floating point never warns, in any thread, and not where a kernel runs already."""

import threading
from contextvars import copy_context

import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels.dense.quiet import elementwise, quietly

BAD = np.array([0.0, np.inf, 3e38], np.float32)


def test_nothing_warns_and_nothing_is_left_changed() -> None:
    before = np.geterr()
    with np.errstate(all="raise"):
        assert np.isnan(quietly(np.subtract, BAD, BAD)).tolist() == [0, 1, 0]
        assert quietly(np.divide, 1, BAD, dtype=np.float32)[0] == np.inf
        assert elementwise(np.add, BAD, BAD)[2] == np.inf
        assert np.geterr()["over"] == "raise"
    assert np.geterr() == before


def test_what_runs_quietly_may_call_on() -> None:
    def inside() -> list[float]:
        sums = quietly(np.add, BAD, BAD).tolist(), elementwise(np.add, BAD, BAD)
        return [*sums[0], *sums[1].tolist(), *(md.asarray(BAD) + 1).tolist()]

    assert quietly(inside) == inside()


def test_a_copied_context_in_another_thread_is_no_obstacle() -> None:
    """Both threads find the same context; one of them finds it entered."""
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        assert done.wait(10)

    thread = threading.Thread(target=copy_context().run, args=(quietly, hold))
    thread.start()
    assert inside.wait(10)
    for function in (quietly, elementwise):
        assert function(np.add, BAD, BAD)[2] == np.inf
    done.set()
    thread.join()


def test_errors_of_the_function_pass_through() -> None:
    for error in (RuntimeError, KeyError, ValueError):
        with pytest.raises(error, match="bad"):
            quietly(_fail, error)


def _fail(error: type[Exception]) -> None:
    raise error("bad")


def test_each_thread_has_its_own_context() -> None:
    found: list[float] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            found.append(float(quietly(np.add, BAD, BAD)[2]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [np.inf] * 800


def test_numbers_stay_arrays() -> None:
    one = np.asarray(1, np.float32)
    assert type(elementwise(np.add, one, one)) is np.ndarray
    assert type((md.asarray(1.0) + 1).buffer) is np.ndarray
