"""Readers of reductions, softmax, normalizations and matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import (
    LARGEST,
    normalize_axes,
    normalize_axis,
    require_between,
    require_count,
)
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import (
    as_matrix,
    axes_of,
    number,
    reads,
    require_fixed_shape,
)

#: Operations on each element, along the axes, and on the result.
REDUCTIONS: dict[str, tuple[Any, Any, Any]] = {
    "ReduceL1": (md.abs, md.sum, None),
    "ReduceL2": (md.square, md.sum, md.sqrt),
    "ReduceLogSum": (None, md.sum, md.log),
    "ReduceMax": (None, md.max, None),
    "ReduceMean": (None, md.mean, None),
    "ReduceMin": (None, md.min, None),
    "ReduceProd": (None, md.prod, None),
    "ReduceSum": (None, md.sum, None),
    "ReduceSumSquare": (md.square, md.sum, None),
}
#: The operator set that made axes an input, if it is not 18.
AXES_INPUT = {"ReduceSum": 13}
#: The same reductions for bool.
OF_BOOL = {md.max: md.any, md.min: md.all}
EXTREMES = {"ArgMax": md.argmax, "ArgMin": md.argmin}
SCANS = {"CumSum": md.cumulative_sum, "CumProd": md.cumulative_prod}


@reads(*REDUCTIONS)
def reduce(g: Builder, op: Operator) -> None:
    before, operation, after = REDUCTIONS[op.kind]
    x, options = op.inputs[0], _reduction_options(g, op)
    if before:
        x = g.step(op, "each", before, x)
    dtype = g.specs[str(x)].dtype
    if _extreme_of_none(g, op, operation, x, options):
        return
    if dtype is md.bool:
        operation = OF_BOOL.get(operation, operation)
    # ONNX sums in the type of the elements; `md.sum` would widen small integers.
    if operation in (md.sum, md.prod):
        options["dtype"] = dtype
    if dtype.is_integer and operation is md.mean:
        _mean_of_integers(g, op, x, options)
    elif after is None:
        g.call(op, operation, x, **options)
    elif dtype.is_integer:
        # The result has the type of the elements: its fraction is cut off.
        wide = g.step(op, "reduced", operation, x, **options)
        wide = g.step(op, "wide", md.astype, wide, md.float64)
        g.call(op, md.astype, g.step(op, "exact", after, wide), dtype)
    else:
        g.call(op, after, g.step(op, "reduced", operation, x, **options))


def _mean_of_integers(
    g: Builder, op: Operator, x: Any, options: dict[str, Any]
) -> None:
    """Divide a sum by its count, toward 0, as ONNX Runtime does."""
    shape = g.shape(x)
    axes = range(len(shape)) if options["axis"] is None else options["axis"]
    require_fixed_shape(g, op, x, axes)
    count = prod(shape[axis] for axis in axes)
    total = g.step(op, "total", md.sum, x, dtype=g.specs[str(x)].dtype, **options)
    size = g.step(
        op, "whole", md.floor_divide, g.step(op, "size", md.abs, total), count
    )
    g.call(op, md.mul, size, g.step(op, "sign", md.sign, total))


def _extreme_of_none(
    g: Builder, op: Operator, operation: Any, x: Any, options: dict[str, Any]
) -> bool:
    """Add a maximum or minimum of no elements; return whether it is one.

    It is the least or the greatest number of the type. A result that is empty itself,
    because an axis that stays is empty, is none.
    """
    shape = g.shape(x)
    axes = range(len(shape)) if options["axis"] is None else options["axis"]
    if operation not in (md.max, md.min) or 0 not in [shape[axis] for axis in axes]:
        return False
    fixed, keepdims = require_fixed_shape(g, op, x), options["keepdims"]
    sizes = [1 if axis in axes else size for axis, size in enumerate(fixed)]
    after = [n for axis, n in enumerate(sizes) if keepdims or axis not in axes]
    g.reserve(op, *after)
    storage = g.specs[str(x)].dtype.storage
    value = _greatest(storage, -1 if operation is md.max else 1)
    g.constant(op.outputs[0], md.asarray(np.full(after, value, storage)))
    return True


def _greatest(storage: np.dtype[Any], sign: int) -> Any:
    """Return the greatest number of a type, or the least for a sign of -1."""
    if storage.kind == "b":
        return sign > 0
    if storage.kind in "iu":
        return np.iinfo(storage).max if sign > 0 else np.iinfo(storage).min
    return sign * np.inf


def _reduction_options(g: Builder, op: Operator) -> dict[str, Any]:
    """Return the axes of a reduction, and whether they are kept with size 1."""
    given = axes_of(g, op, AXES_INPUT.get(op.kind, 18)) or ()
    axes = normalize_axes(op, given, len(g.shape(op.inputs[0]))) or None
    if axes is None and op.get("noop_with_empty_axes", 0):
        axes = ()
    return {"axis": axes, "keepdims": bool(op.get("keepdims", 1))}


@reads("ReduceLogSumExp")
def reduce_log_sum_exp(g: Builder, op: Operator) -> None:
    """Read ReduceLogSumExp: log(sum(exp(x))).

    The largest number is subtracted first if it is finite, so that exp does not
    overflow.
    """
    x, options = op.inputs[0], _reduction_options(g, op)
    if g.specs[str(x)].dtype.is_integer:
        raise op.error("reduces integers", "Cast them to float before it")
    if 0 in g.shape(x):
        sums = g.step(op, "sums", md.sum, g.step(op, "exp", md.exp, x), **options)
        g.call(op, md.log, sums)
        return
    most = g.step(op, "most", md.max, x, **options | {"keepdims": True})
    is_finite = g.step(op, "is_finite", md.isfinite, most)
    shift = g.step(op, "shift", md.where, is_finite, most, 0.0)
    terms = g.step(op, "exp", md.exp, g.step(op, "below", md.sub, x, shift))
    sums = g.step(op, "sums", md.sum, terms, **options)
    left = g.step(op, "left", md.max, shift, **options)
    g.call(op, md.add, g.step(op, "log", md.log, sums), left)


@reads(*EXTREMES)
def extreme(g: Builder, op: Operator) -> None:
    """Read ArgMax or ArgMin."""
    x = op.inputs[0]
    axis = normalize_axis(op, op.get("axis", 0), len(g.shape(x)))
    options = {"axis": axis, "keepdims": bool(op.get("keepdims", 1))}
    if not op.get("select_last_index", 0):
        g.call(op, EXTREMES[op.kind], x, **options)
        return
    # The last of equal elements is the first one from the other end.
    last = require_fixed_shape(g, op, x, [axis])[axis] - 1
    behind = g.step(op, "flipped", md.flip, x, axis=axis)
    g.call(op, md.sub, last, g.step(op, "behind", EXTREMES[op.kind], behind, **options))


@reads(*SCANS)
def scan(g: Builder, op: Operator) -> None:
    """Read CumSum or CumProd."""
    x, ndim = op.inputs[0], len(g.shape(op.inputs[0]))
    axis = normalize_axis(op, int(number(g, op, 1, "the axis")), ndim)
    options = {"axis": axis, "dtype": g.specs[str(x)].dtype}
    is_reverse, is_exclusive = op.get("reverse", 0), bool(op.get("exclusive", 0))
    if is_reverse:
        x = g.step(op, "flipped", md.flip, x, axis=axis)
    found = g.step(
        op, "scan", SCANS[op.kind], x, include_initial=is_exclusive, **options
    )
    # An exclusive scan does not count the element itself: drop the last total.
    if is_exclusive:
        key = [slice(None)] * ndim
        key[axis] = slice(0, -1)
        found = g.step(op, "before", md.getitem, found, key=tuple(key))
    if is_reverse:
        g.call(op, md.flip, found, axis=axis)
    else:
        g.call(op, md.astype, found, g.specs[found].dtype)


# Softmax and normalizations.

#: The operations for Softmax and LogSoftmax.
SOFTMAXES = {"Softmax": md.softmax, "LogSoftmax": md.log_softmax}


@reads(*SOFTMAXES, "Hardmax")
def softmax(g: Builder, op: Operator) -> None:
    """Read Softmax, LogSoftmax or Hardmax."""
    x = op.inputs[0]
    shape = g.shape(x)
    default = 1 if op.opset < 13 else -1
    axis = normalize_axis(op, op.get("axis", default), len(shape))
    if op.opset >= 13 or axis == len(shape) - 1:
        _softmax_along(g, op, x, axis, g.call)
        return
    # Before opset 13, all axes from `axis` on form one distribution.
    flat = g.step(op, "flat", md.reshape, x, shape=as_matrix(op, shape, axis))

    def add(op: Operator, *given: Any, **options: Any) -> str:
        return g.step(op, "flat.shares", *given, **options)

    g.call(op, md.reshape, _softmax_along(g, op, flat, 1, add), shape=shape)


def _softmax_along(g: Builder, op: Operator, x: Any, axis: int, add: Any) -> Any:
    """Compute a softmax or Hardmax along one axis; `add` adds the last node."""
    if op.kind in SOFTMAXES:
        return add(op, SOFTMAXES[op.kind], x, axis=axis)
    first = g.step(op, "first", md.argmax, x, axis=axis, keepdims=True)
    shape = require_fixed_shape(g, op, x, [axis])
    g.reserve(op, shape[axis])
    along = [-1 if i == axis else 1 for i in range(len(shape))]
    places = np.arange(shape[axis]).reshape(along)
    at = g.new_constant(op, "places", places)
    is_first = g.step(op, "is_first", md.equal, first, at)
    return add(op, md.astype, is_first, g.specs[str(x)].dtype)


@reads("BatchNormalization")
def batch_norm(g: Builder, op: Operator) -> None:
    op.require("training_mode", 0)
    op.require("spatial", 1)
    x, weight, bias, mean, var = op.inputs
    eps = op.get("epsilon", 1e-5)
    g.call(op, md.batch_norm, x, mean, var, weight, bias, eps=eps)


@reads("LayerNormalization")
def layer_norm(g: Builder, op: Operator) -> None:
    x, weight, bias = op.inputs[0], op.inputs[1], op.input(2)
    eps, ndim = op.get("epsilon", 1e-5), len(g.shape(x))
    first = normalize_axis(op, op.get("axis", -1), ndim)
    shape = require_fixed_shape(g, op, x, range(first, ndim))
    g.call(op, md.layer_norm, x, weight, bias, normalized_shape=shape[first:], eps=eps)
    if len(op.outputs) == 1:
        return
    axes = {"axis": tuple(range(first, len(shape))), "keepdims": True}
    # The optional outputs are float32 for any type of x (attribute stash_type).
    wide = g.step(op, "wide", md.astype, x, md.float32)
    mean = g.step(op, "mean", md.mean, wide, **axes)
    var = g.step(op, "var", md.var, wide, **axes)
    raised = g.step(op, "raised", md.add, var, float(eps))
    g.call_output(op, 1, md.astype, mean, md.float32)
    g.call_output(op, 2, md.reciprocal, g.step(op, "root", md.sqrt, raised))


@reads("RMSNormalization")
def rms_norm(g: Builder, op: Operator) -> None:
    x, eps = op.inputs[0], op.get("epsilon", 1e-5)
    ndim = len(g.shape(x))
    first = normalize_axis(op, op.get("axis", -1), ndim)
    over = require_fixed_shape(g, op, x, range(first, ndim))[first:]
    g.call(op, md.rms_norm, x, op.inputs[1], normalized_shape=over, eps=eps)


@reads("InstanceNormalization")
def instance_norm(g: Builder, op: Operator) -> None:
    g.call(op, md.instance_norm, *op.inputs, eps=op.get("epsilon", 1e-5))


@reads("GroupNormalization")
def group_norm(g: Builder, op: Operator) -> None:
    if op.opset < 21:
        raise op.error(
            "has weights for groups instead of channels",
            "Export it for operator set 21",
        )
    groups, eps = op.get("num_groups"), op.get("epsilon", 1e-5)
    g.call(op, md.group_norm, *op.inputs, num_groups=groups, eps=eps)


@reads("LpNormalization")
def lp_norm(g: Builder, op: Operator) -> None:
    """Read LpNormalization: x / norm, and 0 where the norm is 0."""
    x = op.inputs[0]
    axis = normalize_axis(op, op.get("axis", -1), len(g.shape(x)))
    options = {"axis": axis, "keepdims": True}
    op.require("p", 2, 1)
    if op.get("p", 2) == 1:
        norm = g.step(op, "norm", md.sum, g.step(op, "abs", md.abs, x), **options)
    else:
        sums = g.step(op, "sums", md.sum, g.step(op, "sq", md.square, x), **options)
        norm = g.step(op, "norm", md.sqrt, sums)
    is_zero = g.step(op, "is_zero", md.equal, norm, 0.0)
    divisor = g.step(op, "divisor", md.where, is_zero, 1.0, norm)
    g.call(op, md.div, x, divisor)


@reads("LRN")
def local_response_norm(g: Builder, op: Operator) -> None:
    """Read LRN: x / (bias + alpha / size · sum of squares)^beta.

    The sum is over `size` neighbouring channels.
    """
    x, size = str(op.inputs[0]), int(op.get("size"))
    channels = g.shape(x)[1]
    if channels < 0:
        raise op.size_error("sums over channels of dynamic size")
    require_between(op, size, 1, LARGEST, "size")
    # Neighbours beyond the first and the last channel are 0, and need no terms.
    before, after = (min(n, channels) for n in ((size - 1) // 2, size // 2))
    widths = [(0, 0)] * len(g.shape(x))
    widths[1] = before, after
    squares = g.step(op, "squares", md.square, x)
    padded = g.step(op, "padded", md.pad, squares, pad_width=tuple(widths))
    total = ""
    for first in range(before + 1 + after):
        key = (slice(None), slice(first, first + channels))
        part = g.step(op, f"part{first}", md.getitem, padded, key=key)
        total = g.step(op, f"sum{first}", md.add, total, part) if total else part
    factor = op.get("alpha", 1e-4) / size
    scaled = g.step(op, "scaled", md.mul, total, factor)
    raised = g.step(op, "raised", md.add, scaled, op.get("bias", 1.0))
    root = g.step(op, "root", md.pow, raised, op.get("beta", 0.75))
    g.call(op, md.div, x, root)


@reads("MeanVarianceNormalization")
def mean_variance_norm(g: Builder, op: Operator) -> None:
    x = op.inputs[0]
    axes = normalize_axes(op, op.get("axes", (0, 2, 3)), len(g.shape(x)))
    options: dict[str, Any] = {"axis": axes, "keepdims": True}
    centered = g.step(op, "off", md.sub, x, g.step(op, "mean", md.mean, x, **options))
    spread = g.step(op, "std", md.std, x, **options)
    # The constant of ONNX's definition, which keeps the divisor above 0.
    g.call(op, md.div, centered, g.step(op, "raised", md.add, spread, 1e-9))


# Matrix products.


@reads("Gemm")
def gemm(g: Builder, op: Operator) -> None:
    """Read Gemm: alpha · A' · B' + beta · C, as `linear`, x · wᵀ + b, if possible."""
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    for name in (x, w):
        require_count(op, g.shape(name), 2, f"the shape of {name!r}")
    if op.get("transA", 0):
        x = g.step(op, "x", md.permute_dims, x, axes=(1, 0))
    if not op.get("transB", 0):
        w = g.step(op, "w", md.permute_dims, w, axes=(1, 0))
    w = _multiply_by_attribute(g, op, w, "alpha")
    if b is None:
        g.call(op, md.linear, x, w)
        return
    b = _multiply_by_attribute(g, op, b, "beta")
    rows = g.shape(w)[0]
    # `linear` takes one bias per column; any other C is a separate sum.
    if g.shape(b) == (rows,):
        g.call(op, md.linear, x, w, b)
    elif g.shape(b) == (1, rows):
        g.call(op, md.linear, x, w, g.step(op, "b", md.reshape, b, shape=(rows,)))
    else:
        g.call(op, md.add, g.step(op, "product", md.linear, x, w), b)


def _multiply_by_attribute(g: Builder, op: Operator, value: Any, attribute: str) -> Any:
    """Multiply a value by an attribute, unless it is 1."""
    factor = op.get(attribute, 1.0)
    if factor == 1.0:
        return value
    storage = g.specs[value].dtype.storage
    constant = g.new_constant(op, attribute, np.array(factor, storage))
    return g.step(op, f"{attribute}.{value}", md.mul, value, constant)


@reads("Det")
def det(g: Builder, op: Operator) -> None:
    g.call(op, md.linalg.det, op.inputs[0])
