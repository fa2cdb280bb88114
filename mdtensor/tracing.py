"""Calls as they happen: the method that each runs, and inside which other call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mdtensor.selection import Method, Selection
from mdtensor.watching import watched

#: The lists being written here, each with the depth of the next call in it.
_WRITTEN: ContextVar[tuple[tuple[list[Call], int], ...]] = ContextVar(
    "traces", default=()
)


@dataclass(frozen=True)
class Call:
    """One call of an operation, as `traced` writes it down.

    Args:
        selection: the operation, the types of the arguments, and the method.
        depth: how many calls of operations it is inside of.
    """

    selection: Selection
    depth: int

    @property
    def operation(self) -> str:
        return str(self.selection.operation.name)

    @property
    def types(self) -> tuple[type, ...]:
        return self.selection.types

    @property
    def method(self) -> Method:
        return self.selection.method

    @property
    def location(self) -> str:
        """`package/file.py:line` of the method."""
        return self.method.location

    @property
    def device(self) -> Any:
        """Where its first tensor lives; None if it has none."""
        homes = (getattr(kind, "device", None) for kind in self.types)
        return next((home for home in homes if home is not None), None)

    def __str__(self) -> str:
        return f"{'  ' * self.depth}{self.selection}"


# Tracing empties the call caches, so that calls need no flag to test (decision 0015).
@contextmanager
def traced() -> Iterator[list[Call]]:
    """The calls of operations in a `with` block, in the order in which they begin.

    Those of the block's own thread and of tasks that it starts are listed, those of
    other threads are not; they only take the longer way meanwhile. A call without a
    method raises, and is not listed; nor is what `select` gave, when it is invoked.

    Returns:
        A list of `Call`, which grows.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.0, 2.0])
        >>> with traced() as calls:
        ...     y = x + md.relu(x)
        >>> [call.operation for call in calls]
        ['relu', 'add']
        >>> print(calls[0])  # doctest: +ELLIPSIS
        relu(Float32Tensor) -> relu(RealTensor)  mdtensor/ops/activation.py:...

    Source: Julia, "Cassette.jl"; Python, `sys.settrace`.
    """
    calls: list[Call] = []
    with watched(_observed):
        _WRITTEN.set((*_WRITTEN.get(), (calls, 0)))
        try:
            yield calls
        finally:  # blocks may end in another order than they began
            _WRITTEN.set(tuple(w for w in _WRITTEN.get() if w[0] is not calls))


def _observed(selection: Selection, function: Callable[..., Any]) -> Any:
    """`function`, which writes itself down where there is a trace."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        written = _WRITTEN.get()
        for calls, depth in written:
            calls.append(Call(selection, depth))
        token = _WRITTEN.set(tuple((calls, depth + 1) for calls, depth in written))
        try:
            return function(*arguments, **options)
        finally:
            _WRITTEN.reset(token)

    return call
