"""Calls as they happen: method, function and kernel of each, and their nesting."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from mdtensor.dispatch import call_errors
from mdtensor.dispatch.method import Implementation, Method, Selection, Trial
from mdtensor.dispatch.operation import Operation, operations
from mdtensor.dispatch.place import place_of
from mdtensor.errors import OptionError, shown
from mdtensor.kernels.observe import Cast, Kernel, Seen, observed
from mdtensor.spec.spec import TensorSpec

# `which`: the answer to what a call runs, for types, values or specs.


def which(operation: Any, /, *arguments: Any, **options: Any) -> Selection:
    """Return what a call runs: the method, the function, and the way to its kernel.

    The choice looks at types alone. `kernel`, `isa`, `promotion`, `casts`, `result` and
    `is_refusal` are observed when you ask for them, or print the answer: the call is
    run once, on copies of the values that you gave, on ones for a spec, and on small
    tensors for a type. Give values or specs where the kernel depends on shapes, grids
    or `out=`.

    Args:
        operation: what `generic` declared.
        arguments: types, values or specs, in any mix. You may leave out those at the
            end that have defaults.
        options: as the call takes them.

    Raises:
        OptionError: `operation` is not an operation, or does not have the option.
        DispatchError: no method fits, or two fit equally well.

    Example:
        >>> import mdtensor as md
        >>> found = md.which(md.add, md.Float32Tensor, md.Int8Tensor)
        >>> print(found)  # doctest: +ELLIPSIS
        add(Float32Tensor, Int8Tensor) -> add(...)  mdtensor/ops/arithmetic.py:...
          promotes: to float32
          casts: int8 to float32
          kernel: numpy.add, NumPy..., on cpu
        >>> found.is_refusal
        False

    Source: Julia, `@which`.
    """
    if not hasattr(operation, "operation"):
        raise OptionError(f"{shown(operation)} is no operation", "See md.operations()")
    declared = operation.operation
    unknown = [name for name in options if name not in declared.options]
    if unknown:
        known = ", ".join(declared.options) or "none"
        problem = f"{declared.name} does not take the option {unknown[0]}"
        raise OptionError(problem, f"Its options: {known}")
    if declared.sequence and len(arguments) == 1 and _is_list(arguments[0]):
        arguments = tuple(arguments[0])
    found: Selection = operation.select(*map(_type, arguments))
    return replace(found, arguments=arguments, options=options)


def _is_list(argument: Any) -> bool:
    return isinstance(argument, (list, tuple))


def _type(argument: Any) -> type:
    """Return the type by which an argument is dispatched."""
    if isinstance(argument, TensorSpec):
        argument = argument.type
    return argument if isinstance(argument, type) else type(argument)


def why(selection: Selection) -> str:
    """Return `selection.reason`: what else fits the types, and is less specific.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.quant import QInt8Tensor
        >>> why(which(md.neg, md.Int8Tensor))
        'the only method that fits'
        >>> why(which(md.mul, QInt8Tensor, QInt8Tensor))[:19]
        'more specific than '

    Source: Julia, "Methods"; plum, "Method Precedence".
    """
    return selection.reason


# Who is told of calls while they happen: traces, checks.
#
# It costs nothing while nobody watches: the tables that calls read stay as they are.
# Meanwhile they stay empty, so that every call asks its operation for the method, and
# is given one that the watchers have wrapped.

#: Given what a call would run, gives what it runs instead.
Watcher = Callable[[Selection, Implementation], Implementation]

_watchers: Counter[Watcher] = Counter()
_lock = threading.Lock()


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Have `watcher` wrap what calls run, those of all threads, in a `with` block."""
    switch(watcher, 1)
    try:
        yield
    finally:
        switch(watcher, -1)


def switch(watcher: Watcher, change: int) -> None:
    """Have `watcher` wrap what calls run once more, or once less, as `change` says.

    Begins with the first watcher, ends with the last.
    """
    with _lock:
        is_first = not _watchers
        _watchers[watcher] += change
        if not _watchers[watcher]:
            del _watchers[watcher]
        Operation.observe = staticmethod(_wrapped) if _watchers else None
        if is_first:
            for call in operations().values():
                call.operation.clear_table()


def _wrapped(selection: Selection, function: Implementation) -> Implementation:
    for watcher in tuple(_watchers):
        function = watcher(selection, function)
    return function


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
