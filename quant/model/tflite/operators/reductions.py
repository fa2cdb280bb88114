"""Readers of reductions, softmax and normalizations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import normalize_axes, normalize_axis
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.elements import element_type
from mdtensor.quant.model.tflite.operators.table import axis_in, integers, reads

REDUCTIONS: dict[str, Any] = {
    "MEAN": md.mean,
    "REDUCE_ALL": md.all,
    "REDUCE_ANY": md.any,
    "REDUCE_MAX": md.max,
    "REDUCE_MIN": md.min,
    "REDUCE_PROD": md.prod,
    "SUM": md.sum,
}
#: Reductions whose result is one of the elements.
EXTREMES = ("REDUCE_MAX", "REDUCE_MIN")
ARGUMENTS = {"ARG_MAX": md.argmax, "ARG_MIN": md.argmin}
#: The rest of a sum of squares, below which L2_NORMALIZATION divides by a constant.
LEAST = 1e-6


@reads(*REDUCTIONS)
def reduce(g: Reading, op: Call) -> None:
    name, keeps = op.operand(0), bool(op.get("KeepDims", False))
    rank = len(g.shape(name))
    axes = normalize_axes(op, sorted(set(integers(g, op, 1, "the axes"))), rank)
    if op.kind == "MEAN" and g.grid(name) is None and g.dtype(name).is_integer:
        _mean_of_integers(g, op, name, axes, keeps)
        return
    if op.kind == "MEAN" and rank == 4 and set(axes) == {1, 2}:
        _mean_of_images(g, op, name, keeps)
        return
    # Without kept axes, the order of the others must be that of the file.
    is_image = g.has_image(name) and keeps
    x = g.form(name, is_image)
    own = tuple(axis_in(op, axis, rank, is_image) for axis in axes)
    options: dict[str, Any] = {"axis": own, "keepdims": keeps}
    if op.kind in ("SUM", "REDUCE_PROD"):
        options["dtype"] = g.builder.specs[g.real(x)].dtype
    if op.kind in EXTREMES:
        g.move(op, REDUCTIONS[op.kind], x, is_image=is_image, **options)
    else:
        g.write(op, REDUCTIONS[op.kind], g.real(x), is_image=is_image, **options)


def _mean_of_images(g: Reading, op: Call, name: str, keeps: bool) -> None:
    """Read the mean of each channel, which has compiled kernels."""
    x = g.image(name)
    if keeps:
        g.write(op, md.global_avg_pool2d, g.real(x), is_image=True)
        return
    # The images of one pixel are written as if the file had them, then flattened.
    wide = g.builder.fresh(f"{op.outputs[0]}.wide")
    inner = replace(op, outputs=(wide,))
    g.write(inner, md.global_avg_pool2d, g.real(x), is_image=True)
    n, c = g.builder.shape(x)[:2]
    flat = replace(op, name=f"{op.name}.flat")
    g.move(flat, md.reshape, g.image(wide), shape=(n, c))


def _mean_of_integers(
    g: Reading, op: Call, name: str, axes: tuple[int, ...], keeps: bool
) -> None:
    """Read the mean of integers: their sum of 64 bits, divided towards zero."""
    dtype, x = g.dtype(name), g.rows(name)
    if dtype not in (md.int32, md.int64):
        raise op.error(
            f"takes the mean of {dtype} numbers without a grid",
            "Use int32 or floats, or give the tensor a scale",
        )
    count = math.prod(g.shape(name)[axis] for axis in axes)
    if any(g.shape(name)[axis] < 0 for axis in axes):
        raise op.size_error("takes the mean of integers over a dynamic size")
    total = g.builder.step(
        op, "total", md.sum, x, axis=axes, keepdims=keeps, dtype=md.int64
    )
    # An empty sum is the result, 0, as LiteRT gives.
    if count > 1:
        # floor_divide rounds down; a negative sum gets count - 1 to round up.
        is_below = g.builder.step(op, "is_below", md.less, total, 0)
        below = g.builder.step(op, "below", md.astype, is_below, md.int64)
        extra = g.builder.step(op, "extra", md.mul, below, count - 1)
        raised = g.builder.step(op, "raised", md.add, total, extra)
        total = g.builder.step(op, "mean", md.floor_divide, raised, count)
    g.write(op, md.astype, total, dtype)


@reads(*ARGUMENTS)
def argument(g: Reading, op: Call) -> None:
    """Read ARG_MAX or ARG_MIN."""
    (axis,) = integers(g, op, 1, "the axis")
    x = g.rows(op.operand(0))
    axis = normalize_axis(op, axis, len(g.builder.shape(x)))
    dtype = element_type(op.results[0].kind, str(op))
    found = g.builder.step(op, "found", ARGUMENTS[op.kind], x, axis=axis)
    g.move(op, md.astype, found, dtype)


@reads("SOFTMAX")
def softmax(g: Reading, op: Call) -> None:
    """Read SOFTMAX: over the last axis, of x · beta."""
    name, beta = op.operand(0), float(op.get("Beta", 1.0))
    is_image = g.has_image(name)
    x = g.real(g.form(name, is_image))
    if beta != 1.0:
        x = g.builder.step(op, "scaled", md.mul, x, beta)
    axis = axis_in(op, -1, len(g.shape(name)), is_image)
    g.write(op, md.softmax, x, is_image=is_image, axis=axis)


@reads("LOG_SOFTMAX")
def log_softmax(g: Reading, op: Call) -> None:
    g.write(op, md.log_softmax, g.real(g.rows(op.operand(0))), axis=-1)


@reads("L2_NORMALIZATION")
def l2_normalization(g: Reading, op: Call) -> None:
    """Read L2_NORMALIZATION: x / max(norm, 1e-6), over the last axis."""
    name = op.operand(0)
    is_image = g.has_image(name)
    x = g.real(g.form(name, is_image))
    axis = axis_in(op, -1, len(g.shape(name)), is_image)
    squares = g.builder.step(op, "squares", md.square, x)
    sums = g.builder.step(op, "sums", md.sum, squares, axis=axis, keepdims=True)
    norm = g.builder.step(op, "norm", md.sqrt, sums)
    least = g.builder.new_constant(op, "least", np.array(LEAST, np.float32))
    divisor = g.builder.step(op, "divisor", md.maximum, norm, least)
    g.write(op, md.div, x, divisor, is_image=is_image)


@reads("CUMSUM")
def cumulative_sum(g: Reading, op: Call) -> None:
    """Read CUMSUM: from the end if `Reverse`, without the element if `Exclusive`."""
    (axis,) = integers(g, op, 1, "the axis")
    x = g.real(g.rows(op.operand(0)))
    shape = g.builder.shape(x)
    axis = normalize_axis(op, axis, len(shape))
    options: dict[str, Any] = {"axis": axis, "dtype": g.builder.specs[x].dtype}
    is_reverse = bool(op.get("Reverse", False))
    part = _PARTS_OF_SUMS[bool(op.get("Exclusive", False)), is_reverse]
    if part is None:
        g.write(op, md.cumulative_sum, x, **options)
        return
    if is_reverse:
        x = g.builder.step(op, "flipped", md.flip, x, axis=axis)
    options["include_initial"] = part.start is not None
    sums = g.builder.step(op, "sums", md.cumulative_sum, x, **options)
    key = (*[slice(None)] * axis, part)
    g.write(op, md.getitem, sums, key=key + (slice(None),) * (len(shape) - axis - 1))


#: The sums that are results, by `Exclusive` and `Reverse`. Exclusive ones begin with 0,
#: and the last one counts every element; reversed ones are in reverse order.
_PARTS_OF_SUMS = {
    (False, False): None,
    (False, True): slice(None, None, -1),
    (True, False): slice(0, -1),
    (True, True): slice(-2, None, -1),
}
