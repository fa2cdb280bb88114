"""Introspection of calls: `which` before a call, `traced` while calls run."""

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
from mdtensor.dispatch.call import NUMPY, need_tensors
from mdtensor.dispatch.catalog import get_op
from mdtensor.dispatch.method import Implementation, Method, Selection, Trial, place_of
from mdtensor.dispatch.operation import Operation, operations
from mdtensor.errors import OptionError, shown
from mdtensor.kernels.observe import Cast, Kernel, Observation, observe_kernels
from mdtensor.spec.spec import TensorSpec

# `which`: the method, function and kernel of a call, for types, values or specs.


def which(operation: Any, /, *arguments: Any, **options: Any) -> Selection:
    """Return what a call runs: the method, the function, and the way to its kernel.

    The choice looks at types alone. `kernel`, `isa`, `promotion`, `casts`, `result` and
    `is_refusal` are observed when you ask for them, or print the answer: the call is
    run once, on copies of the values that you gave, on ones for a spec, and on small
    tensors for a type. Give values or specs where the kernel depends on shapes, grids
    or `out=`.

    Args:
        operation: an operation or its name, as `get_op` takes it.
        arguments: types, values or specs, in any mix. You may omit trailing arguments
            that have defaults.
        options: as the call takes them.

    Raises:
        OptionError: `operation` is not an operation, or does not have the option.
        DispatchError: no method fits, or two fit equally well, or an argument is an
            option that the call takes by name.

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
    if isinstance(operation, str):
        operation = get_op(operation)
    if not hasattr(operation, "operation"):
        raise OptionError(
            f"{shown(operation)} is not an operation", "See md.operations()"
        )
    declared = operation.operation
    unknown = [name for name in options if name not in declared.options]
    if unknown:
        known = ", ".join(declared.options) or "none"
        problem = f"{declared.name} does not take the option {unknown[0]}"
        raise OptionError(problem, f"Its options: {known}")
    # The call takes one list; `which` also takes the types of its items.
    is_list = declared.sequence and _is_list(next(iter(arguments), None))
    places = 1 if is_list else len(declared.dispatched)
    if len(arguments) > places and (is_list or not declared.sequence):
        arguments, options = call_errors.bind(declared, arguments, options)
    if is_list:
        arguments = tuple(arguments[0])
    arguments = tensors(declared, tuple(map(_on_host, arguments)))
    found: Selection = operation.select(*map(_type, arguments))
    return replace(found, arguments=arguments, options=options)


def _is_list(argument: object) -> bool:
    return isinstance(argument, (list, tuple))


def tensors(operation: Operation, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with tensors for NumPy's arrays where a call makes them."""
    if not need_tensors(operation, tuple(map(_type, arguments))):
        return arguments
    read = Operation.from_numpy
    return tuple(read(x) if isinstance(x, NUMPY) else x for x in arguments)


def _on_host(argument: Any) -> Any:
    """Return an argument; for a lazy type or tensor, the type or spec of its result."""
    home = getattr(_type(argument), "device", None)
    if getattr(home, "implementation", None) is None:
        return argument
    is_type = isinstance(argument, type)
    return getattr(argument, "host") if is_type else argument.buffer.spec  # noqa: B009


def _type(argument: object) -> type:
    """Return the type by which an argument is dispatched."""
    if isinstance(argument, TensorSpec):
        argument = argument.type
    return argument if isinstance(argument, type) else type(argument)


def why(selection: Selection) -> str:
    """Return `selection.reason`: the other methods that fit and are less specific.

    Raises:
        OptionError: `selection` is not what `which` returns.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.quant import QInt8Tensor
        >>> why(which(md.neg, md.Int8Tensor))
        'the only method that fits'
        >>> why(which(md.mul, QInt8Tensor, QInt8Tensor))[:19]
        'more specific than '

    Source: Julia, "Methods"; plum, "Method Precedence".
    """
    if not isinstance(selection, Selection):
        problem = f"{shown(selection)} is not a selection"
        raise OptionError(problem, "Use why(which(add, x, y))", "why")
    return selection.reason


# Watchers: hooks that wrap every call; used by `traced` and `checked`.

#: Receives the selection and the function of a call, returns the function to run.
Watcher = Callable[[Selection, Implementation], Implementation]

