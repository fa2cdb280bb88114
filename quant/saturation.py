"""How many numbers lay past the ends of the grid that they were rounded to.

    with counted() as counts:
        md.add(x, y, out=grid)
    sum(counts)

It is asked for by `losses`, and costs nothing otherwise.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_COUNTS: ContextVar[list[int] | None] = ContextVar("saturations", default=None)


@contextmanager
def counted() -> Iterator[list[int]]:
    """A block, and a number for each array that is rounded to a grid in it."""
    counts: list[int] = []
    token = _COUNTS.set(counts)
    try:
        yield counts
    finally:
        _COUNTS.reset(token)


def note(outside: Callable[[], Any]) -> None:
    """Count where `outside()` is true, if anybody asked."""
    counts = _COUNTS.get()
    if counts is not None:
        counts.append(int(np.count_nonzero(outside())))
