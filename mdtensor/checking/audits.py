"""The log of `checked`, the registry of audits, and the audits of dense tensors.

An audit takes a call that has been made and reports inexact elements.
"""

from __future__ import annotations

import builtins
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mdtensor.audited import import_audits
from mdtensor.device import cpu
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import RegistrationError, shown
from mdtensor.generics.arithmetic import (
    abs,
    add,
    clip,
    div,
    floor_divide,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    remainder,
    square,
    sub,
)
from mdtensor.generics.conv import conv1d, conv2d, conv_transpose2d
from mdtensor.generics.conversion import astype
from mdtensor.generics.linalg import trace
from mdtensor.generics.manipulation import concat, stack
from mdtensor.generics.math import atan2, copysign, hypot, logaddexp, nextafter
from mdtensor.generics.matmul import (
    cross,
    linear,
    matmul,
    matrix_power,
    outer,
    pair_axes,
    pair_axis,
    tensordot,
    vecdot,
)
from mdtensor.generics.reduction import (
    cumulative_prod,
    cumulative_sum,
    diff,
    mean,
    prod,
    sum,
)
from mdtensor.generics.sorting import where
from mdtensor.kernels.numpy import conversion, overflow
from mdtensor.tensor import Tensor
from mdtensor.types import (
    Float64Tensor,
    IntegerTensor,
    LogicalTensor,
    NumericTensor,
    SignedTensor,
)

# Findings and their log.

#: The kinds of losses, each with a fix.
FIXES = {
    "wrapped": "Use astype(x, dtype) to a wider type first",
    "saturated": "Use a larger scale or a wider type",
    "rounded": "Use a type that holds all values of the operands",
}


@dataclass(frozen=True)
class Lost:
    """The number of inexact elements of a result, by kind.

    Args:
        kind: "wrapped" modulo 2**bits, "saturated" at an end of the range, or
            "rounded" by a cast.
        count: the number of elements.
    """

    kind: str
    count: int


@dataclass(frozen=True)
class Headroom:
    """The bits that an accumulator had left.

    Args:
        bits: how many times its largest element could double and still fit.
        width: bits of the accumulator without its sign.
    """

    bits: int
    width: int


class Key(NamedTuple):
    """The key of an entry: source line, operation and types."""

    place: str
    operation: str
    types: tuple[str, ...]


@dataclass
class Entry:
    """The calls of one operation with the same types in one source line.

    Args:
        place: `file.py:line` of the caller.
        operation: the name of the operation.
        types: names of the argument types.
        calls: the number of calls.
        elements: the number of elements of all results.
        lost: the number of inexact elements of each kind.
        headroom: the least headroom of the calls; None if they do not accumulate.
    """

    place: str
    operation: str
    types: tuple[str, ...]
    calls: int = 0
    elements: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    headroom: Headroom | None = None

    def __str__(self) -> str:
        parts = [f"{count:,} {kind}" for kind, count in sorted(self.lost.items())]
        found = f"{', '.join(parts) or 'nothing lost'} of {self.elements:,}"
        if self.headroom is not None:
            found += f", {self.headroom.bits} of {self.headroom.width} bits left"
        # Absolute paths would hide the rest of the line in a terminal.
        place = self.place.removeprefix(f"{Path.cwd()}{os.sep}")
        head = f"{place}  {self.operation}({', '.join(self.types)})"
        return f"{head}: {found}"


