"""Calls that have not run yet, and the values that they will return.

A call holds its operation, its arguments and the settings of its moment. Arguments that
are results of other calls are `Output`s, so calls form a graph. A call that has run
holds its results and drops its arguments, which frees what only they needed.
"""

from __future__ import annotations

import copy as copy_module
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import count
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from mdtensor.dispatch.method import Selection
from mdtensor.dispatch.operation import Generic
from mdtensor.dispatch.settings import settings, using
from mdtensor.errors import MdtensorError, TraceError
from mdtensor.graph.writes import owner_of, watch
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

_NUMBERS = count()
#: The most references of a call before dead ones are dropped.
MOST_HANDLES = 64
#: Types that `replace` never changes.
_NUMBERS_ONLY = frozenset({int, float, bool, type(None)})
#: Modules whose lines no error names.
_OWN = (__package__.partition(".")[0], copy_module.__name__)
#: Whether the calls of host tensors in this context are recorded, too.
IN_BLOCK: ContextVar[bool] = ContextVar("lazy", default=False)


class Output:
    """One result of a call: the buffer of a lazy tensor.

    Args:
        call: the call that returns it.
        index: its place among the results of the call.
    """

    __slots__ = ("__weakref__", "call", "index")

    def __init__(self, call: Call, index: int = 0) -> None:
        self.call, self.index = call, index

    def handed_out(self) -> Output:
        """Return this output, and let the call know that a tensor holds it."""
        handles = self.call.handles
        # A call that is recorded again and again is one call.
        if len(handles) >= MOST_HANDLES:
            handles[:] = [one for one in handles if one() is not None]
        handles.append(ref(self))
        return self

    def again(self) -> Output:
        """Return an equal output, for the arguments of a call."""
        return Output(self.call, self.index)

    @property
    def spec(self) -> TensorSpec:
        """Return the host type, shape and grid of the value."""
        return self.call.specs[self.index]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def size(self) -> int:
        return prod(self.spec.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.spec.dtype.storage

    @property
    def result(self) -> Any:
        """Return the host tensor; None if the call has not run."""
        return None if self.call.results is None else self.call.results[self.index]


class Call:
    """One call of an operation, before and after it ran.

    Args:
        operation: the operation; None for an input of a trace, and for a value that
            exists already.
        arguments: as the operation takes them, with an `Output` for each lazy tensor.
        options: the options of the call, likewise.
        specs: the specs of its results.
        results: its results if it has run.
        sources: the outputs among its arguments; found if not given.
    """

    __slots__ = (
        "__weakref__",
        "arguments",
        "handles",
        "has_copies",
        "number",
        "operation",
        "options",
        "place",
        "results",
        "settings",
        "sources",
        "specs",
    )

    def __init__(
        self,
        operation: Generic | None,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        specs: tuple[TensorSpec, ...],
        results: tuple[Any, ...] | None = None,
        sources: tuple[Output, ...] | None = None,
    ) -> None:
        self.operation, self.arguments, self.options = operation, arguments, options
        self.specs, self.results, self.settings = specs, results, settings()
        self.place = "" if operation is None else caller()
        #: Whether a host tensor was written after the recording; see `before_write`.
        self.has_copies = False
        #: The results of other calls that this one reads.
        self.sources = _sources((arguments, options)) if sources is None else sources
        #: Weak references to the outputs that tensors hold.
        self.handles: list[ref[Output]] = []
        # Calls are recorded in an order in which they can run.
        self.number = next(_NUMBERS)

    @property
    def name(self) -> str:
        return "input" if self.operation is None else self.operation.__name__

    @property
    def is_held(self) -> bool:
        """Return whether a lazy tensor of a result is in use."""
        return any(handle() is not None for handle in self.handles)

    def run(self, known: Callable[[Any], Any], kinds: Any = Output) -> tuple[Any, ...]:
        """Return the results of the call for other tensors.

        Args:
            known: returns the tensor of an output.
            kinds: the classes of the arguments for which `known` is asked.
        """
        given = self.arguments, self.options
        # Another thread may have run the call since, and dropped its arguments.
        if self.results is not None:
            return self.results
        assert self.operation is not None
        arguments, options = replace(given, kinds, known)
        if self.operation.operation.sequence:
            arguments = (arguments,)
        try:
            with using(self.settings):
                found = self.operation(*arguments, **options)
        except MdtensorError as error:
            error.add_note(f"recorded at {self.place}")
            raise
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    def keep(self) -> None:
        """Run the call, and keep its results."""
        self.finish(self.run(_result))

    def finish(self, results: tuple[Any, ...]) -> None:
        """Keep the results of the call, and drop its arguments."""
        # Another thread may have run it, and a result be handed out.
        self.results = results = self.results or results
        self.arguments, self.options, self.sources = (), {}, ()
        # A result may be handed out, or be a view of a host tensor, and then written.
        watch(self, (x.buffer for x in results))

    def select(self) -> Selection:
        """Return the method that runs, for the types of the arguments."""
        assert self.operation is not None
        given = replace(self.arguments, Output, lambda output: output.spec)
        types = (x.type if isinstance(x, TensorSpec) else type(x) for x in given)
        found: Selection = self.operation.select(*types)
        return found

    def tensors(self) -> list[Any]:
        """Return the host tensors among the arguments."""
        found: list[Any] = []
        visit((self.arguments, self.options), Tensor, found.append)
        return found

    def before_write(self, owner: Any) -> None:
        """Copy the tensors in the memory of `owner`, which will be written."""

        def copy(x: Any) -> Any:
            is_in = isinstance(x, Tensor) and owner_of(x.buffer) is owner
            return copy_module.deepcopy(x) if is_in else x

        given = self.arguments, self.options
        self.arguments, self.options = replace(given, Tensor, copy)
        self.results = replace(self.results, Tensor, copy)
        self.has_copies = True

    def __repr__(self) -> str:
        return f"<call of {self.name} -> {', '.join(map(str, self.specs))}>"


def spec_of(x: Any) -> TensorSpec:
    """Return the type, shape and grid of a tensor as a spec."""
    # `getattr` with a default would write an error for each plain tensor.
    is_quantized = type(x).dtype.kind == "quantized"
    return TensorSpec(type(x), x.shape, x.qparams if is_quantized else None)


def _sources(given: Any) -> tuple[Output, ...]:
    found: list[Output] = []
    visit(given, Output, found.append)
    return tuple(found)


def visit(
    value: Any, kind: type | tuple[type, ...], look: Callable[[Any], Any]
) -> None:
    """Call `look` with each object of the classes `kind` in nested arguments."""

    def change(found: Any) -> Any:
        look(found)
        return found

    replace(value, kind, change)


def replace(
    value: Any, kind: type | tuple[type, ...], change: Callable[[Any], Any]
) -> Any:
    """Return nested arguments with `change(x)` for each `x` of the classes `kind`."""
    # Most arguments that are no tensors are numbers, and `isinstance` is slow.
    if type(value) in _NUMBERS_ONLY:
        return value
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replace(part, kind, change) for part in value))
    if type(value) in (tuple, list):
        return type(value)(replace(part, kind, change) for part in value)
    if type(value) is dict:
        return {name: replace(part, kind, change) for name, part in value.items()}
    if isinstance(value, slice):
        parts = value.start, value.stop, value.step
        return slice(*(replace(part, kind, change) for part in parts))
    return value


def pending(outputs: Sequence[Output]) -> list[Call]:
    """Return the calls that `outputs` need and that have not run, in their order.

    Raises:
        TraceError: one is an input of a trace, which does not have a value.
    """
    found: dict[int, Call] = {}
    stack = [output.call for output in outputs]
    while stack:
        call = stack.pop()
        if call.results is not None or call.number in found:
            continue
        if call.operation is None:
            raise TraceError(
                f"the value of a traced tensor is read at {caller()}, and it has none",
                "Compute with where(mask, a, b) instead of `if`; shapes and types are "
                "known",
            )
        found[call.number] = call
        stack += [source.call for source in call.sources]
    return [found[number] for number in sorted(found)]


def _result(output: Output) -> Any:
    return output.result


def caller() -> str:
    """Return `file.py:line` of the innermost frame outside of mdtensor.

    Copies by the module copy count as lines of its caller.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        # Calls generated for operations run in namespaces without a name.
        if name and name.partition(".")[0] not in _OWN:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
