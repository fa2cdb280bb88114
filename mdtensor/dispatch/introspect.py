"""Calls as they happen: method, function and kernel of each, and their nesting."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mdtensor.dispatch import call_errors
from mdtensor.dispatch.method import Method, Selection, Trial
from mdtensor.dispatch.place import place_of
from mdtensor.kernels.observe import Cast, Kernel, Seen, observed
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
        function: the function that ran: the method, its fast path, or with `out=` the
            method again.
    """

    selection: Selection
    depth: int
    function: Callable[..., Any] = field(compare=False)
    _seen: list[Seen] = field(default_factory=list, compare=False, repr=False)

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
    def place(self) -> str:
        """`package/file.py:line` of the function that ran."""
        return place_of(self.function)

    @property
    def device(self) -> Any:
        """The device of its first tensor; None if there is none."""
        return self.selection.device

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that ran, in order; calls inside of it list their own."""
        return tuple(kernel for seen in self._seen for kernel in seen.kernels)

    @property
    def casts(self) -> tuple[Cast, ...]:
        """(from, to) for each conversion of elements, before or inside a kernel."""
        return tuple(cast for seen in self._seen for cast in seen.casts)

    @property
    def kernel(self) -> str | None:
        """Name of the kernel that did the work; None if none was seen."""
        found = Trial(kernels=self.kernels).kernel
        return None if found is None else str(found.name)

    @property
    def isa(self) -> str | None:
        """Instruction set of that kernel."""
        found = Trial(kernels=self.kernels).kernel
        return None if found is None else str(found.isa)

    def __str__(self) -> str:
        call = call_errors.called(self.selection.operation, self.types)
        line = f"{'  ' * self.depth}{call} -> {self.method}  {self.place}"
        return f"{line}  {self.kernel}, {self.isa}" if self.kernels else line


# Tracing empties the call caches, so that calls need no flag to test (decision 0015).
@contextmanager
def traced() -> Iterator[list[Call]]:
    """List the calls of operations in a `with` block, in the order in which they begin.

    Each names the function that ran, its kernel and instruction set. The list has calls
    of the block's own thread and of tasks that it starts; other threads run as ever,
    a little slower. A call without a method raises and is not listed, nor is a call
    of what `select` returned.

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
        if not written:  # of another thread
            return function(*arguments, **options)
        records = [Call(selection, depth, _own(function)) for _, depth in written]
        for (calls, _), record in zip(written, records, strict=True):
            calls.append(record)
        token = _WRITTEN.set(tuple((calls, depth + 1) for calls, depth in written))
        try:
            with observed() as seen:
                for record in records:
                    record._seen.append(seen)
                return function(*arguments, **options)
        finally:
            _WRITTEN.reset(token)

    return call


@contextmanager
def untraced() -> Iterator[None]:
    """Run calls that no trace of this context lists, in a `with` block."""
    token = _WRITTEN.set(())
    try:
        yield
    finally:
        _WRITTEN.reset(token)


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs below the wrappers of other watchers."""
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    return function