class Log:
    """The findings of `checked`: entries in the order of their first call.

    A log is true if anything was lost; `print(log)` shows the lines that lost
    something or accumulated.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        # Tasks that a block starts write to its log at the same time.
        self._lock = threading.Lock()

    def note(self, key: Key, elements: int, found: list[Lost | Headroom]) -> None:
        """Add one call to its entry."""
        with self._lock:
            entry = self._entries.setdefault(key, Entry(*key))
            entry.calls += 1
            entry.elements += elements
            for item in found:
                if isinstance(item, Headroom):
                    known = entry.headroom or item
                    entry.headroom = min(known, item, key=lambda room: room.bits)
                elif item.count:
                    entry.lost[item.kind] += item.count

    @property
    def lost(self) -> Counter[str]:
        """Return the number of inexact elements of each kind, over all entries."""
        return builtins.sum((entry.lost for entry in self), Counter())

    @property
    def headroom(self) -> int | None:
        """Return the fewest bits left in an accumulator; None without accumulators."""
        rooms = [entry.headroom.bits for entry in self if entry.headroom]
        return min(rooms, default=None)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return any(entry.lost for entry in self)

    def __str__(self) -> str:
        shown = [entry for entry in self if entry.lost or entry.headroom]
        calls = builtins.sum(entry.calls for entry in self)
        losing = builtins.sum(1 for entry in self if entry.lost)
        head = (
            f"{calls:,} calls checked, {losing:,} of {len(self):,} lines lost something"
        )
        return "\n".join([head, *map(str, shown)])

    def __repr__(self) -> str:
        return f"<Log of {len(self)} entries, lost {dict(self.lost)}>"


@dataclass(frozen=True)
class Case:
    """A call that has been made.

    Args:
        arguments: the arguments of the dispatch.
        options: all other arguments.
        result: the returned value.
        function: the method; an audit may call it again with other options.
    """

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    result: Any
    function: Callable[..., Any]


Audit = Callable[[Case], Iterable[Lost | Headroom]]

_AUDITS: dict[Any, list[tuple[type[Tensor], Audit]]] = {}


def audit(*operations: Any, result: type[Tensor] = Tensor) -> Callable[[Audit], Audit]:
    """Register the decorated function as an audit of `operations` in `checked`.

    Args:
        operations: operations, as `generic` returns them.
        result: the kind of results that it audits.

    Returns:
        A decorator. The function takes a `Case` and yields `Lost` and `Headroom`; it
        must not change the tensors.

    Raises:
        RegistrationError: an argument is not an operation.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.checking import Lost, audit
        >>> @md.generic
        ... def truncated_half(x, /):
        ...     '''Half of `x`, toward zero.'''
        >>> @md.method(truncated_half)
        ... def truncated_half(x: md.Int8Tensor, /):
        ...     return md.Int8Tensor([value // 2 for value in x.tolist()])
        >>> @audit(truncated_half)
        ... def odd(case):
        ...     (x,) = case.arguments
        ...     yield Lost("rounded", len([v for v in x.tolist() if v % 2]))
        >>> with md.checked() as log:
        ...     _ = truncated_half(md.Int8Tensor([2, 3]))
        >>> log.lost
        Counter({'rounded': 1})
    """
    for operation in operations:
        if not hasattr(operation, "operation"):
            name = getattr(operation, "__name__", None) or shown(operation)
            raise RegistrationError(
                f"{name} is not an operation",
                "Pass an operation that @generic declared",
            )

    def add(function: Audit) -> Audit:
        for operation in operations:
            _AUDITS.setdefault(operation.operation, []).append((result, function))
        return function

    return add


def is_audited(operation: Operation) -> bool:
    """Return whether the operation has an audit."""
    import_audits()
    return operation in _AUDITS


def findings(operation: Operation, case: Case) -> Iterator[Lost | Headroom]:
    """Yield the findings of all audits of the operation for the call."""
    for kind, function in _AUDITS.get(operation, ()):
        if isinstance(case.result, kind):
            yield from function(case)


# Wrapped integers: each result modulo 2**bits is compared with the exact one.

UFUNCS = {add: np.add, sub: np.subtract, mul: np.multiply, pow: np.power}


def on_host(function: Callable[[Case], Any]) -> Callable[[Case], Any]:
    """Return an audit that skips results on other devices."""

    def run(case: Case) -> Iterator[Lost | Headroom]:
        if case.result.device is cpu:
            yield from function(case)

    return run


def buffers(case: Case) -> list[Any]:
    """Return the arrays of the operands; Python numbers take the result's type."""
    storage = case.result.buffer.dtype
    return [
        x.buffer if isinstance(x, Tensor) else np.asarray(x, storage)
        for x in case.arguments
        if x is not None
    ]


def _elementwise(ufunc: np.ufunc, case: Case) -> Iterator[Lost]:
    yield Lost(
        "wrapped", overflow.elementwise(ufunc, buffers(case), case.result.buffer)
    )


for _operation, _ufunc in UFUNCS.items():
    audit(_operation, result=IntegerTensor)(on_host(partial(_elementwise, _ufunc)))


@audit(square, result=IntegerTensor)
@on_host
def squares(case: Case) -> Iterator[Lost]:
    (x,) = buffers(case)
    count = overflow.elementwise(np.multiply, [x, x], case.result.buffer)
    yield Lost("wrapped", count)


@audit(outer, result=IntegerTensor)
@on_host
def outer_products(case: Case) -> Iterator[Lost]:
    a, b = buffers(case)
    count = overflow.elementwise(np.multiply, [a[:, None], b], case.result.buffer)
    yield Lost("wrapped", count)


@audit(neg, result=IntegerTensor)
@on_host
def negatives(case: Case) -> Iterator[Lost]:
    (x,) = buffers(case)
    zero = np.zeros((), x.dtype)
    count = overflow.elementwise(np.subtract, [zero, x], case.result.buffer)
    yield Lost("wrapped", count)


@audit(abs, result=SignedTensor)
@on_host
def magnitudes(case: Case) -> Iterator[Lost]:
    # Only the smallest integer does not have an absolute value.
    yield Lost("wrapped", int(np.count_nonzero(case.result.buffer < 0)))


@audit(floor_divide, result=SignedTensor)
@on_host
def quotients(case: Case) -> Iterator[Lost]:
    # Only the quotient of the smallest integer and -1 is out of range.
    a, b = buffers(case)
    smallest = np.iinfo(case.result.buffer.dtype).min
    yield Lost("wrapped", int(np.count_nonzero((a == smallest) & (b == -1))))


def _rerun(operation: Callable[..., Any], options: dict[str, Any], *arrays: Any) -> Any:
    """Run the same operation on float64 and return its array."""
    return operation(*map(Float64Tensor.wrap, arrays), **options).buffer


def _linear(operation: Callable[..., Any], case: Case) -> Iterator[Lost | Headroom]:
    (x,) = buffers(case)
    if x.dtype.kind == "b":
        x = x.astype(np.int8)
    found = case.result.buffer
    # If the bound excludes a wrap, the result is exact and need not be computed twice.
    if overflow.is_safe(x.size, [x], found):
        return _compare(found, case)
    options = {name: value for name, value in case.options.items() if name != "dtype"}
    return _compare(overflow.linear(partial(_rerun, operation, options), x), case)


for _operation in (sum, cumulative_sum, trace):
    audit(_operation, result=IntegerTensor)(on_host(partial(_linear, _operation)))


def _product(operation: Callable[..., Any], case: Case) -> Iterator[Lost | Headroom]:
    # In float64: a product far out of range becomes infinity, which counts as wrapped.
    (x,) = buffers(case)
    options = {name: value for name, value in case.options.items() if name != "dtype"}
    exact = _rerun(operation, options, x.astype(np.float64))
    yield Lost("wrapped", overflow.count(exact, case.result.buffer))


for _operation in (prod, cumulative_prod):
    audit(_operation, result=IntegerTensor)(on_host(partial(_product, _operation)))


@audit(diff, result=IntegerTensor)
@on_host
def differences(case: Case) -> Iterator[Lost]:
    axis, order = case.options["axis"], case.options["n"]
    parts = [case.options["prepend"], case.arguments[0], case.options["append"]]
    arrays = [part.buffer for part in parts if part is not None]
    exact = overflow.differences(arrays, axis, order)
    yield Lost("wrapped", overflow.count(exact, case.result.buffer))


# Sums of products: a bound on the operands often decides; else they are computed again.


def _sums_of_products(
    compute: Callable[..., Any], terms: int, case: Case, *, subtracts: bool = False
) -> Iterator[Lost | Headroom]:
    a, b, *bias = buffers(case)
    found = case.result.buffer
    extra = builtins.sum(map(overflow.largest, bias))
    # Of an unsigned result, a negative bias may leave less than nothing.
    subtracts = subtracts or any(x.min(initial=0) < 0 for x in bias)
    if overflow.is_safe(terms, [a, b], found, extra=extra, subtracts=subtracts):
        return _compare(found, case)
    exact = overflow.bilinear(compute, a, b, terms, found)
    return _compare(exact + bias[0].astype(np.float64) if bias else exact, case)


@audit(matmul, result=IntegerTensor)
@on_host
def matrix_products(case: Case) -> Iterator[Lost | Headroom]:
    return _sums_of_products(np.matmul, case.arguments[0].shape[-1], case)


@audit(linear, result=IntegerTensor)
@on_host
def linear_layers(case: Case) -> Iterator[Lost | Headroom]:
    return _sums_of_products(lambda a, b: a @ b.T, case.arguments[0].shape[-1], case)


@audit(vecdot, result=IntegerTensor)
@on_host
def dot_products(case: Case) -> Iterator[Lost | Headroom]:
    a, b = case.arguments
    at = pair_axis(a.shape, b.shape, case.options["axis"])
    return _sums_of_products(partial(np.vecdot, axis=at), a.shape[at], case)


@audit(tensordot, result=IntegerTensor)
@on_host
def tensor_products(case: Case) -> Iterator[Lost | Headroom]:
    a, b = case.arguments
    axes = pair_axes(a.shape, b.shape, case.options["axes"])
    terms = math.prod(a.shape[at] for at in axes[0])
    return _sums_of_products(partial(np.tensordot, axes=axes), terms, case)


@audit(cross, result=IntegerTensor)
@on_host
def cross_products(case: Case) -> Iterator[Lost | Headroom]:
    a, b = case.arguments
    at = pair_axis(a.shape, b.shape, case.options["axis"])
    compute = partial(np.cross, axis=at)
    return _sums_of_products(compute, 2, case, subtracts=True)


def _convolutions(operation: Any, case: Case) -> Iterator[Lost | Headroom]:
    options = {name: value for name, value in case.options.items() if name != "out"}

    def compute(x: object, w: object) -> Any:
        return operation(*map(Float64Tensor.wrap, (x, w)), None, **options).buffer

    x, w, b = case.arguments
    if b is not None:
        column = b.wrap(b.buffer.reshape(-1, *[1] * (x.ndim - 2)))
        case = replace(case, arguments=(x, w, column))
    # A bound on the number of terms; groups and strides have fewer.
    terms = math.prod(w.shape) // max(min(w.shape[:2]), 1)
    return _sums_of_products(compute, terms, case)


for _operation in (conv1d, conv2d, conv_transpose2d):
    audit(_operation, result=IntegerTensor)(on_host(partial(_convolutions, _operation)))


@audit(matrix_power, result=IntegerTensor)
@on_host
def powers(case: Case) -> Iterator[Lost]:
    x, n = case.arguments
    exact = overflow.matrix_power(x.buffer, int(n))
    yield Lost("wrapped", overflow.count(exact, case.result.buffer))


def _compare(exact: npt.NDArray[Any], case: Case) -> Iterator[Lost | Headroom]:
    found = case.result.buffer
    lost = overflow.count(exact, found)
    yield Lost("wrapped", lost)
    width = 8 * found.dtype.itemsize - (found.dtype.kind == "i")
    # Where nothing wrapped, the result itself is exact.
    yield Headroom(0 if lost else overflow.spare_bits(found), width)


# Values changed by a cast: an explicit one, or the promotion of an operand.

#: The kind of loss of values outside the range, by casting policy.
OUTSIDE = {"wrap": "wrapped", "saturate": "saturated"}


def _count_changes(x: npt.NDArray[Any], found: npt.NDArray[Any]) -> tuple[int, int]:
    """Count the elements of x that the cast changed, and those out of range."""
    storage = found.dtype
    if x.dtype.kind == "c" and storage.kind != "c":
        x = x.real
    # Comparison is faster than the exact tests, which then see few elements.
    if _is_comparable(x.dtype, storage):
        if not overflow.differ(x, found):
            return 0, 0
        x = x[x != found]
    inexact = np.broadcast_to(conversion.inexact(x, storage), x.shape)
    outside = np.broadcast_to(conversion.outside(x, storage), x.shape)
    return int(np.count_nonzero(inexact)), int(np.count_nonzero(outside))


def _is_comparable(first: np.dtype[Any], second: np.dtype[Any]) -> bool:
    """Return whether NumPy compares the two types without rounding."""
    if first.kind in "bui" and second.kind in "bui":
        return True
    if first.isbuiltin != 1 or second.isbuiltin != 1:
        return False
    joint = np.result_type(first, second)
    return all(conversion.is_exact(dtype, joint) for dtype in (first, second))


@audit(astype, result=NumericTensor)
@audit(astype, result=LogicalTensor)
@on_host
def casts(case: Case) -> Iterator[Lost]:
    x = case.arguments[0]
    inexact, outside = _count_changes(x.buffer, case.result.buffer)
    yield Lost(OUTSIDE.get(case.options["casting"], "rounded"), outside)
    yield Lost("rounded", inexact - outside)


# Integers that their promotion wraps: rules of your own may choose a type that does not
# hold both operands. The audits of arithmetic above count such elements by the result.


@audit(minimum, maximum, clip, remainder, where, concat, stack, result=IntegerTensor)
@audit(floor_divide, result=IntegerTensor)
@on_host
def wrapped_operands(case: Case) -> Iterator[Lost]:
    storage = case.result.dtype.storage
    for x in (*case.arguments, *case.options.values()):
        if isinstance(x, Tensor) and x.dtype.is_integer:
            outside = conversion.outside(x.buffer, storage)
            yield Lost("wrapped", int(np.count_nonzero(outside)))


PROMOTING = (
    *(add, sub, mul, div, pow, floor_divide, remainder, minimum, maximum, clip, atan2),
    *(hypot, copysign, logaddexp, nextafter, where, concat, stack, outer, cross),
    *(matmul, vecdot, tensordot, linear, conv1d, conv2d, conv_transpose2d),
    *(sum, prod, mean, cumulative_sum, cumulative_prod),
)


@audit(*PROMOTING, result=NumericTensor)
@on_host
def promotions(case: Case) -> Iterator[Lost]:
    storage = case.result.dtype.storage
    # An integer result holds its operands, or the audits above report a wrap.
    if case.result.dtype.is_integer:
        return
    for x in case.arguments:
        if isinstance(x, Tensor) and x.dtype.storage != storage:
            found = conversion.nearest(x.buffer, storage)
            yield Lost("rounded", _count_changes(x.buffer, found)[0])
