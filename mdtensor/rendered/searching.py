"""Searches in sorted elements, and the distinct elements of a tensor.

A search bisects: each thread reads about log2(n) elements. Distinct elements are those
of a sort that differ from the one before; how many these are decides a shape, so such
calls wait for the device.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.errors import OptionError, describe
from mdtensor.generics import (
    arithmetic,
    comparison,
    indexing,
    manipulation,
    reduction,
    sorting,
)
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Loop, Value, apply, cast, gather, select
from mdtensor.rendered.composed import rounded
from mdtensor.rendered.launches import (
    NUMBERS,
    REAL,
    Operands,
    count_true,
    launch,
    types_of,
)
from mdtensor.rendered.methods import add, unary
from mdtensor.rendered.movement import filled
from mdtensor.rendered.picking import is_outside
from mdtensor.rendered.places import true_places
from mdtensor.rendered.recording import strides_of
from mdtensor.tensor import Tensor, leaf


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    numbers: Any = Union[types_of(device, NUMBERS)]
    wanted: Any = Union[(*types_of(device, REAL), int, float)]
    add(sorting.searchsorted, (numbers, wanted), _searchsorted)
    for name, run in (
        ("unique_all", _unique_all),
        ("unique_counts", _unique_counts),
        ("unique_inverse", _unique_inverse),
        ("unique_values", _unique_values),
    ):
        unary(device, getattr(sorting, name), REAL, run)


# --- searches -------------------------------------------------------------------------


def _searchsorted(x1: Tensor, x2: Any, /, *, side: str, sorter: Tensor | None) -> Any:
    spec = infer(sorting.searchsorted, x1, x2, side=side, sorter=sorter)
    if sorter is not None:
        _check_sorter(x1, x2, sorter)
        x1 = indexing.take(x1, sorter, axis=0)
    device, count = x1.device, x1.size
    if not count:
        return spec.type.wrap(filled(device, spec.shape, np.zeros((), np.int64)))
    operands = Operands("searchsorted", (x1, x2))
    wanted = operands.tensor(x2) if isinstance(x2, Tensor) else None
    if wanted is None:
        wanted = operands.number(x2, x1.dtype)
    found = _Bisection(operands, x1.buffer, wanted, side == "left")
    loop = Loop(
        tuple(operands.inputs),
        cast(found.place, spec.dtype.name),
        name="searchsorted",
        locals=tuple(found.known),
    )
    return spec.type.wrap(launch(device, loop, spec.shape, operands.buffers))


def _check_sorter(x1: Tensor, x2: Any, sorter: Tensor) -> None:
    """Raise if an index is outside; a negative one would count from the end."""
    operands = Operands("searchsorted", (x1, x2, sorter))
    outside = is_outside(operands, operands.tensor(sorter), x1.size, False)
    if sorter.size and count_true(operands, outside, x1.device):
        problem = f"sorter has an index out of bounds for {x1.size} elements"
        call = describe("searchsorted", x1, x2, sorter)
        raise OptionError(problem, "Use the result of argsort(x1)", call)


class _Bisection:
    """How many elements of a line come before a number, NaN after all others.

    Args:
        operands: of the loop.
        line: a buffer in ascending order.
        wanted: the number.
        is_left: whether equal elements do not come before.
    """

    def __init__(
        self, operands: Operands, line: Any, wanted: Value, is_left: bool
    ) -> None:
        #: The local values of the loop.
        self.known: list[Value] = []
        self._wanted, self._is_left = self._keep(wanted), is_left
        self._type = line.dtype.name
        size = operands.array(np.array(line.shape[0]))
        step = operands.array(np.array(strides_of(line)[0] // line.dtype.itemsize))
        first = operands.operand(line.view(lambda array: array[0, ...]))
        self.place = ir.number(0, "int64")
        for bit in reversed(range(line.shape[0].bit_length())):
            further = apply("add", self.place, ir.number(1 << bit, "int64"))
            further = self._keep(further)
            last = apply("sub", apply("minimum", further, size), ir.number(1, "int64"))
            element = self._keep(gather(first, self._type, apply("mul", last, step)))
            fits = apply("less_equal", further, size)
            goes_on = apply("bit_and", fits, self._comes_before(element))
            self.place = self._keep(select(goes_on, further, self.place))

    def _keep(self, value: Value) -> Value:
        """Make a local value, so that trees stay small."""
        self.known.append(value)
        return ir.local(len(self.known) - 1, value.type)

    def _comes_before(self, element: Value) -> Value:
        name = "less" if self._is_left else "less_equal"
        is_before = ir.compare(name, element, self._wanted)
        if self._wanted.type not in ir.FLOATS:
            return is_before
        is_nan = apply("isnan", self._wanted)
        if self._is_left and self._type in ir.FLOATS:
            is_nan = apply("bit_and", is_nan, apply("bit_not", apply("isnan", element)))
        return apply("bit_or", is_before, is_nan)


# --- distinct elements ----------------------------------------------------------------


class _Distinct:
    """The distinct elements of a tensor, in ascending order. Waits for the device."""

    def __init__(self, x: Tensor) -> None:
        flat = manipulation.reshape(x, (-1,))
        # Bools are not sorted.
        flat = rounded(flat, dtypes.int8) if x.dtype is dtypes.bool_ else flat
        self.size = flat.shape[0]
        self.order = sorting.argsort(flat, stable=True)
        ascending = indexing.take(flat, self.order, axis=0)
        one = filled(x.device, (min(1, self.size),), np.ones((), np.bool_))
        first = leaf(dtypes.bool_, x.device).wrap(one)
        differs = comparison.not_equal(ascending[1:], ascending[:-1])
        self.is_new = manipulation.concat([first, differs], axis=0)
        self.starts = true_places(self.is_new)
        self.values = rounded(indexing.take(ascending, self.starts, axis=0), x.dtype)

    def counts(self, dtype: Any) -> Any:
        """Return how often each one is there."""
        device = self.starts.device
        size = filled(device, (1,), np.array(self.size, dtype.storage))
        end = leaf(dtype, device).wrap(size)
        return reduction.diff(rounded(self.starts, dtype), append=end)

    def inverse(self, spec: Any) -> Any:
        """Return, for each element of x, which of them it is."""
        number = reduction.cumulative_sum(self.is_new, dtype=spec.dtype)
        back = sorting.argsort(self.order, stable=True)
        found = indexing.take(arithmetic.sub(number, 1), back, axis=0)
        return manipulation.reshape(found, spec.shape)


def _unique_values(x: Tensor, /) -> Any:
    infer(sorting.unique_values, x)
    return _Distinct(x).values


def _unique_counts(x: Tensor, /) -> Any:
    spec = infer(sorting.unique_counts, x)
    found = _Distinct(x)
    counts = found.counts(spec.counts.dtype)
    return sorting.UniqueCountsResult(found.values, counts)


def _unique_inverse(x: Tensor, /) -> Any:
    spec = infer(sorting.unique_inverse, x)
    found = _Distinct(x)
    which = found.inverse(spec.inverse_indices)
    return sorting.UniqueInverseResult(found.values, which)


def _unique_all(x: Tensor, /) -> Any:
    spec = infer(sorting.unique_all, x)
    found = _Distinct(x)
    indices = indexing.take(found.order, found.starts, axis=0)
    which, counts = found.inverse(spec.inverse_indices), found.counts(spec.counts.dtype)
    return sorting.UniqueAllResult(found.values, indices, which, counts)
