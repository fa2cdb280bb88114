"""Floating point never warns, in any thread, and not where a kernel runs already."""

import threading
from contextvars import copy_context

import numpy as np
import pytest

import mdtensor as md
from mdtensor import linalg
from mdtensor.kernels.numpy import elementwise, quietly

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


SIGNALING = {"float16": 0x7C01, "bfloat16": 0x7F81, "float32": 0x7F800001}


# As plain Python, the loops of functions compute with NumPy's numbers, which warn.
@pytest.mark.compiled
@pytest.mark.parametrize("name", SIGNALING)
def test_a_signaling_nan_is_silent(name: str) -> None:
    dtype = md.dtype(name)
    bits = np.full(9, SIGNALING[name], f"u{dtype.storage.itemsize}")
    x = md.from_numpy(bits.view(dtype.storage))
    image, whole = md.reshape(x, (1, 1, 3, 3)), md.ones(9, dtype=md.int64)
    with np.errstate(all="raise"):
        floats = [md.relu(x), md.sort(x), md.unique_values(x), md.nextafter(x, x)]
        floats += [md.max_pool2d(image, kernel_size=2), md.gelu(x), md.erf(x)]
        floats += [md.max(x), md.min(x, axis=0), md.sum(x), md.mean(x)]
        assert all(md.all(md.isnan(y)) for y in floats)
        truths = [x < whole, whole == x, md.isin(x, x), md.isin(whole, x)]
        assert not any(md.any(y) for y in truths)
        assert md.argsort(x).tolist() == list(range(9))
        assert md.searchsorted(whole[:1], x).tolist() == [1] * 9


@pytest.mark.compiled
def test_nothing_warns_of_numbers_that_become_0() -> None:
    x = md.asarray([[1e-44, -1.0], [-1.0, 1e-44]])
    half = md.asarray([[6e-8, 30.0]], dtype=md.float16)
    with np.errstate(all="raise"):
        assert md.gelu(x * 0.5).shape == md.erf(x).shape == (2, 2)
        assert linalg.eigvalsh(x).shape == (2,)
        assert md.scaled_dot_product_attention(half, half, half).shape == (1, 2)
        assert linalg.matrix_rank(x, rtol=1e300).item() == 0
