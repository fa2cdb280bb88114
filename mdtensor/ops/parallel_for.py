"""`parallel_for`: a Python function over pieces of a range, on all threads."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from operator import index
from typing import Any

from mdtensor.errors import OptionError, ShapeError, checked, shown
from mdtensor.kernels.numpy import threads
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import is_whole

#: Whether the current code is a piece of a `parallel_for`.
_INSIDE: ContextVar[bool] = ContextVar("inside", default=False)


def parallel_for(
    start: int,
    end: int,
    grain: int,
    function: Callable[[int, int], object],
    /,
    *,
    scheduling: object = "uniform",
) -> None:
    """Call function(begin, stop) for pieces that cover range(start, end) once.

    Pieces run on `get_num_threads()` threads, the caller's included, in any order.
    Python code runs on one thread at a time; operations on large tensors, NumPy and
    compiled functions run at the same time. Contexts of the caller, such as
    `promotion_rules` and `checked`, hold in each piece. The call returns when no piece
    runs any more.

    A call inside a piece makes one piece of its range and runs it at once, on the same
    thread: the threads have work already.

    Args:
        start, end: the range; a range without indices does nothing.
        grain: the fewest indices of a piece, except the last one. A range of at most
            `grain` indices is one piece.
        function: takes the first index of a piece and the index behind the last one.
        scheduling: `uniform`, one piece for each thread; `adaptive`, many pieces, for
            indices whose times differ. You may also pass the coordinates `Uniform`
            and `Adaptive` of `tables`.

    Raises:
        ShapeError: `start` or `end` is not an integer of 64 bits.
        OptionError: `grain` is not a positive integer, `function` cannot be called, or
            the scheduling is unknown.
        BaseException: the first exception of a piece; pieces that have not begun are
            skipped.

    Example:
        >>> import numpy as np
        >>> import mdtensor as md
        >>> x, y = np.arange(6.0), np.zeros(6)
        >>> def double(begin, stop):
        ...     y[begin:stop] = 2 * x[begin:stop]
        >>> md.parallel_for(1, 5, 2, double)
        >>> y.tolist()
        [0.0, 2.0, 4.0, 6.0, 8.0, 0.0]

    Source: fVDB, `parallel_for`; ATen, `at::parallel_for`.
    """
    arguments = (start, end, grain, function)
    known = checked("parallel_for", arguments, lambda: _check(*arguments, scheduling))
    # Numbers of NumPy and 0-d tensors become Python's, which do not overflow.
    start, end = index(start), index(end)
    if start >= end:
        return
    if _INSIDE.get():
        function(start, end)
        return
    context = copy_context()
    context.run(_INSIDE.set, True)

    def work(begin: int, stop: int) -> None:
        # A copy for each piece, because two threads cannot enter one context.
        context.copy().run(function, start + begin, start + stop)

    threads.run(work, end - start, known, index(grain))


def _check(start: Any, end: Any, grain: Any, function: Any, scheduling: Any) -> str:
    """Return the name of the scheduling, or raise for a wrong argument."""
    for name, value in (("start", start), ("end", end)):
        if not is_whole(value) or not -(2**63) <= index(value) < 2**63:
            raise ShapeError(f"{name} is {shown(value)}", "Pass an integer of 64 bits")
    if not is_whole(grain) or index(grain) < 1:
        raise OptionError(f"grain is {shown(grain)}", "Use an integer of 1 or more")
    if not callable(function):
        fix = "Pass a function of the first index and the one behind the last"
        raise OptionError(f"{shown(function)} cannot be called", fix)
    # The coordinate `Uniform` of a table stands for the name "uniform".
    if isinstance(scheduling, type):
        scheduling = scheduling.__name__.lower()
    return choice(scheduling, "scheduling", tuple(threads.PIECES))
