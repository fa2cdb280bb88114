"""Launches that are recorded instead of made, on buffers that do not exist yet.

    with recording() as launches:
        y = softmax(tensor around a Planned buffer)   # four records, nothing runs

A method of a rendered device infers, renders and launches; it does not look at
elements. So it runs on planned buffers as on others, and `fusion.py` joins what it
would have launched. What needs an element, an address or another launcher raises
`UnknownValueError`: such a call is not planned, and runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from typing import Any, NoReturn

import numpy as np

from mdtensor import dtypes
from mdtensor.kernels.cuda.reserved import Reserved
from mdtensor.kernels.loops.ir import Input, Loop, Value

View = Callable[[Any], Any]
#: Where arrays of planned buffers are, which may be larger than the host's memory.
_RESERVED = Reserved()
_new = object.__new__


class UnknownValueError(Exception):
    """A call needs more of a planned buffer than its shape and element type."""


class NoViewError(Exception):
    """The strides of an argument do not allow a view that was planned."""


@dataclass(frozen=True, eq=False)
class Blank:
    """A new buffer that launches will write, part by part."""

    shape: tuple[int, ...]
    dtype: Any


# A method runs on it as on any buffer, until it asks for an element (decision 0085).
class Planned:
    """A buffer that will exist: an argument, the result of a launch, or a view.

    Args:
        source: the number of an argument, the launch that writes it, or a new buffer.
        elements: an array of its shape and type; a view has other strides.
        whole: such an array of the whole source.
        path: the views that lead from there to here, the first one first.
        has_strides: whether the buffer will have the strides of `elements`.
    """

    def __init__(
        self,
        source: int | Recorded | Blank,
        elements: Any,
        whole: Any = None,
        path: tuple[View, ...] = (),
        *,
        has_strides: bool,
    ) -> None:
        self.source, self.elements, self.path = source, elements, path
        self.has_strides = has_strides
        self.whole = elements if whole is None else whole
        self.shape, self.dtype = elements.shape, elements.dtype
        self.size = elements.size

    @classmethod
    def of(
        cls, source: int | Recorded | Blank, shape: tuple[int, ...], dtype: Any
    ) -> Planned:
        """Return the whole buffer of a source; an argument may have any strides."""
        elements = np.ndarray(
            shape, dtype, _RESERVED.span(prod(shape) * dtype.itemsize)
        )
        return cls(source, elements, has_strides=not isinstance(source, int))

    @classmethod
    def like(cls, source: int | Recorded, buffer: Any) -> Planned:
        """Return a buffer with the shape and strides of another one."""
        steps = [
            (n - 1) * step for n, step in zip(buffer.shape, buffer.strides, strict=True)
        ]
        low = sum(step for step in steps if step < 0)
        size = sum(map(abs, steps)) + buffer.dtype.itemsize if buffer.size else 0
        given = buffer.dtype, _RESERVED.span(size), -low if size else 0, buffer.strides
        return cls(source, np.ndarray(buffer.shape, *given), has_strides=True)

    def view(self, function: View) -> Planned | None:
        """Return the view that `function` makes of an array; None if it copies."""
        found = function(self.elements)
        shares = not found.size or np.may_share_memory(found, self.elements)
        path = (*self.path, function)
        given = self.source, found, self.whole, path
        return Planned(*given, has_strides=self.has_strides) if shares else None

    def _refuse(self) -> NoReturn:
        raise UnknownValueError("a planned buffer has no place yet")

    # A launcher asks for one of these before anything runs.
    @property
    def strides(self) -> NoReturn:
        self._refuse()

    memory = address = is_contiguous = is_writable = strides


def strides_of(buffer: Any) -> tuple[int, ...]:
    """Return the strides of a buffer, also of one that will exist.

    Raises:
        UnknownValueError: it is an argument that may have any strides.
    """
    is_known = isinstance(buffer, Planned) and buffer.has_strides
    found: tuple[int, ...] = (buffer.elements if is_known else buffer).strides
    return found


@dataclass(eq=False)
class Recorded:
    """A launch that was recorded.

    Args:
        loop: what it computes.
        shape: of its result.
        operands: planned buffers, buffers of the device, and numbers.
        axes: of a fold.
        into: the part of a buffer that it writes; None writes a new one.
    """

    loop: Loop
    shape: tuple[int, ...]
    operands: tuple[Any, ...]
    axes: tuple[int, ...] = ()
    into: Planned | None = None
    result: Planned = field(init=False)

    def __post_init__(self) -> None:
        storage = dtypes.dtype(self.loop.type).storage
        shape = self.shape if self.into is None else self.into.whole.shape
        self.result = Planned.of(self, shape, storage)

    @property
    def is_fold(self) -> bool:
        return self.loop.fold is not None

    @cached_property
    def is_alone(self) -> bool:
        """Return whether no other launch can be joined with it.

        It runs in an order of its own, has local values already, or its values depend
        on places of elements.
        """
        loop = self.loop
        in_order = loop.is_serial or loop.is_scan or loop.start is not None
        is_own = self.into is not None or bool(loop.locals)
        return is_own or in_order or _has_places(loop)

    @property
    def domain(self) -> tuple[int, ...]:
        """Return the shape over which the value is computed."""
        if not self.is_fold:
            return self.shape
        pairs = zip(self.loop.inputs, self.operands, strict=True)
        arrays = [x for one, x in pairs if _is_array(one)]
        return np.broadcast_shapes(*(x.shape for x in arrays))


_LAUNCHES: ContextVar[list[Recorded] | None] = ContextVar("launches", default=None)


@contextmanager
def recording() -> Iterator[list[Recorded]]:
    """Record the launches of a block, and yield the list of them."""
    found: list[Recorded] = []
    token = _LAUNCHES.set(found)
    try:
        yield found
    finally:
        _LAUNCHES.reset(token)


def is_recording() -> bool:
    """Return whether launches are recorded here."""
    return _LAUNCHES.get() is not None


def record(
    loop: Loop,
    shape: tuple[int, ...],
    buffers: list[Any],
    axes: tuple[int, ...] = (),
    into: Planned | None = None,
) -> Planned:
    """Record a launch, and return the whole buffer that it will write."""
    launches = _LAUNCHES.get()
    assert launches is not None
    launches.append(Recorded(loop, shape, tuple(buffers), axes, into))
    return launches[-1].result


def around(like: Any, buffer: Any) -> Any:
    """Return a tensor with the type and grid of another one, around a buffer."""
    kind: Any = type(like)
    made = _new(kind)
    for name in _slots(kind):
        setattr(made, name, getattr(like, name))
    made.buffer = buffer
    return made


@cache
def _slots(kind: type) -> tuple[str, ...]:
    """Return the attributes of a tensor but its buffer."""
    names = (name for one in kind.__mro__ for name in vars(one).get("__slots__", ()))
    return tuple(name for name in names if name not in ("__weakref__", "buffer"))


def _has_places(loop: Loop) -> bool:
    """Return whether values depend on the places of elements, not on elements alone."""
    waiting = [loop.value, *(() if loop.finish is None else (loop.finish,))]
    while waiting:
        one: Value = waiting.pop()
        picks = one.name == "gather" and not loop.inputs[one.detail].is_table
        if picks or one.name == "position":
            return True
        waiting += one.arguments
    return False


def _is_array(declared: Input) -> bool:
    return declared.has_places
