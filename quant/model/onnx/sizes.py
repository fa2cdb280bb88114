"""Integer arithmetic on known values, done while a model is read.

Exporters compute the arguments of Reshape and Slice from Shape, operator by operator.
The results do not depend on data, so they are evaluated here, in the element types of
the file, and never become part of the graph. Dynamic sizes may be moved, but not used
in arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import (
    normalize_axes,
    normalize_axis,
    require_count,
    require_indices,
)
from mdtensor.quant.model.onnx.build import (
    Array,
    Builder,
    Operator,
    element_type,
    is_dynamic,
)

Evaluate = Callable[..., Any]


def evaluate(g: Builder, op: Operator) -> bool:
    """Add the result of an operator on known integers.

    Return False, without adding anything, for any other operator.
    """
    if op.kind == "Shape":
        shape(g, op)
        return True
    if op.kind not in _MOVES and op.kind not in _CALCULATES:
        return False
    names = [name for name in op.inputs if name]
    if not g.lists.keys().isdisjoint(names):
        return False
    # Floats stay in the graph, where they are rounded as at run time. Their types are
    # checked first, because `array` would compute them.
    if not names or not all(map(_is_whole, (g.specs[name].dtype for name in names))):
        return False
    known = [a for a in map(g.array, names) if a is not None]
    dtype, *others = {g.specs[str(name)].dtype for name in op.inputs[_elements(op)]}
    if op.kind == "Cast":
        dtype = element_type(op.get("to"), str(op))
    elif op.kind in _DECIDES:
        dtype = md.bool
    if len(known) < len(names) or others or not _is_whole(dtype):
        return False
    g.reserve(op, *_largest(op, known))
    g.size(op.outputs[0], _result(op, known), dtype)
    return True


def _largest(op: Operator, arrays: list[Array]) -> tuple[int, ...]:
    """Return the shape of the result, or one with at least as many elements."""
    if op.kind == "Gather":
        return tuple(max(a.size, 1) for a in arrays)
    if op.kind in _MOVES:
        return ()
    # Sizes that do not broadcast raise when the result is computed.
    ndim = max(a.ndim for a in arrays)
    shapes = [(1,) * (ndim - a.ndim) + a.shape for a in arrays]
    return tuple(map(max, zip(*shapes, strict=True)))


def _is_whole(dtype: md.DType) -> bool:
    return dtype.is_integer or dtype is md.bool


def _elements(op: Operator) -> slice:
    """Return which inputs contain elements of the result; the others are parameters."""
    if op.kind == "Where":
        return slice(1, None)
    return slice(1 if op.kind in _MOVES and op.kind != "Concat" else None)


def _result(op: Operator, arrays: list[Array]) -> Array:
    """Compute an operator on known integers."""
    movable = _elements(op).stop or len(arrays) if op.kind in _MOVES else 0
    if any(map(is_dynamic, arrays[movable:])):
        raise op.size_error("calculates with a dynamic size")
    if op.kind in _MOVES:
        return np.asarray(_MOVES[op.kind](op, *arrays))
    # The operators wrap around on overflow, without a warning.
    with np.errstate(over="ignore"):
        return np.asarray(_CALCULATES[op.kind](op, *arrays))


def shape(g: Builder, op: Operator) -> None:
    """Read Shape: add the sizes of a value, or the sizes from `start` to `end`."""
    found = g.shape(op.inputs[0])[op.get("start", 0) : op.get("end")]
    values = np.array([None if n < 0 else n for n in found], object)
    g.size(op.outputs[0], values, md.int64)


def _keep(op: Operator, x: Array) -> Array:
    return x


def _gather(op: Operator, x: Array, indices: Array) -> Array:
    axis = normalize_axis(op, op.get("axis", 0), x.ndim)
    require_indices(op, indices, x.shape[axis])
    return np.take(x, indices, axis=axis)


def _concat(op: Operator, *arrays: Array) -> Array:
    axis = normalize_axis(op, op.get("axis", 0), arrays[0].ndim)
    return np.concatenate(arrays, axis=axis)


def _squeeze(op: Operator, x: Array, axes: Array | None = None) -> Array:
    given = op.get("axes") if axes is None else axes.tolist()
    return np.squeeze(x, None if given is None else normalize_axes(op, given, x.ndim))


def _unsqueeze(op: Operator, x: Array, axes: Array | None = None) -> Array:
    given = op.get("axes") if axes is None else axes.tolist()
    return np.expand_dims(x, normalize_axes(op, given, x.ndim + len(given)))


def _slice(op: Operator, x: Array, *inputs: Array) -> Array:
    given = [b.tolist() for b in inputs]
    if not given:
        given = [op.get("starts"), op.get("ends")]
        given += [op.get("axes")] if op.get("axes") else []
    starts, ends, *rest = given
    axes, steps = (*rest, None, None)[:2]
    key = [slice(None)] * x.ndim
    bounds = checked_bounds(op, x.ndim, starts, ends, axes, steps)
    for start, end, axis, step in zip(*bounds, strict=True):
        key[axis] = clamp_slice(start, end, step, x.shape[axis])
    return x[tuple(key)]


Bounds = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]


def checked_bounds(
    op: Operator,
    rank: int,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Bounds:
    """Return (starts, ends, axes, steps) of Slice, the axes counted from the front.

    Raises:
        ModelError: an axis does not exist or is named twice, a step is 0, or there are
            not equally many starts, ends, axes and steps.
    """
    chosen = axes or range(len(starts))
    stride = steps or (1,) * len(starts)
    for given, what in ((ends, "ends"), (chosen, "axes"), (stride, "steps")):
        require_count(op, given, len(starts), what)
    if 0 in stride:
        raise op.error("has a step of 0", "Use a positive or a negative step")
    return starts, ends, normalize_axes(op, chosen, rank), stride


def clamp_slice(start: int, end: int, step: int, size: int) -> slice:
    """Return the slice that Slice takes of an axis, clamped as ONNX defines it."""
    # For a start before the first element, a backward slice is empty in Python; ONNX
    # clamps the start to 0.
    low, high, step = slice(max(start, -size), end, step).indices(size)
    return slice(low, None if high < 0 else high, step)


def _reshape(op: Operator, x: Array, wanted: Array) -> Array:
    return x.reshape(wanted.tolist())


def _transpose(op: Operator, x: Array) -> Array:
    return np.transpose(x, op.get("perm"))


def _divide(op: Operator, a: Array, b: Array) -> Array:
    """Divide integers, rounding towards zero."""
    if not b.all():
        raise op.error("divides an integer by 0", "Check the sizes of the inputs")
    # Python divides towards minus infinity, ONNX towards zero: add 1 where they differ.
    upwards = (a % b != 0) & ((a < 0) != (b < 0))
    quotient: Array = a // b + upwards.astype(a.dtype)
    return quotient


def _remainder(op: Operator, a: Array, b: Array) -> Array:
    """Return the remainder with the sign of the divisor, or of the dividend if fmod."""
    if not b.all():
        raise op.error("divides an integer by 0", "Check the sizes of the inputs")
    remainder: Array = (np.fmod if op.get("fmod", 0) else np.mod)(a, b)
    return remainder


def _with(ufunc: Any) -> Evaluate:
    """Make an evaluator from a NumPy function."""
    return lambda op, *arrays: ufunc(*arrays)


_MOVES: dict[str, Evaluate] = {
    "Cast": _keep,
    "Identity": _keep,
    "Gather": _gather,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Reshape": _reshape,
    "Transpose": _transpose,
}
_DECIDES: dict[str, Evaluate] = {
    "Equal": _with(np.equal),
    "And": _with(np.logical_and),
    "Or": _with(np.logical_or),
    "Not": _with(np.logical_not),
}
_CALCULATES: dict[str, Evaluate] = {
    "Add": _with(np.add),
    "Sub": _with(np.subtract),
    "Mul": _with(np.multiply),
    "Div": _divide,
    "Mod": _remainder,
    "Neg": _with(np.negative),
    "Where": _with(np.where),
} | _DECIDES
