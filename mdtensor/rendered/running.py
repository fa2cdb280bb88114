"""Running sums and products as rendered scans: one thread for each line, in order.

Up to 8192 elements the order is the host's, so floats have its bytes, and so have
integers and float products of any length. Longer float sums have a thread for each
1024 elements, whose own running sums are added to what comes before them:

    local[i] = sum of x[p .. i]     total = local at the end of each piece
    out[i] = (running sum of the totals before p) + local[i]

A piece ends with the sum that the next one starts from, so a running sum of numbers
that are not negative never falls.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.generics import reduction
from mdtensor.generics.conversion import astype
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import (
    Input,
    Loop,
    apply,
    cast,
    gather,
    load,
    scalar,
    select,
)
from mdtensor.rendered.launches import REAL, blank, launch, no_method, written
from mdtensor.rendered.methods import unary
from mdtensor.rendered.movement import picked
from mdtensor.rendered.recording import View
from mdtensor.tensor import Tensor

#: The longest line that one thread scans, and the elements of a piece of longer ones,
#: a power of two.
LONGEST, PIECE = 2**13, 2**10


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for name, fold in (("cumulative_sum", "add"), ("cumulative_prod", "mul")):
        operation = getattr(reduction, name)
        unary(device, operation, REAL, partial(_running, operation, fold))


def _running(
    operation: Any,
    fold: str,
    x: Tensor,
    /,
    *,
    axis: int | None,
    dtype: Any,
    include_initial: bool,
) -> Any:
    options = {"axis": axis, "dtype": dtype, "include_initial": include_initial}
    spec = infer(operation, x, **options)
    if spec.dtype.is_complex:
        raise no_method(operation.__name__, x)
    if spec.dtype.is_integer and x.dtype.is_floating:
        # Each element is checked and cut off as in `astype`, as on the host.
        x = astype(x, spec.dtype)
    at, type = reduction.running_axis(x.shape, axis), spec.dtype.name
    out = blank(x.device, spec.shape, spec.dtype.storage)
    before = (slice(None),) * at
    if include_initial:
        identity = np.array(fold == "mul", spec.dtype.storage)
        start = Loop((Input(type, True),), scalar(0, type), name="fill")
        first = partial(picked, (*before, slice(1)))
        out = written(x.device, start, out, first, [identity])
    value = cast(load(0, x.dtype.name), ir.widen(load(0, type)).type)
    finish = cast(ir.total(value.type), type)
    name = operation.__name__
    loop = Loop((Input(x.dtype.name),), value, fold, finish, is_scan=True, name=name)
    rest = slice(int(include_initial), None)
    part = partial(picked, (*before, rest))
    if x.shape and x.shape[at] > LONGEST and _is_split(fold, type):
        lines = x.buffer.view(partial(np.moveaxis, source=at, destination=-1))
        loop, buffers = _in_pieces(x.device, replace(loop, finish=None), lines)
        loop = replace(loop, value=cast(loop.value, type))
        part = partial(_lines_of, part, at)
        return spec.type.wrap(written(x.device, loop, out, part, buffers))
    return spec.type.wrap(written(x.device, loop, out, part, [x.buffer], (at,)))


def _is_split(fold: str, type: str) -> bool:
    """Return whether a long line may be scanned in pieces.

    A float product of a piece may overflow where the product from the start does not.
    """
    return fold == "add" or type in ir.INTEGERS


def _lines_of(part: View, at: int, array: Any) -> Any:
    return np.moveaxis(part(array), at, -1)


# How a line is split depends on its length alone (decision 0109).
def _in_pieces(device: Device, scan: Loop, lines: Any) -> tuple[Loop, list[Any]]:
    """Return the elementwise loop that ends a scan of pieces, and its operands.

    Args:
        device: where the pieces are scanned.
        scan: the loop in order, without a finish.
        lines: its operand, lines along the last axis.
    """
    type, size, axis = scan.type, lines.shape[-1], len(lines.shape) - 1
    whole = size // PIECE * PIECE
    local = blank(device, lines.shape, dtypes.dtype(type).storage)
    cut = partial(_pieces_of, whole)
    local = written(device, scan, local, cut, [lines.view(cut)], (axis + 1,))
    if size > whole:
        end = partial(picked, (..., slice(whole, None)))
        local = written(device, scan, local, end, [lines.view(end)], (axis,))
    totals = local.view(partial(picked, (..., slice(PIECE - 1, whole, PIECE))))
    sums = replace(scan, inputs=(Input(type),), value=load(0, type))
    if totals.shape[-1] > LONGEST:
        last, buffers = _in_pieces(device, sums, totals)
        before = launch(device, last, totals.shape, buffers)
    else:
        before = blank(device, totals.shape, totals.dtype)
        all_of = partial(picked, (...,))
        before = written(device, sums, before, all_of, [totals], (axis,))
    return _joined(device, scan, local, before)


def _pieces_of(whole: int, array: Any) -> Any:
    kept = array[..., :whole]
    return kept.reshape(*kept.shape[:-1], whole // PIECE, PIECE)


def _joined(
    device: Device, scan: Loop, local: Any, before: Any
) -> tuple[Loop, list[Any]]:
    """Return the loop that adds what comes before each piece to its own scan."""
    assert scan.fold is not None
    bits = ir.number(PIECE.bit_length() - 1, "int64")
    piece = cast(apply("shift_right", ir.position(), bits), "int32")
    earlier = apply("sub", piece, ir.number(1, "int32"))
    loop = Loop((), earlier, name="pieces")
    pieces = launch(device, loop, (local.shape[-1],), [])
    inputs = Input(scan.type), Input("int32"), Input(scan.type)
    first = before.view(partial(picked, (..., slice(1))))
    own, piece = load(0, scan.type), load(1, "int32")
    zero = ir.number(0, "int32")
    start = gather(2, scan.type, apply("maximum", piece, zero))
    value = select(apply("less", piece, zero), own, apply(scan.fold, start, own))
    return Loop(inputs, value, name=scan.name), [local, pieces, first]
