"""Steps for calls on few elements of any type; see `kernels/cpu/program/plain.py`.

A plan says that such a node is a call; see `united.py`. Each rule appends the steps of
an operation, or raises `Refused`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from mdtensor.errors import MdtensorError
from mdtensor.generics import (
    arithmetic,
    comparison,
    conversion,
    estimators,
    indexing,
    math,
    recurrent,
    reduction,
    sorting,
)
from mdtensor.graph import plain_moves, plain_orders
from mdtensor.graph.bound import Called
from mdtensor.graph.layouts import RESHAPES
from mdtensor.graph.plain_values import (
    INT32,
    INT64,
    Refused,
    Rule,
    Values,
    combined,
    dtype_of,
    held,
    number,
    operand,
    require_small,
    widened,
)
from mdtensor.kernels.cpu.generic import plain_codes as run
from mdtensor.kernels.cpu.program import plain as steps
from mdtensor.kernels.cpu.program.kinds import COMPUTED
from mdtensor.kernels.numpy import conversion as casts
from mdtensor.spec.spec import TensorSpec

RECURRENT = (recurrent.lstm, recurrent.gru, recurrent.rnn)


# Dispatch selected the method; its bytes come from a step (decision 0117).
def append_steps(values: Values, part: Called) -> Any:
    """Append the steps of a call; return the slot of its result.

    Raises:
        Refused: there are none.
    """
    node = part.node
    after = values.specs[node.output]
    if node.operation in RECURRENT:
        return _recurrent(values, part, after)
    require_small(values, (values.specs[name] for name in (*node.values, node.output)))
    if node.operation in RESHAPES:
        return values.slot(node.values[0])._replace(shape=after.shape)
    if node.operation in plain_moves.MOVES:
        return plain_moves.move(values, part, after)
    rule = _RULES.get(node.operation)
    if rule is None:
        raise Refused
    return rule(values, part, after)


def _pair(code: int, kinds: str) -> Rule:
    """Return the rule of an operation of two numbers of a kind of types."""

    def rule(values: Values, part: Called, after: TensorSpec) -> Any:
        dtype = dtype_of(values, part)
        if dtype.kind not in kinds:
            raise Refused
        given = [operand(values, x, after.shape, dtype) for x in part.node.inputs]
        return combined(values, code, dtype, after.shape, given)

    return rule


def _single(code: int, kinds: str) -> Rule:
    """Return the rule of a function of each element of a kind of types."""

    def rule(values: Values, part: Called, after: TensorSpec) -> Any:
        (name,) = part.node.inputs
        dtype = values.specs[name].dtype.storage
        if dtype.kind not in kinds or dtype not in steps.NUMBERS:
            raise Refused
        return values.append(steps.apply(code, dtype, after.shape), values.slot(name))

    return rule


def _square(values: Values, part: Called, after: TensorSpec) -> Any:
    (name,) = part.node.inputs
    dtype, slot = values.specs[name].dtype.storage, values.slot(name)
    if dtype.kind not in "fi":
        raise Refused
    return combined(values, run.MUL, dtype, after.shape, [slot, slot])


def _clip(values: Values, part: Called, after: TensorSpec) -> Any:
    (name,), dtype = part.node.inputs, after.dtype.storage
    low, high = part.options["min"], part.options["max"]
    # NumPy has an order of its own for NaN and zeros of both signs.
    if dtype.kind != "i" or low is None or high is None:
        raise Refused
    found = values.slot(name)
    for code, bound in ((run.MOST, low), (run.LEAST, high)):
        limit = number(bound, dtype)
        found = combined(values, code, dtype, after.shape, [found, limit])
    return found


def _where(values: Values, part: Called, after: TensorSpec) -> Any:
    condition, *rest = part.node.inputs
    dtype, shape = after.dtype.storage, after.shape
    if dtype.itemsize not in steps.SIZES or not isinstance(condition, str):
        raise Refused
    mask = operand(values, condition, shape, steps.BOOL)
    if isinstance(mask, np.ndarray):
        raise Refused
    chosen = [operand(values, x, shape, dtype) for x in rest]
    first, second = chosen
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        first = held(values, first)
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return _chosen(values, mask, shape, first, second)
    nothing = np.zeros(1, dtype)
    halves = (
        _chosen(values, mask, shape, first, nothing),
        _chosen(values, mask, shape, nothing, second),
    )
    return values.append(steps.join_bits(dtype, shape), *halves)


def _chosen(
    values: Values, mask: Any, shape: tuple[int, ...], first: Any, second: Any
) -> Any:
    """Append the step of a choice, of which one value is constant."""
    takes_computed = not isinstance(first, np.ndarray)
    slot, constant = (first, second) if takes_computed else (second, first)
    sizes = prod(mask.shape), prod(slot.shape)
    step = steps.choose(slot.dtype, shape, sizes, constant, takes_computed)
    return values.append(step, mask, slot)


def _astype(values: Values, part: Called, after: TensorSpec) -> Any:
    name, casting = part.node.inputs[0], part.options["casting"]
    before, dtype = values.specs[name].dtype.storage, after.dtype.storage
    slot, is_float = values.slot(name), before.kind == "f"
    if before == dtype:
        raise Refused
    rounds = before.kind != "f" and dtype.kind == "f" and casting != "exact"
    if casts.is_exact(before, dtype) or rounds:
        return values.append(steps.cast(before, dtype, after.shape), slot)
    if casting == "wrap" and is_float and dtype.kind == "f":
        return values.append(steps.cast(before, dtype, after.shape), slot)
    if casting != "saturate" or not is_float or dtype == steps.INT8:
        raise Refused
    if dtype.kind == "b":
        return values.append(steps.cast(before, dtype, after.shape), slot)
    step = steps.cast(before, dtype, after.shape, saturates=True)
    return values.append(step, slot)


def _recurrent(values: Values, part: Called, after: TensorSpec) -> Any:
    """Append the steps of a recurrent layer whose lengths are computed."""
    x, *weights, lengths = part.node.inputs
    if not isinstance(lengths, str) or lengths in values.constants:
        raise Refused
    given = [_argument(values, one) for one in (x, *weights)]
    prepare = part.selection.method.prepare
    try:
        step = prepare(*given, COMPUTED, **part.options)
    except MdtensorError:
        raise Refused from None
    spec, wanted = values.specs[x], values.specs[lengths]
    if wanted.dtype.storage not in (INT32, INT64):
        raise Refused
    slot, sizes = values.slot(x), widened(values, values.slot(lengths), INT64)
    # 2 · length - steps is from -steps to steps.
    twice = combined(values, run.ADD, INT64, sizes.shape, [sizes, sizes])
    moved = [twice, np.array([spec.shape[0]], np.int64)]
    values.watch(
        combined(values, run.SUB, INT64, sizes.shape, moved), spec.shape[0] + 1
    )
    count = values.append(steps.cast(INT64, steps.FLOAT32, sizes.shape), sizes)
    nothing = np.zeros((spec.shape[1], after.shape[-1]), np.float32)
    # Behind x, w, r and b come the first states.
    states = weights[3 : 3 + len(step.input_types) - 2]
    slots = [
        held(values, nothing) if one is None else values.slot(one) for one in states
    ]
    return values.append(step, slot, *slots, count)


def _argument(values: Values, x: Any) -> Any:
    """Return the tensor of a constant, or the spec of a value."""
    if not isinstance(x, str):
        return x
    return values.constants.get(x, values.specs[x])


def _trees(values: Values, part: Called, after: TensorSpec) -> Any:
    name, *rest = part.node.inputs
    if any(one not in values.constants for one in rest):
        raise Refused
    arrays = [np.ascontiguousarray(values.constants[one].buffer) for one in rest]
    thresholds, spec = arrays[0], values.specs[name]
    indices = {one.dtype for one in arrays[1:]}
    is_number = thresholds.dtype in (steps.FLOAT32, steps.FLOAT64)
    if spec.dtype.storage != thresholds.dtype or not is_number:
        raise Refused
    if len(indices) > 1 or not indices <= {INT32, INT64} or spec.ndim != 2:
        raise Refused
    found = values.append(steps.trees(spec.shape, *arrays), values.slot(name))
    values.watch(found, -run.NO_LEAF_AT - 1)
    return found


_RULES: dict[Any, Rule] = {
    arithmetic.add: _pair(run.ADD, "if"),
    arithmetic.sub: _pair(run.SUB, "if"),
    arithmetic.mul: _pair(run.MUL, "if"),
    arithmetic.div: _pair(run.DIV, "f"),
    arithmetic.minimum: _pair(run.LEAST, "i"),
    arithmetic.maximum: _pair(run.MOST, "i"),
    comparison.equal: _pair(run.EQUAL, "bif"),
    comparison.not_equal: _pair(run.NOT_EQUAL, "bif"),
    comparison.less: _pair(run.LESS, "if"),
    comparison.less_equal: _pair(run.LESS_EQUAL, "if"),
    comparison.greater: _pair(run.GREATER, "if"),
    comparison.greater_equal: _pair(run.GREATER_EQUAL, "if"),
    comparison.logical_and: _pair(run.AND, "b"),
    comparison.logical_or: _pair(run.OR, "b"),
    comparison.logical_xor: _pair(run.XOR, "b"),
    comparison.logical_not: _single(run.NOT, "b"),
    math.isnan: _single(run.IS_NAN, "f"),
    math.isfinite: _single(run.IS_FINITE, "f"),
    arithmetic.neg: _single(run.NEG, "if"),
    arithmetic.abs: _single(run.ABS, "if"),
    arithmetic.sign: _single(run.SIGN, "if"),
    math.sqrt: _single(run.SQRT, "f"),
    arithmetic.square: _square,
    arithmetic.clip: _clip,
    sorting.where: _where,
    conversion.astype: _astype,
    indexing.take: plain_moves.take,
    indexing.take_along_axis: plain_moves.take_along,
    indexing.scatter: plain_moves.scatter,
    sorting.argmax: plain_orders.order(run.ARGMAX),
    sorting.argmin: plain_orders.order(run.ARGMIN),
    sorting.argsort: plain_orders.order(run.ARGSORT),
    reduction.cumulative_sum: plain_orders.order(run.ADD_UP),
    sorting.searchsorted: plain_orders.search,
    reduction.any: plain_orders.truths(False),
    reduction.all: plain_orders.truths(True),
    reduction.sum: plain_orders.add_up,
    estimators.decision_trees: _trees,
}
