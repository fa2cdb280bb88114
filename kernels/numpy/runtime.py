"""Floating point that never warns, for a tenth of what `np.errstate` costs.

NumPy keeps its error state in a context variable, so a function that runs inside a
context where everything is ignored is quiet, and entering a context is one C call. A
context cannot be entered twice at a time; whoever finds his entered, because another
thread took a copy of his context variables along, gets a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from functools import partial, wraps
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Run = Callable[..., Any]

_RUN: ContextVar[Run] = ContextVar("run")
#: `runner()(function, *arguments)` is quiet; on LookupError, RuntimeError: `quietly`.
runner = _RUN.get


def _renew() -> Run:
    """The `run` of a new context that ignores everything, from now on the caller's."""
    context = Context()
    context.run(np.seterr, all="ignore")
    _RUN.set(context.run)
    return context.run


_renew()  # tasks start with a copy of what they find


def current() -> Run:
    """Return the runner of this context."""
    try:
        return runner()
    except LookupError:
        return _renew()


def replace(run: Run) -> None:
    """Have `runner()` give `run` in this context; `observe` records calls so."""
    _RUN.set(run)


# A prepared context replaces `np.errstate`, which costs 1.3 us per call (decision
# 0007).
def quietly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """function(*arguments, **options) without a warning of floating point.

    The function sees no context variables of the caller's: it is a kernel.
    """
    try:
        return runner()(function, *arguments, **options)
    except (LookupError, RuntimeError):  # none in this thread yet, or entered already
        return _renew()(function, *arguments, **options)


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, made to run `quietly`."""
    return wraps(function)(partial(quietly, function))


def elementwise(ufunc: Callable[..., Any], *operands: Any) -> Any:
    """quietly(ufunc, *operands) as an array."""
    try:
        found = runner()(ufunc, *operands)
    except (LookupError, RuntimeError):
        found = quietly(ufunc, *operands)
    return found if type(found) is np.ndarray else np.asarray(found)


# Memory of large results, used again: fresh pages cost as much as the arithmetic.
#
# The system gives a large array pages that it clears at their first touch, and takes
# them back with the array. So what large results leave behind is kept, and the next
# result of about that size takes it.

Array = npt.NDArray[Any]

#: Bytes of a result from which NumPy's allocator asks the system each time.
LARGE = 1 << 24
#: Bytes that are kept at most.
KEPT = 1 << 28


class _Block(np.ndarray[Any, Any]):
    """Memory of its own, in bytes."""


class _Loan(np.ndarray[Any, Any]):
    """A view of a block, which is left when nobody looks at the loan any more."""

    def __del__(self) -> None:
        if type(self.base) is _Block:  # and this is no part of a loan
            _keep(self.base)


#: The last one is the last that was left.
_LEFT: deque[_Block] = deque()


# Large results reuse memory, because clearing fresh pages takes as long as an addition
# (decision 0007).
def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """numpy.empty(shape, dtype), in memory that is at hand."""
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    block = _left(size)
    if block is None:
        block = _Block(size, np.uint8)
    loan = _Loan(block.shape, np.uint8, buffer=block)
    return np.ndarray(shape, dtype, buffer=loan)


def _left(size: int) -> _Block | None:
    """A kept block of `size` bytes or a quarter more; None if there is none.

    Each step on the deque is one for all threads, and a loan may end between any two.
    """
    for _ in range(len(_LEFT)):
        try:
            block = _LEFT.pop()
        except IndexError:
            return None
        if size <= block.size <= size + size // 4:
            return block
        _LEFT.appendleft(block)
    return None


def _keep(block: _Block) -> None:
    _LEFT.append(block)
    while sum(kept.size for kept in list(_LEFT)) > KEPT:
        try:
            _LEFT.popleft()
        except IndexError:
            return


# Shapes of arrays with any number of axes; NumPy's own functions stop at 32.


def joint_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which all of `shapes` broadcast, which they do.

    Source: NumPy, `broadcast_shapes`.
    """
    rank = max(map(len, shapes))
    padded = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    columns = zip(*padded, strict=True)
    return tuple(next((n for n in column if n != 1), 1) for column in columns)
