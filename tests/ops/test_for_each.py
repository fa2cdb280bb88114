"""for_each and its views: what is refused, and in which words."""

import math
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import mdtensor as md

compiled = pytest.mark.compiled


def fill(i, y, value=1.0):
    y[i] = value


def steps(i, y):
    yield i


def line(function: Any) -> str:
    code = function.__code__
    return f"{function.__name__} at test_for_each.py:{code.co_firstlineno}"


def test_defaults_count_and_scalars() -> None:
    y = md.zeros(3)
    md.for_each(2, fill, md.flat_out(y))
    assert y.tolist() == [1.0, 1.0, 0.0]
    md.for_each(np.int64(3), fill, md.flat_out(y), np.float32(0.5))
    assert y.tolist() == [0.5] * 3
    md.for_each(3, lambda i, y: None, md.flat_out(y))
    md.for_each(0, fill, md.flat_out(y), 7.0)
    assert y.tolist() == [0.5] * 3


def test_scheduling_by_coordinate() -> None:
    y = md.zeros(3)
    for coordinate in (md.tables.Uniform, md.tables.Adaptive):
        md.for_each(3, fill, md.flat_out(y), scheduling=coordinate)
    assert y.tolist() == [1.0] * 3


@compiled
def test_the_first_call_of_several_threads() -> None:
    def double(i, y):
        y[i] *= 2

    found = []

    def call() -> None:
        y = md.ones(100)
        md.for_each(100, double, md.flat_out(y))
        found.append(y.tolist() == [2.0] * 100)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_python_integers_and_truth_values() -> None:
    y = md.zeros(2, dtype=md.uint64)

    def put(i, y, n, more):
        y[i] = n + 1 if more else n

    md.for_each(2, put, md.flat_out(y), 2**62, True)
    assert y.tolist() == [2**62 + 1] * 2


