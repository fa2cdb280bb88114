"""What makes one number of many."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads
from mdtensor.quant.model.operators.arguments import axes_of, fixed_shape, number

#: What is done to each element, to those of an axis, and to the result.
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
#: Since which operator set axes are an input, where that is not 18.
AXES_INPUT = {"ReduceSum": 13}
#: Of truth values.
OF_BOOL = {md.max: md.any, md.min: md.all}
EXTREMES = {"ArgMax": md.argmax, "ArgMin": md.argmin}
SCANS = {"CumSum": md.cumulative_sum, "CumProd": md.cumulative_prod}


@reads(*REDUCTIONS)
def reduce(g: Builder, op: Operator) -> None:
    before, operation, after = REDUCTIONS[op.kind]
    x, options = op.inputs[0], _over(g, op)
    if before:
        x = g.step(op, "each", before, x)
    dtype = g.specs[str(x)].dtype
    if 0 in g.shape(x) and operation in (md.max, md.min):
        x = _with_extreme(g, op, x, -np.inf if operation is md.max else np.inf)
    if dtype is md.bool:
        operation = OF_BOOL.get(operation, operation)
    if operation in (md.sum, md.prod):
        options["dtype"] = dtype
    if after is None:
        g.call(op, operation, x, **options)
    else:
        g.call(op, after, g.step(op, "reduced", operation, x, **options))


def _with_extreme(g: Builder, op: Operator, x: Any, value: float) -> str:
    """`x` with one more index on the empty axis, of what every number is beyond."""
    shape = [n or 1 for n in fixed_shape(g, op, x)]
    storage = g.specs[str(x)].dtype.storage
    if storage.kind == "b":
        value = value > 0
    elif storage.kind in "iu":
        info = np.iinfo(storage)
        value = info.min if value < 0 else info.max
    edge = g.new_constant(op, "edge", np.full(shape, value, storage))
    return g.step(op, "extended", md.concat, x, edge, axis=g.shape(x).index(0))


def _over(g: Builder, op: Operator) -> dict[str, Any]:
    """Over which axes, and whether they stay with size 1."""
    axes = axes_of(g, op, AXES_INPUT.get(op.kind, 18)) or None
    if axes is None and op.get("noop_with_empty_axes", 0):
        axes = ()
    return {"axis": axes, "keepdims": bool(op.get("keepdims", 1))}


@reads("ReduceLogSumExp")
def reduce_log_sum_exp(g: Builder, op: Operator) -> None:
    """log(sum(exp(x))), where the largest number is taken out if it is finite."""
    x, options = op.inputs[0], _over(g, op)
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
    x, axis = op.inputs[0], op.get("axis", 0)
    options = {"axis": axis, "keepdims": bool(op.get("keepdims", 1))}
    if not op.get("select_last_index", 0):
        g.call(op, EXTREMES[op.kind], x, **options)
        return
    last = fixed_shape(g, op, x)[axis] - 1
    behind = g.step(op, "flipped", md.flip, x, axis=axis)
    g.call(op, md.sub, last, g.step(op, "behind", EXTREMES[op.kind], behind, **options))


@reads(*SCANS)
def scan(g: Builder, op: Operator) -> None:
    x, axis = op.inputs[0], int(number(g, op, 1, "the axis"))
    options = {"axis": axis, "dtype": g.specs[str(x)].dtype}
    is_reverse, is_exclusive = op.get("reverse", 0), bool(op.get("exclusive", 0))
    if is_reverse:
        x = g.step(op, "flipped", md.flip, x, axis=axis)
    found = g.step(
        op, "scan", SCANS[op.kind], x, include_initial=is_exclusive, **options
    )
    if is_exclusive:
        ndim = len(g.shape(x))
        key = [slice(None)] * ndim
        key[axis % ndim] = slice(0, -1)
        found = g.step(op, "before", md.getitem, found, key=tuple(key))
    if is_reverse:
        g.call(op, md.flip, found, axis=axis)
    else:
        g.call(op, md.astype, found, g.specs[found].dtype)
