"""Sorting along an axis by ranks: two folds of n² comparisons, stable, in any order.

    rank[i] = number of j that come before i        order[k] = the i of rank k

NaN comes last, or first if descending; equal elements keep their order, as on the host.
Each result is one thread's, so nothing waits for other threads. Longer axes than `MOST`
raise, since the work grows with the square.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.generics import sorting
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Loop, Value, apply, gather, select
from mdtensor.rendered.launches import (
    NUMBERS,
    Operands,
    compute,
    launch,
    no_method,
)
from mdtensor.rendered.methods import unary
from mdtensor.rendered.products import contract
from mdtensor.rendered.recording import strides_of
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor

#: The longest axis.
MOST = 2**13


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    unary(device, sorting.argsort, NUMBERS, partial(_sorted, sorting.argsort))
    unary(device, sorting.sort, NUMBERS, partial(_sorted, sorting.sort))


def _sorted(
    operation: Any, x: Tensor, /, *, axis: int, descending: bool, stable: bool
) -> Any:
    options = {"axis": axis, "descending": descending, "stable": stable}
    spec = infer(operation, x, **options)
    at = normalize_axis(axis, x.ndim)
    if x.shape[at] > MOST:
        raise no_method(operation.__name__, x)
    order = _order(x, at, descending)
    if operation is sorting.argsort:
        return spec.type.wrap(order)
    operands = Operands("sort", (x,))
    step = strides_of(x.buffer)[at] // x.buffer.dtype.itemsize
    jump = apply("mul", operands.view(order), operands.array(np.array(step)))
    first = x.buffer.view(lambda array: array[(slice(None),) * at + (slice(1),)])
    element = gather(operands.operand(first), x.dtype.name, jump)
    return compute(spec, operands, element)


def _order(x: Tensor, at: int, descending: bool) -> Any:
    """Return the int64 buffer of the indices along an axis that sort x."""
    device, size = x.device, x.shape[at]
    places = launch(device, Loop((), ir.position(), name="positions"), (size,), [])
    lines = x.buffer.view(lambda array: np.moveaxis(array, at, -1))
    operands = Operands("rank", (x,))
    mine = operands.view(lines.view(lambda array: array[..., :, None]))
    other = operands.view(lines.view(lambda array: array[..., None, :]))
    i, j = (operands.view(places.view(lambda a, k=k: a[k])) for k in (COLUMN, ROW))
    before = _is_before(other, mine, descending)
    ties = apply("bit_and", apply("less", j, i), _is_tie(other, mine))
    rank = _count(operands, apply("bit_or", before, ties), "rank", x.ndim)
    operands = Operands("order", (x,))
    ranks = operands.view(rank.view(lambda array: array[..., None, :]))
    k, i = (operands.view(places.view(lambda a, k=k: a[k])) for k in (COLUMN, ROW))
    zero = ir.number(0, "int64")
    found = select(apply("equal", ranks, k), i, zero)
    order = _count(operands, found, "order", x.ndim)
    return order.view(lambda array: np.moveaxis(array, -1, at))


#: Positions as a column, for the elements of the result, and as a row, for the fold.
COLUMN, ROW = (slice(None), None), (None, slice(None))


def _count(operands: Operands, value: Value, name: str, axis: int) -> Any:
    """Return the sums of values along an axis."""
    total = ir.cast(value, "int64")
    loop = Loop(tuple(operands.inputs), total, "add", is_serial=True, name=name)
    device = operands.given[0].device
    return contract(device, loop, operands.buffers, (axis,))


def _is_before(a: Value, b: Value, descending: bool) -> Value:
    """Return whether a comes before b, and does not tie with it."""
    first, second = (b, a) if descending else (a, b)
    less = apply("less", first, second)
    if a.type not in ir.FLOATS:
        return less
    known = apply("bit_not", apply("isnan", first))
    return apply("bit_or", less, apply("bit_and", known, apply("isnan", second)))


def _is_tie(a: Value, b: Value) -> Value:
    same = apply("equal", a, b)
    if a.type not in ir.FLOATS:
        return same
    both = apply("bit_and", apply("isnan", a), apply("isnan", b))
    return apply("bit_or", same, both)