REFUSED = {
    "count": (
        lambda y: md.for_each(-1, fill, y),
        md.ShapeError,
        (
            "for_each(int, function, View[3]): count is -1. Give an integer of 0 or "
            "more."
        ),
    ),
    "count of a wrong type": (
        lambda y: md.for_each(2.0, fill, y),
        md.ShapeError,
        (
            "for_each(float, function, View[3]): count is 2.0. Give an integer of 0 or "
            "more."
        ),
    ),
    "function": (
        lambda y: md.for_each(1, math.exp, y),
        md.OptionError,
        (
            "for_each(int, builtin_function_or_method, View[3]): "
            "builtin_function_or_method is not a Python function. Define one with "
            "def or "
            "lambda."
        ),
    ),
    "parameters": (
        lambda y: md.for_each(1, fill, y, 1.0, 2.0),
        md.OptionError,
        (
            "for_each(int, function, View[3], float, float): fill gets an index "
            "and 3 "
            "arguments. It takes i, y, value."
        ),
    ),
    "too few": (
        lambda y: md.for_each(1, fill),
        md.OptionError,
        (
            "for_each(int, function): fill gets an index and 0 arguments. It "
            "takes i, "
            "y, value."
        ),
    ),
    "tensor": (
        lambda y: md.for_each(1, fill, md.zeros((2, 3))),
        md.DispatchError,
        (
            "for_each(int, function, Float32Tensor[2,3]): the argument is "
            "Float32Tensor[2,3], but compiled functions take a view or a number. "
            "Use flat_in(x) to read it, flat_out(x) to write."
        ),
    ),
    "array": (
        lambda y: md.for_each(1, fill, np.zeros(3)),
        md.DispatchError,
        (
            "for_each(int, function, ndarray[3]): ndarray is neither a view nor a "
            "number. Give "
            "views "
            "and Python numbers."
        ),
    ),
    "long integer": (
        lambda y: md.for_each(1, fill, y, 2**64),
        md.CastError,
        (
            "for_each(int, function, View[3], int): an integer has more than 64 bits. "
            "Give "
            "a float."
        ),
    ),
    "scheduling": (
        lambda y: md.for_each(1, fill, y, scheduling="static"),
        md.OptionError,
        (
            "for_each(int, function, View[3]): scheduling is 'static'. Use one of "
            "'uniform', 'adaptive'."
        ),
    ),
    "keyword": (
        lambda y: md.for_each(1, lambda i, *, y: None, y),
        md.OptionError,
        (
            "for_each(int, function, View[3]): <lambda> has keyword-only parameters. "
            "Make all its parameters positional."
        ),
    ),
    "generator": (
        lambda y: md.for_each(1, steps, y),
        md.OptionError,
        (
            "for_each(int, function, View[3]): steps is a generator or coroutine. "
            "Define one with def or lambda."
        ),
    ),
    "grain": (
        lambda y: md.for_each(1, fill, y, grain=0),
        md.OptionError,
        "for_each(int, function, View[3]): grain is 0. Use an integer of 1 or more.",
    ),
    "view of no tensor": (
        lambda y: md.flat_in([1.0]),
        md.DispatchError,
        (
            "flat_in(list): expected a tensor of numbers or bools. Use asarray(x), "
            "or astype(x, "
            "dtype) of a tensor."
        ),
    ),
    "read-only": (
        lambda y: md.flat_out(md.broadcast_to(md.zeros(2), (2, 2))),
        md.WriteError,
        (
            "flat_out(Float32Tensor[2,2]): the buffer is read-only. Write into "
            "asarray(x, "
            "copy=True)."
        ),
    ),
    "shared": (
        lambda y: md.ranked_out(
            md.from_numpy(np.lib.stride_tricks.as_strided(np.zeros(2), (2, 2), (0, 8)))
        ),
        md.WriteError,
        (
            "ranked_out(Float64Tensor[2,2]): several indices share one element. Write "
            "into "
            "asarray(x, copy=True)."
        ),
    ),
    "no dimensions": (
        lambda y: md.ranked_in(md.asarray(1.0)),
        md.DispatchError,
        (
            "ranked_in(Float32Tensor[]): a 0-d tensor does not have an index. Use "
            "flat_in(x) or "
            "flat_out(x)."
        ),
    ),
    "index": (
        lambda y: y[3],
        md.BoundsError,
        "View[3]: index 3 does not exist.",
    ),
    "negative index": (
        lambda y: y[-1],
        md.BoundsError,
        "View[3]: index -1 does not exist.",
    ),
    "two indices": (
        lambda y: y[0, 0],
        md.DispatchError,
        "View[3]: expected 1 index of a view, got 2.",
    ),
    "device": (
        lambda y: md.flat_in(md.CudaFloat32Tensor.wrap(np.zeros(2, np.float32))),
        md.NoMethodError,
        (
            "flat_in(CudaFloat32Tensor[2]): no method for cuda:0 yet. Move the "
            'operands with to("cpu").'
        ),
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_mistakes_are_refused_before_anything_runs(
    call: Any, kind: type[Exception], text: str
) -> None:
    y = md.zeros(3)
    with pytest.raises(kind) as caught:
        call(md.flat_out(y))
    assert str(caught.value) == text
    assert y.tolist() == [0.0] * 3


def past(i, x, y):
    y[i] = x[i + 1]


def before(i, x, y):
    y[i] = x[i - 1]


def corner(i, x, y):
    y[i, 0] = x[i, 2]


@pytest.mark.parametrize("scheduling", ["uniform", "adaptive"])
@pytest.mark.parametrize("function", [past, before])
@pytest.mark.parametrize("step", [1, 2])
def test_an_index_outside_is_our_error(
    function: Any, step: int, scheduling: str
) -> None:
    x, y = (md.from_numpy(np.zeros(4000 * step)[::step]) for _ in range(2))
    with pytest.raises(md.BoundsError) as caught:
        views = md.flat_in(x), md.flat_out(y)
        md.for_each(4000, function, *views, scheduling=scheduling)
    assert str(caught.value) == (
        f"for_each(int, function, View[4000], View[4000]): {line(function)} indexes "
        "outside a view. Indices of a view are from 0 to its size - 1."
    )


def test_a_ranked_index_outside_is_our_error() -> None:
    x, y = md.zeros((3, 2)), md.zeros((3, 2))
    with pytest.raises(md.BoundsError, match=r"corner at .* indexes outside a view"):
        md.for_each(3, corner, md.ranked_in(x), md.ranked_out(y.T.T))


def test_an_index_error_of_the_function_stays() -> None:
    def fail(i, y):
        raise IndexError("mine")

    with pytest.raises(IndexError, match="mine") as caught:
        md.for_each(1, fail, md.flat_out(md.zeros(1)))
    assert not isinstance(caught.value, md.MdtensorError)


def reads(i, x, y):
    x[i] = y[i]


def narrows(i, x, y):
    y[i] = x[i] + 1j


def unknown(i, x, y):
    y[i] = nowhere(x[i])  # noqa: F821


def twice(x):
    return 2 * x


def calls(i, x, y):
    y[i] = twice(x[i])


def foreign(i, x, y):
    y[i] = str(x[i])


def adds_views(i, x, y):
    x + y


def opens(i, x, y):
    with open("file"):  # noqa: PTH123
        y[i] = 1.0


def fraction(i, x, y):
    y[0.5] = 1.0


UNCOMPILABLE = {
    reads: (
        1,
        "the function writes to a read-only view. Use flat_out(x) or ranked_out",
    ),
    narrows: (1, "complex128 is written to elements of float32."),
    unknown: (
        0,
        "NameError: name 'nowhere' is not defined. Define it before the call.",
    ),
    calls: (
        1,
        "twice is a function that is not compiled. Decorate twice with numba.njit.",
    ),
    foreign: (1, "str is written to elements of float32."),
    adds_views: (1, "there is no add(contiguous view of float32, writable contiguous"),
    fraction: (1, "expected an integer index of a view, got float64."),
}


@compiled
@pytest.mark.parametrize("function", UNCOMPILABLE, ids=lambda f: f.__name__)
def test_what_cannot_be_compiled_is_said_in_one_sentence(function: Any) -> None:
    below, reason = UNCOMPILABLE[function]
    y = md.zeros(3)
    with pytest.raises(md.CompileError) as caught:
        md.for_each(3, function, md.flat_in(md.zeros(3)), md.flat_out(y))
    text = str(caught.value)
    at = function.__code__.co_firstlineno + below
    place = f"{function.__name__} at test_for_each.py:{at}"
    start = f"for_each(int, function, View[3], View[3]): {place} cannot be compiled: "
    assert text.startswith(start + reason), text
    assert "\n" not in text
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert not y.buffer.any()


@compiled
def test_unsupported_statements_are_said_too() -> None:
    with pytest.raises(
        md.CompileError, match="Unsupported context manager in use"
    ) as caught:
        md.for_each(1, opens, md.flat_in(md.zeros(1)), md.flat_out(md.zeros(1)))
    assert "\n" not in str(caught.value)


def test_views_show_what_they_are() -> None:
    view = md.ranked_in(md.zeros((2, 3), dtype=md.int8))
    assert repr(view) == "View[2,3] of Int8Tensor[2,3]"
    assert (view.shape, view.size) == ((2, 3), 6)
    with pytest.raises(md.DispatchError, match="writes to a read-only view"):
        view[0, 0] = 1


def test_without_compilation_functions_run_in_python() -> None:
    script = """
import mdtensor as md
seen = []
def look(i, x, y):
    seen.append(type(x[i]))
    y[i] = x[i] * 2
x, y = md.asarray([1.0, 2.0], dtype=md.bfloat16), md.zeros(2, dtype=md.float16)
md.for_each(2, look, md.flat_in(x), md.flat_out(y))
print(y.tolist(), seen[0].__name__)
for wrong in (lambda i, x, y: x.__setitem__(i, 1), lambda i, x, y: y[i + 9]):
    try:
        md.for_each(2, wrong, md.flat_in(x), md.flat_out(y))
    except md.MdtensorError as error:
        print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split("\n")[:3] == [
        "[2.0, 4.0] float",
        "CompileError",
        "BoundsError",
    ], done.stderr


@pytest.mark.parametrize("given", [(2, 3), None, "flat"])
def test_a_view_is_made_by_its_functions(given: Any) -> None:
    with pytest.raises(md.DispatchError, match="Use flat_in"):
        md.View(md.ones((2, 3)), given)
