"""What is observed of kernels: names, instruction sets, casts; nothing outside."""

import sys
from threading import Thread

import numpy as np
import pytest

from mdtensor.kernels import observe
from mdtensor.kernels.numpy import (
    conversion,
    manipulation,
    matmul,
    pool,
    sorting,
    ufunc,
)
from mdtensor.kernels.numpy.threads import LARGE

FLOATS = np.ones((2, 4), np.float32)
FLOAT32 = np.dtype(np.float32)


def names(seen: observe.Observation) -> list[str]:
    return [kernel.name for kernel in seen.kernels]


def test_ufuncs_are_named_with_the_casts_of_their_loops() -> None:
    with observe.observe_kernels() as seen:
        ufunc.binary(np.add, FLOATS, np.ones((2, 4), np.int8), FLOAT32)
        ufunc.unary(np.sqrt, FLOATS)
    assert names(seen) == ["numpy.add", "numpy.sqrt"]
    assert all(kernel.isa.startswith("NumPy") for kernel in seen.kernels)
    assert seen.casts == [("int8", "float32")]


def test_compiled_functions_are_named() -> None:
    with observe.observe_kernels() as seen:
        ufunc.unary(np.exp, FLOATS)
    assert seen.kernels == [observe.Kernel("exp_f32", "generic")]


def test_promotion_of_an_operand_is_a_cast() -> None:
    halves = np.ones(4, np.float16)
    with observe.observe_kernels() as seen:
        ufunc.binary(np.maximum, halves, np.ones(4, np.int8), halves.dtype)
    assert seen.casts == [("int8", "float16")]
    assert "kernels.numpy.conversion.promote" not in names(seen)


def test_a_kernel_of_numpy_is_named_and_its_parts_are_not() -> None:
    with observe.observe_kernels() as seen:
        manipulation.concat([FLOATS, np.ones((2, 4), np.int8)], 0, FLOAT32)
        image, two = np.ones((1, 1, 4, 4), np.float32), (2, 2)
        pool.max_pool2d(image, two, two, (0, 0, 0, 0), two)
        sorting.sort(FLOATS, 0, False)
    places = ["manipulation.concat", "pool.max_pool2d", "sorting.sort"]
    assert names(seen) == [f"kernels.numpy.{place}" for place in places]
    assert seen.casts == [("int8", "float32")]


def test_private_functions_are_not_kernels() -> None:
    conversion._nmant.cache_clear()  # it runs on the first call only
    found = []
    for _ in range(2):
        with observe.observe_kernels() as seen:
            conversion._nmant(np.dtype(np.float16))
            conversion.saturating(FLOATS, np.dtype(np.float16))
        found.append(names(seen))
    assert found == [["kernels.numpy.conversion.saturating"]] * 2


def test_compiled_kernels_report_themselves_to_the_inner_block() -> None:
    observe.ran("gemm", "avx2")  # nobody observes
    with observe.observe_kernels() as outer:
        observe.ran("gemm", "avx2")
        with observe.observe_kernels() as inner:
            observe.ran("lookup", "generic")
            matmul.matmul(FLOATS, FLOATS.T, FLOAT32)
        observe.ran("gemm", "avx2")
    assert outer.kernels == [("gemm", "avx2")]
    assert inner.kernels[0] == ("lookup", "generic") and inner.kernels[0].is_compiled
    assert names(inner)[1:] == ["kernels.numpy.matmul.matmul"]


def test_elements_that_threads_share_are_one_kernel() -> None:
    with observe.observe_kernels() as seen:
        ufunc.unary(np.sqrt, np.ones(LARGE, np.float32))
    assert names(seen) == ["numpy.sqrt"]


def test_work_is_reported_whatever_the_number_of_threads() -> None:
    observe.spread(np.sqrt, FLOATS)  # nobody observes
    with observe.observe_kernels() as seen:
        observe.spread(np.sqrt, FLOATS)
    assert names(seen) == ["numpy.sqrt"]


def test_methods_and_short_names_of_functions() -> None:
    """Only `astype` of an array is a cast; a name may have any letters behind."""

    def a_b() -> None: ...

    a_b.__module__ = "mdtensor.kernels.numpy.sorting"
    halves = FLOATS.view(type("Halves", (np.ndarray,), {}))
    with observe.observe_kernels() as seen:
        seen.note_call(FLOATS.copy, (), {})
        seen.note_call(halves.astype, (np.dtype(np.float16),), {})
        seen.note_call(a_b, (), {})
    assert seen.casts == [("float32", "float16")]
    assert names(seen) == ["numpy.copy", "kernels.numpy.sorting.a_b"]


def test_an_error_ends_it_and_nothing_stays() -> None:
    with pytest.raises(ZeroDivisionError), observe.observe_kernels():
        raise ZeroDivisionError
    with observe.observe_kernels() as seen:
        pass
    ufunc.unary(np.sqrt, FLOATS)
    assert (seen.kernels, observe.ACTIVE, sys.getprofile()) == ([], 0, None)


def test_other_threads_are_not_observed() -> None:
    with observe.observe_kernels() as seen:
        thread = Thread(target=ufunc.unary, args=(np.sqrt, FLOATS))
        thread.start()
        thread.join()
    assert seen.kernels == []
