"""Floating point that never warns, for a tenth of what `np.errstate` costs.

NumPy keeps its error state in a context variable, so a function that runs inside a
context where everything is ignored is quiet, and entering a context is one C call. A
context cannot be entered twice at a time; whoever finds his entered, because another
thread took a copy of his context variables along, gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar
from functools import partial, wraps
from typing import Any

import numpy as np

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
