"""Floating point that never warns, for a tenth of what `np.errstate` costs.

NumPy keeps its error state in a context variable, so a function that runs inside a
context where everything is ignored is quiet, and entering a context is one C call. A
context cannot be entered twice: each thread has its own, and what finds it entered (a
finalizer that computes while a kernel runs) falls back to `np.errstate`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np


class _Quiet(threading.local):
    """`run(function, *arguments)` of a context that ignores all of floating point."""

    def __init__(self) -> None:
        context = Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


QUIET = _Quiet()


def quietly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """function(*arguments, **options) without a warning of floating point.

    The function sees no context variables of the caller's: it is a kernel.
    """
    try:
        return QUIET.run(function, *arguments, **options)
    except RuntimeError:  # entered already
        with np.errstate(all="ignore"):
            return function(*arguments, **options)


def elementwise(ufunc: np.ufunc, x1: Any, x2: Any) -> Any:
    """quietly(ufunc, x1, x2) as an array, without the cost of packing arguments."""
    try:
        result = QUIET.run(ufunc, x1, x2)
    except RuntimeError:
        result = quietly(ufunc, x1, x2)
    return result if type(result) is np.ndarray else np.asarray(result)
