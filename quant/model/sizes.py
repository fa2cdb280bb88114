"""Arithmetic on shapes, done while a model is read.

Exporters compute the arguments of Reshape and Slice from Shape, operator by operator.
None of it depends on data, so it is evaluated here and never becomes part of the graph.
Sizes that are dynamic may be moved about, but not calculated with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.quant.model.build import UNKNOWN, Array, Builder, Operator, element_type

Evaluate = Callable[..., Any]


def evaluate(g: Builder, op: Operator) -> bool:
    """Whether the operator works on known integers only; if so, its result is added."""
    if op.kind == "Shape":
        g.size(op.outputs[0], _shape(g, op))
        return True
    arrays = [g.array(name) for name in op.inputs if name]
    if op.kind not in _MOVES | _CALCULATES or not arrays:
        return False
    if any(a is None or a.dtype.kind not in "iu" for a in arrays):
        return False
    if op.kind == "Cast" and not element_type(op.get("to"), str(op)).is_integer:
        return False
    g.size(
        op.outputs[0],
        _result(op, [a.astype(np.int64) for a in arrays if a is not None]),
    )
    return True


def _result(op: Operator, arrays: list[Array]) -> Array:
    if op.kind in _MOVES:
        return np.asarray(_MOVES[op.kind](op, *arrays), np.int64)
    if any((a == UNKNOWN).any() for a in arrays):
        raise op.refusal(
            "calculates with a size that is dynamic", "Give input_shapes with all sizes"
        )
    return np.asarray(_CALCULATES[op.kind](*arrays), np.int64)


def _shape(g: Builder, op: Operator) -> Array:
    shape = g.shape(op.inputs[0])[op.get("start", 0) : op.get("end")]
    return np.array([UNKNOWN if n < 0 else n for n in shape], np.int64)


def _keep(op: Operator, x: Array) -> Array:
    return x


def _gather(op: Operator, x: Array, indices: Array) -> Array:
    return np.take(x, indices, axis=op.get("axis", 0))


def _concat(op: Operator, *arrays: Array) -> Array:
    return np.concatenate(arrays, axis=op.get("axis", 0))


def _squeeze(op: Operator, x: Array, axes: Array | None = None) -> Array:
    given = op.get("axes") if axes is None else axes.tolist()
    return np.squeeze(x, None if given is None else tuple(given))


def _unsqueeze(op: Operator, x: Array, axes: Array | None = None) -> Array:
    given = op.get("axes") if axes is None else axes.tolist()
    return np.expand_dims(x, tuple(given))


def _slice(op: Operator, x: Array, *bounds: Array) -> Array:
    given = [b.tolist() for b in bounds]
    if not given:
        given = [op.get("starts"), op.get("ends")]
        given += [op.get("axes")] if op.get("axes") else []
    starts, ends, *rest = given
    axes = rest[0] if rest else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    key = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        key[axis] = slice(start, end, step)
    return x[tuple(key)]


def _reshape(op: Operator, x: Array, shape: Array) -> Array:
    return x.reshape(shape.tolist())


def _divide(a: Array, b: Array) -> Array:
    quotient: Array = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return quotient


_MOVES: dict[str, Evaluate] = {
    "Cast": _keep,
    "Identity": _keep,
    "Gather": _gather,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Reshape": _reshape,
}
_CALCULATES: dict[str, Evaluate] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "Neg": np.negative,
}