_watchers: Counter[Watcher] = Counter()
_lock = threading.Lock()


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` wrap the calls of all threads inside a `with` block."""
    switch(watcher, 1)
    try:
        yield
    finally:
        switch(watcher, -1)


def switch(watcher: Watcher, change: int) -> None:
    """Add `change`, 1 or -1, to the number of times that `watcher` is active.

    Observation begins with the first watcher and ends with the last.
    """
    with _lock:
        is_first = not _watchers
        _watchers[watcher] += change
        if not _watchers[watcher]:
            del _watchers[watcher]
        Operation.observe = staticmethod(_wrap) if _watchers else None
        # While observed, calls fill no table, so only the first watcher clears them.
        if is_first:
            for call in operations().values():
                call.operation.clear_table()


def is_watched() -> bool:
    """Return whether a watcher needs to see each call that runs now."""
    return any(not getattr(watcher, "only_records", False) for watcher in _watchers)


def _wrap(selection: Selection, function: Implementation) -> Implementation:
    for watcher in tuple(_watchers):
        function = watcher(selection, function)
    return function


#: The lists of the active traces, each with the depth of the next call.
_WRITTEN: ContextVar[tuple[tuple[list[Call], int], ...]] = ContextVar(
    "traces", default=()
)


@dataclass(frozen=True)
class Call:
    """One call of an operation, as `traced` records it.

    Args:
        selection: the operation, the types of the arguments, and the method.
        depth: the number of operation calls around it.
        function: the function that ran: the method, its fast path, or with `out=` the
            method again.
    """

    selection: Selection
    depth: int
    function: Callable[..., Any] = field(compare=False)
    _seen: list[Observation] = field(default_factory=list, compare=False, repr=False)

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
        """Return `package/file.py:line` of the method."""
        return self.method.location

    @property
    def place(self) -> str:
        """Return `package/file.py:line` of the function that ran."""
        return place_of(self.function)

    @property
    def device(self) -> Any:
        """Return the device of the first tensor; None if there is none."""
        return self.selection.device

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Return the kernels that ran, in order, without the kernels of inner calls."""
        return tuple(kernel for seen in self._seen for kernel in seen.kernels)

    @property
    def casts(self) -> tuple[Cast, ...]:
        """Return (from, to) for each conversion of elements, in or before a kernel."""
        return tuple(cast for seen in self._seen for cast in seen.casts)

    @property
    def kernel(self) -> str | None:
        """Return the name of the kernel that did the work; None if none was seen."""
        found = Trial(kernels=self.kernels).kernel
        return None if found is None else str(found.name)

    @property
    def isa(self) -> str | None:
        """Return the instruction set of `kernel`."""
        found = Trial(kernels=self.kernels).kernel
        return None if found is None else str(found.isa)

    def __str__(self) -> str:
        call = call_errors.call_text(self.selection.operation, self.types)
        line = f"{'  ' * self.depth}{call} -> {self.method}  {self.place}"
        return f"{line}  {self.kernel}, {self.isa}" if self.kernels else line


# Tracing empties the call caches, so that calls need no flag to test (decision 0015).
@contextmanager
def traced() -> Iterator[list[Call]]:
    """List the calls of operations in a `with` block, in the order in which they begin.

    An entry names the function that ran, its kernel and instruction set. The list has
    the calls of the block's own thread and of tasks that it starts. Other threads run
    as usual, a little slower. A call without a method raises and is not listed; calls
    of a function that `select` returned are not listed either.

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
    with watching(_record):
        _WRITTEN.set((*_WRITTEN.get(), (calls, 0)))
        try:
            yield calls
        finally:  # nested blocks of async tasks may end in any order
            _WRITTEN.set(tuple(w for w in _WRITTEN.get() if w[0] is not calls))


def _record(selection: Selection, function: Callable[..., Any]) -> Any:
    """Return `function`, which adds each of its calls to the active traces."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        written = _WRITTEN.get()
        if not written:  # a call of another thread, or inside `without_traces`
            return function(*arguments, **options)
        records = [Call(selection, depth, _own(function)) for _, depth in written]
        for (calls, _), record in zip(written, records, strict=True):
            calls.append(record)
        # A context variable and not a global: each thread has its own depth.
        token = _WRITTEN.set(tuple((calls, depth + 1) for calls, depth in written))
        try:
            with observe_kernels() as seen:
                for record in records:
                    record._seen.append(seen)
                return function(*arguments, **options)
        finally:
            _WRITTEN.reset(token)

    return call


@contextmanager
def without_traces() -> Iterator[None]:
    """Hide the calls inside a `with` block from the traces of this context."""
    token = _WRITTEN.set(())
    try:
        yield
    finally:
        _WRITTEN.reset(token)


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function below the wrappers of other watchers."""
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    return function
