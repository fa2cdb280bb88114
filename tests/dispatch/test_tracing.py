"""What is written down about calls, and what that costs when nobody asks."""

import asyncio
import operator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import mdtensor as md
from mdtensor import quant

X: Any = md.asarray([1.0, 2.0])


def test_a_call_says_what_ran() -> None:
    with md.traced() as calls:
        y = X + 1
    (call,) = calls
    assert y.tolist() == [2.0, 3.0]
    assert (call.operation, call.types, call.depth) == (
        "add",
        (md.Float32Tensor, int),
        0,
    )
    assert call.method is md.which(md.add, X, 1).method
    assert call.location == call.method.location
    assert call.location.startswith("mdtensor/ops/arithmetic.py:")
    assert call.device is md.cpu
    found = md.which(md.add, X, 1)
    assert str(call) == f"{found.line}  {found.kernel}, {found.isa}"
    assert call.kernel == "numpy.add"


def test_calls_inside_calls_are_deeper() -> None:
    with md.registry.restored():

        @md.generic
        def outer(x: Any, /) -> Any:
            """relu(x) + x."""

        @md.method(outer)
        def outer(x: md.RealTensor, /) -> Any:
            return md.relu(x) + x

        with md.traced() as calls:
            outer(X)
            md.neg(X)
    shown = [(call.operation, call.depth) for call in calls]
    assert shown == [("outer", 0), ("relu", 1), ("add", 1), ("neg", 0)]
    assert str(calls[1]).startswith("  relu(Float32Tensor) -> relu(RealTensor)")


def test_one_path_for_method_operator_and_function() -> None:
    """The same calls, however they are spelled."""
    y = md.asarray([3, 4])
    spellings: list[list[Any]] = [
        [lambda: X.add(y), lambda: X + y, lambda: md.add(X, y)],
        [lambda: X.matmul(X), lambda: X @ X, lambda: md.matmul(X, X)],
        [lambda: X.neg(), lambda: -X, lambda: md.neg(X)],
        [lambda: X.less(y), lambda: operator.lt(X, y), lambda: md.less(X, y)],
        [lambda: X.sum(axis=0), lambda: md.sum(X, axis=0)],
        [lambda: X.getitem(key=0), lambda: X[0], lambda: md.getitem(X, key=0)],
    ]
    for ways in spellings:
        found = []
        for way in ways:
            with md.traced() as calls:
                result = way()
            found.append((calls, result.tolist()))
        assert found == [found[0]] * len(ways)
        assert found[0][0]


def test_all_spellings_of_every_operator() -> None:
    for name in ("add", "sub", "mul", "truediv", "pow", "eq", "ge"):
        ours = {"truediv": "div", "eq": "equal", "ge": "greater_equal"}.get(name, name)
        traces = []
        for way in (getattr(operator, name), getattr(md, ours)):
            with md.traced() as calls:
                way(X, X)
            traces.append(calls)
        with md.traced() as calls:
            getattr(X, ours)(X)
        assert traces == [calls, calls]


def test_options_and_sequences_and_rounding() -> None:
    q = quant.quantize(X, qparams=quant.QParams(0.25, 3, dtype=quant.qint8))
    with md.traced() as calls:
        md.concat([X, X], axis=0)
        md.add(q, q, out=q.qparams)
    assert [call.operation for call in calls if call.depth == 0] == ["concat", "add"]
    assert calls[0].types == (md.Float32Tensor, md.Float32Tensor)


def test_traces_nest() -> None:
    with md.traced() as outer:
        X + X
        with md.traced() as inner:
            X * X
        X - X
    assert [call.operation for call in inner] == ["mul"]
    assert [call.operation for call in outer] == ["add", "mul", "sub"]


def test_what_fails_inside_is_listed_and_what_has_no_method_is_not() -> None:
    with md.traced() as calls:
        with pytest.raises(md.ShapeError):
            X + md.ones((3,))
        with pytest.raises(md.DispatchError):
            md.add(X, "a")
        X * X
    assert [(call.operation, call.depth) for call in calls] == [("add", 0), ("mul", 0)]


def test_an_error_ends_the_trace() -> None:
    with pytest.raises(ZeroDivisionError), md.traced() as calls:
        raise ZeroDivisionError
    X + X
    assert calls == []


def test_other_threads_are_not_listed_and_run() -> None:
    with md.traced() as calls, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: (X + X).tolist(), range(40)))
        X * X
    assert found == [[2.0, 4.0]] * 40
    assert [call.operation for call in calls] == ["mul"]


def test_threads_trace_themselves() -> None:
    def run(number: int) -> list[str]:
        with md.traced() as calls:
            for _ in range(number):
                X + X
        return [call.operation for call in calls]

    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(run, range(40))):
            assert found == ["add"] * number


def test_tasks_are_listed_where_they_were_started() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        X + X

    async def traced() -> list[str]:
        with md.traced() as calls:
            await asyncio.gather(work(), work())
        return [call.operation for call in calls]

    async def main() -> list[Any]:
        return await asyncio.gather(traced(), work(), traced())

    assert asyncio.run(main()) == [["add", "add"], None, ["add", "add"]]


def test_a_call_has_the_fields_that_the_guide_lists() -> None:
    with md.traced() as calls:
        X + md.asarray([1, 2], dtype=md.int8)
    (call,) = calls
    found = md.which("add", X, md.asarray([1, 2], dtype=md.int8))
    for name in ("method", "casts", "kernel", "isa", "kernels", "device"):
        assert getattr(call, name) == getattr(found, name)
    assert call.selection == md.which(md.add, md.Float32Tensor, md.Int8Tensor)
    assert call.selection.promotion is md.float32
    for name in ("result", "error", "promotion"):
        assert not hasattr(call, name)


def test_nothing_is_left_when_it_is_over() -> None:
    X + X
    with md.traced() as calls:
        X + X
        assert md.add.operation.table == {}
    X + X
    found = md.add.operation.table[md.Float32Tensor][md.Float32Tensor]
    assert md.Operation.observe is None
    with md.traced() as again:
        X + X
    X + X
    after = md.add.operation.table[md.Float32Tensor][md.Float32Tensor]
    assert (found.__code__, calls) == (after.__code__, again)


def test_blocks_may_end_in_another_order_than_they_began() -> None:
    x = md.asarray([1.0, 2.0])
    first, second = md.traced(), md.traced()
    of_first, of_second = first.__enter__(), second.__enter__()
    md.add(x, x)
    first.__exit__(None, None, None)
    md.sub(x, x)
    second.__exit__(None, None, None)
    with md.traced():
        md.neg(x)
    assert [call.operation for call in of_first] == ["add"]
    assert [call.operation for call in of_second] == ["add", "sub"]
