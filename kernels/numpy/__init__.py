"""NumPy kernels for dense tensors: no compilation, no start-up delay.

NumPy's loops take within a few percent of the time of a compiled loop on plain
arithmetic, so a user's first `x + y` need not load a compiler (decision 0002).

This module has floating-point calls without warnings, reuse of the memory of large
results, and shapes. NumPy keeps
its error state in a context variable, so a function that runs inside a context that
ignores all errors does not warn, and entering a context is one C call: a tenth of the
cost of `np.errstate`. A context cannot be entered twice at a time. If the current one
is already entered, because another thread copied our context variables, we create a new
one (decision 0007).
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
#: `runner()(function, *arguments)` does not warn; if it raises LookupError or
#: RuntimeError, call `quietly`, which creates a new context.
runner = _RUN.get


def _renew() -> Run:
    """Set and return the `run` of a new context that ignores all errors."""
    context = Context()
    context.run(np.seterr, all="ignore")
    _RUN.set(context.run)
    return context.run


# Tasks of asyncio start with a copy of this context, and so with a runner.
_renew()


def current() -> Run:
    """Return the runner of this context."""
    try:
        return runner()
    except LookupError:
        return _renew()


def replace(run: Run) -> None:
    """Make `runner()` return `run` in this context, as `observe` does."""
    _RUN.set(run)


# A prepared context replaces `np.errstate`, which costs 1.3 us per call (decision
# 0007).
def quietly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call function(*arguments, **options) without a floating-point warning.

    The function does not see the caller's context variables.
    """
    # LookupError: this thread does not have a runner. RuntimeError: its context is
    # entered.
    try:
        return runner()(function, *arguments, **options)
    except (LookupError, RuntimeError):
        return _renew()(function, *arguments, **options)


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it runs `quietly`."""
    return wraps(function)(partial(quietly, function))


def elementwise(ufunc: Callable[..., Any], *operands: Any) -> Any:
    """Call quietly(ufunc, *operands) and return an array."""
    try:
        found = runner()(ufunc, *operands)
    except (LookupError, RuntimeError):
        found = quietly(ufunc, *operands)
    return found if type(found) is np.ndarray else np.asarray(found)


Array = npt.NDArray[Any]

#: Bytes of a result from which NumPy's allocator asks the system each time.
LARGE = 1 << 24
#: Most bytes of free blocks.
MOST_FREE = 1 << 28


class _Block(np.ndarray[Any, Any]):
    """Memory that owns its bytes."""


class _Loan(np.ndarray[Any, Any]):
    """View of a block, which becomes free when the last view of the loan is gone."""

    def __del__(self) -> None:
        # A slice of a loan is a _Loan too, but its base is the loan.
        if type(self.base) is _Block:
            _release(self.base)


#: Free blocks, the one released last at the end.
_FREE: deque[_Block] = deque()


# The system clears fresh pages at their first touch, which takes as long as an
# addition, so large results reuse the memory of earlier ones (decision 0007).
def empty(shape: tuple[int, ...], dtype: Any, least: int | None = None) -> Array:
    """Return numpy.empty(shape, dtype), if large in memory of an earlier result.

    Args: least: the bytes from which a result is large; LARGE by default.
    """
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    if size < (LARGE if least is None else least):
        return np.empty(shape, dtype)
    block = _take_block(size)
    if block is None:
        block = _Block(size, np.uint8)
    loan = _Loan(block.shape, np.uint8, buffer=block)
    return np.ndarray(shape, dtype, buffer=loan)


def _take_block(size: int) -> _Block | None:
    """Take a free block of `size` bytes or up to a quarter more; None without one."""
    # Every operation on a deque is atomic, but another thread may release or take a
    # block between any two of them, so the length is only a hint.
    for _ in range(len(_FREE)):
        try:
            block = _FREE.pop()
        except IndexError:
            return None
        if size <= block.size <= size + size // 4:
            return block
        _FREE.appendleft(block)
    return None


def _release(block: _Block) -> None:
    """Make a block free, and drop the oldest free blocks beyond MOST_FREE bytes."""
    _FREE.append(block)
    while sum(each.size for each in list(_FREE)) > MOST_FREE:
        try:
            _FREE.popleft()
        except IndexError:
            return


def joint_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which all of `shapes` broadcast; they must be compatible.

    NumPy's own functions stop at 32 axes, this one does not.

    Source: NumPy, `broadcast_shapes`.
    """
    rank = max(map(len, shapes))
    padded = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    columns = zip(*padded, strict=True)
    return tuple(next((n for n in column if n != 1), 1) for column in columns)
