"""Floating point never warns, in any thread, and not where a kernel runs already."""

import threading

import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels.dense.quiet import QUIET, elementwise, quietly

BAD = np.array([0.0, np.inf, 3e38], np.float32)


def test_nothing_warns_and_nothing_is_left_changed() -> None:
    before = np.geterr()
    with np.errstate(all="raise"):
        assert np.isnan(quietly(np.subtract, BAD, BAD)).tolist() == [0, 1, 0]
        assert quietly(np.divide, 1, BAD, dtype=np.float32)[0] == np.inf
        assert elementwise(np.add, BAD, BAD)[2] == np.inf
        assert np.geterr()["over"] == "raise"
    assert np.geterr() == before


def test_a_context_that_is_entered_already_is_no_obstacle() -> None:
    def inside() -> list[float]:
        sums = quietly(np.add, BAD, BAD).tolist(), elementwise(np.add, BAD, BAD)
        return [*sums[0], *sums[1].tolist(), *(md.asarray(BAD) + 1).tolist()]

    assert QUIET.run(inside) == inside()


def test_errors_of_the_function_pass_through() -> None:
    for error in (RuntimeError, ValueError):
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
