"""Steps for calls on few elements of any type; see `kernels/cpu/program/plain.py`.

A plan says that such a node is a call; see `united.py`. Each rule appends the steps of
an operation, or raises `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdtensor.errors import MdtensorError
from mdtensor.generics import (
    arithmetic,
    comparison,
    conversion,
    creation,
    estimators,
    indexing,
    linalg,
    manipulation,
    math,
    recurrent,
    reduction,
    sorting,
)
from mdtensor.graph.bound import Called
from mdtensor.graph.layouts import RESHAPES
from mdtensor.kernels.cpu.generic import plain_codes as run
from mdtensor.kernels.cpu.program import plain as steps
from mdtensor.kernels.cpu.program.kinds import COMPUTED
from mdtensor.kernels.numpy import conversion as casts
from mdtensor.spec.shapes import normalize_axes, normalize_axis
from mdtensor.spec.spec import TensorSpec
from mdtensor.types import Int64Tensor

Array = npt.NDArray[Any]
#: The most elements of a value: with more, what surrounds a call is short.
MOST_ELEMENTS = 1 << 13
#: The most parts of a concat.
MOST_PARTS = 64
#: The most floats that NumPy adds in order, and those that it adds eight at a time.
FEW, MOST_ADDED = 7, 128


class Refused(Exception):
    """No step computes a call."""


class Values(Protocol):
    """What rules read and write: the program that is being built."""

    constants: Mapping[str, Any]
    specs: Mapping[str, TensorSpec]
    #: The operation that writes each value.
    operations: Mapping[str, Any]

    def slot(self, x: str) -> Any:
        """Return the slot of a value, in rows and of its own type."""

    def append(self, step: Any, *slots: Any) -> Any:
        """Append a step; return the slot of its result."""

    def any_slot(self) -> Any:
        """Return a slot that exists."""

    def watch(self, indices: Any, size: int) -> None:
        """Let a call fail if an index is outside [-size, size)."""


Rule = Callable[[Values, Any, TensorSpec], Any]
#: Operations that only move elements, so that one run on their places tells all.
MOVES = (
    *(linalg.matrix_transpose, manipulation.permute_dims, manipulation.moveaxis),
    *(manipulation.broadcast_to, manipulation.flip, manipulation.tile),
    *(manipulation.roll, manipulation.concat, manipulation.stack, indexing.getitem),
    *(creation.tril, creation.triu),
)
RECURRENT = (recurrent.lstm, recurrent.gru, recurrent.rnn)
_INT32, _INT64 = steps.INT32, steps.INT64


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
    require_small(values.specs[name] for name in (*node.values, node.output))
    if node.operation in RESHAPES:
        return values.slot(node.values[0])._replace(shape=after.shape)
    if node.operation in MOVES:
        return _move(values, part, after)
    rule = _RULES.get(node.operation)
    if rule is None:
        raise Refused
    return rule(values, part, after)


def require_small(specs: Any) -> None:
    """Raise Refused unless values have a type of the steps, and few elements.

    A size of -1 depends on the elements, so it is refused.
    """
    for spec in specs:
        sizes, dtype = map(int, spec.shape), spec.dtype.storage
        if dtype not in steps.TYPES or min(sizes, default=1) < 1:
            raise Refused
        if prod(map(int, spec.shape)) > MOST_ELEMENTS:
            raise Refused


def _move(values: Values, part: Called, after: TensorSpec) -> Any:
    """Append the steps of a call that moves elements."""
    node, count = part.node, 1
    given: list[Any] = []
    for x in node.inputs:
        if isinstance(x, str):
            shape = values.specs[x].shape
            places = np.arange(count, count + prod(shape)).reshape(shape)
            given.append(Int64Tensor.wrap(places))
            count += prod(shape)
        else:
            given.append(x)
    if len(node.values) > MOST_PARTS:
        raise Refused
    same = {values.specs[name].dtype for name in (*node.values, node.output)}
    if len(same) > 1:
        raise Refused
    # 0 is what `tril` writes elsewhere.
    found = node(*given).buffer - 1
    slots = [values.slot(name) for name in node.values]
    return _picked(values, slots, found.reshape(after.shape))


def _picked(values: Values, slots: list[Any], places: Array) -> Any:
    """Append the steps that write elements of several values at their places."""
    while len(slots) > 2:
        # Two neighbours become one value; places stay as they are.
        pairs = [slots[i : i + 2] for i in range(0, len(slots), 2)]
        slots = [
            _picked(values, pair, np.arange(sum(prod(one.shape) for one in pair)))
            if len(pair) > 1
            else pair[0]
            for pair in pairs
        ]
    sizes = [prod(one.shape) for one in slots]
    return values.append(steps.pick(slots[0].dtype, places, sizes), *slots)


def _number(x: Any, dtype: Any) -> Array:
    """Return a Python number as an array of one element, if the type holds it."""
    kinds: Any = {"b": bool, "i": int, "f": (int, float)}[dtype.kind]
    if not isinstance(x, kinds) or (dtype.kind != "b" and isinstance(x, bool)):
        raise Refused
    try:
        found = np.asarray(x).astype(dtype)
    except OverflowError:
        raise Refused from None
    if found != x and x == x:
        raise Refused
    return found.reshape(1)


def _operand(values: Values, x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a slot, or a constant array, with the elements of `shape` or one."""
    if not isinstance(x, str):
        return _number(x, dtype)
    spec = values.specs[x]
    if spec.dtype.storage != dtype:
        raise Refused
    if x in values.constants:
        array = values.constants[x].buffer
        if array.size > 1:
            array = np.broadcast_to(array, shape)
        return np.ascontiguousarray(array).reshape(-1)
    slot = values.slot(x)
    if prod(spec.shape) == 1 or spec.shape == shape:
        return slot
    places = np.arange(prod(spec.shape)).reshape(spec.shape)
    return values.append(
        steps.pick(dtype, np.broadcast_to(places, shape), (places.size,)), slot
    )


def _dtype_of(values: Values, part: Called) -> Any:
    """Return the type of the arguments of a call, which must be one."""
    found = {values.specs[name].dtype.storage for name in part.node.values}
    if len(found) != 1:
        raise Refused
    return found.pop()


def _pair(code: int, kinds: str) -> Rule:
    """Return the rule of an operation of two numbers of a kind of types."""

    def rule(values: Values, part: Called, after: TensorSpec) -> Any:
        dtype = _dtype_of(values, part)
        if dtype.kind not in kinds:
            raise Refused
        given = [_operand(values, x, after.shape, dtype) for x in part.node.inputs]
        return combined(values, code, dtype, after.shape, given)

    return rule


def combined(
    values: Values, code: int, dtype: Any, shape: tuple[int, ...], given: list[Any]
) -> Any:
    """Append the steps of x ∘ y, where one may be a constant array."""
    if isinstance(given[0], np.ndarray):
        given[0] = held(values, given[0])
    # Short integers are computed as wide ones, which give the same low bits.
    wide = _INT64 if dtype == _INT32 else dtype
    left, right = (widened(values, x, wide) for x in given)
    if wide not in steps.NUMBERS:
        raise Refused
    is_constant = isinstance(right, np.ndarray)
    size = right if is_constant else prod(right.shape)
    step = steps.combine(code, wide, shape, prod(left.shape), size)
    found = values.append(step, left, *([] if is_constant else [right]))
    is_wide = wide != dtype and code < run.EQUAL
    return values.append(steps.cast(wide, dtype, shape), found) if is_wide else found


def held(values: Any, array: Array) -> Any:
    """Append the step that writes a constant."""
    any_slot = values.any_slot()
    return values.append(steps.hold(array, any_slot.dtype), any_slot)


def widened(values: Values, x: Any, dtype: Any) -> Any:
    """Return a slot or a constant array in a wider type."""
    if x.dtype == dtype:
        return x
    if isinstance(x, np.ndarray):
        return x.astype(dtype)
    return values.append(steps.cast(x.dtype, dtype, x.shape), x)


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
        number = _number(bound, dtype)
        found = combined(values, code, dtype, after.shape, [found, number])
    return found


def _where(values: Values, part: Called, after: TensorSpec) -> Any:
    condition, *rest = part.node.inputs
    dtype, shape = after.dtype.storage, after.shape
    if dtype.itemsize not in steps.SIZES or not isinstance(condition, str):
        raise Refused
    mask = _operand(values, condition, shape, steps.BOOL)
    if isinstance(mask, np.ndarray):
        raise Refused
    chosen = [_operand(values, x, shape, dtype) for x in rest]
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


def _indices(values: Values, name: str, size: int) -> Any:
    """Return the slot of int64 indices, which are checked."""
    spec = values.specs[name]
    if spec.dtype.storage not in (_INT32, _INT64):
        raise Refused
    if name in values.constants:
        found = held(values, values.constants[name].buffer.astype(np.int64))
    else:
        found = widened(values, values.slot(name), _INT64)
    values.watch(found, size)
    return found


def _take(values: Values, part: Called, after: TensorSpec) -> Any:
    name, where = part.node.inputs
    spec = values.specs[name]
    axis = part.options["axis"]
    at = 0 if axis is None and spec.ndim == 1 else normalize_axis(axis, spec.ndim)
    size, inner = spec.shape[at], prod(spec.shape[at + 1 :])
    if where in values.constants:
        return _take_constant(values, name, where, at)
    indices = _indices(values, where, size)
    x = values.constants[name].buffer if name in values.constants else None
    given = (
        (spec.dtype.storage, prod(spec.shape)) if x is None else np.ascontiguousarray(x)
    )
    step = steps.take(given, after.shape, prod(indices.shape), size, inner)
    slots = [indices] if x is not None else [values.slot(name), indices]
    return values.append(step, *slots)


def _take_constant(values: Values, name: str, where: str, axis: int) -> Any:
    """Append the step of known indices."""
    spec, index = values.specs[name], values.constants[where].buffer
    if index.dtype.kind != "i":
        raise Refused
    places = np.arange(prod(spec.shape)).reshape(spec.shape)
    try:
        found = places.take(index, axis)
    except IndexError:
        raise Refused from None
    return _picked(values, [values.slot(name)], found)


def _take_along(values: Values, part: Called, after: TensorSpec) -> Any:
    name, where = part.node.inputs
    spec = values.specs[name]
    at = normalize_axis(part.options["axis"], spec.ndim)
    others = [
        one.shape[:at] + one.shape[at + 1 :] for one in (spec, values.specs[where])
    ]
    if others[0] != others[1]:
        raise Refused
    size, inner = spec.shape[at], prod(spec.shape[at + 1 :])
    indices, x = _indices(values, where, size), values.slot(name)
    given, count = (spec.dtype.storage, prod(spec.shape)), prod(after.shape)
    step = steps.take(given, after.shape, count, size, inner, along=True)
    return values.append(step, x, indices)


def _scatter(values: Values, part: Called, after: TensorSpec) -> Any:
    name, where, new = part.node.inputs
    dtype, along = after.dtype.storage, values.specs[where].shape
    at, reduction = (
        normalize_axis(part.options["axis"], after.ndim),
        part.options["reduction"],
    )
    whole = (
        all(n == along[i] for i, n in enumerate(after.shape) if i != at)
        and values.specs[new].shape == along
    )
    is_number = dtype in (steps.FLOAT32, steps.FLOAT64, _INT64)
    if not whole or not is_number or reduction not in ("none", "add"):
        raise Refused
    if values.specs[new].dtype.storage != dtype:
        raise Refused
    indices = _indices(values, where, after.shape[at])
    updates, count = values.slot(new), prod(along)
    joined = values.append(
        steps.join_bytes((_INT64, count), (dtype, count)), indices, updates
    )
    step = steps.scatter(dtype, after.shape, at, along, reduction == "add")
    return values.append(step, values.slot(name), joined)


def _order(code: int) -> Rule:
    """Return the rule of a search, a sort or running sums along an axis."""

    def rule(values: Values, part: Called, after: TensorSpec) -> Any:
        name, axis, code_ = part.node.inputs[0], part.options["axis"], code
        spec = values.specs[name]
        dtype = spec.dtype.storage
        if code == run.ADD_UP:
            is_same = dtype == after.dtype.storage and dtype.kind in "if"
            if not is_same or part.options["include_initial"] or dtype == _INT32:
                raise Refused
        if code == run.ARGSORT and part.options["descending"]:
            code_ = run.ARGSORT_DOWN
        if axis is None and spec.ndim != 1:
            raise Refused
        at = normalize_axis(axis or 0, spec.ndim)
        slot = values.slot(name)
        wide = slot if dtype.kind == "f" else widened(values, slot, _INT64)
        size, inner = spec.shape[at], prod(spec.shape[at + 1 :])
        count = prod(spec.shape)
        step = steps.order(code_, wide.dtype, count, after.shape, size, inner)
        return values.append(step, wide)

    return rule


def _searchsorted(values: Values, part: Called, after: TensorSpec) -> Any:
    ascending, name = part.node.inputs
    side, sorter = part.options["side"], part.options["sorter"]
    if ascending not in values.constants or not isinstance(name, str):
        raise Refused
    table, dtype = values.constants[ascending].buffer, values.specs[name].dtype.storage
    is_sorted = bool(np.all(table[1:] >= table[:-1]))
    known = dtype in (steps.FLOAT32, steps.FLOAT64, _INT64)
    if sorter is not None or table.dtype != dtype or not (known and is_sorted):
        raise Refused
    code = run.SEARCH_RIGHT if side == "right" else run.SEARCH
    count, table = prod(after.shape), np.ascontiguousarray(table)
    step = steps.order(code, dtype, count, after.shape, count, 1, table)
    return values.append(step, values.slot(name))


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
    if wanted.dtype.storage not in (_INT32, _INT64):
        raise Refused
    slot, sizes = values.slot(x), widened(values, values.slot(lengths), _INT64)
    # 2 · length - steps is from -steps to steps.
    twice = combined(values, run.ADD, _INT64, sizes.shape, [sizes, sizes])
    moved = [twice, np.array([spec.shape[0]], np.int64)]
    values.watch(
        combined(values, run.SUB, _INT64, sizes.shape, moved), spec.shape[0] + 1
    )
    count = values.append(steps.cast(_INT64, steps.FLOAT32, sizes.shape), sizes)
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


def _axes(values: Values, part: Called) -> tuple[str, Any, int, int]:
    """Return what a reduction reads: its name, its spec, its length and what is behind.

    Raises:
        Refused: there is no axis, or one that stays lies between two of them.
    """
    (name,) = part.node.inputs
    spec = values.specs[name]
    axes = sorted(normalize_axes(part.options["axis"], spec.ndim))
    if not axes or axes[-1] - axes[0] >= len(axes):
        raise Refused
    first, last = axes[0], axes[-1] + 1
    return name, spec, prod(spec.shape[first:last]), prod(spec.shape[last:])


def _truths(is_all: bool) -> Rule:
    """Return the rule of `all` or `any`."""

    def rule(values: Values, part: Called, after: TensorSpec) -> Any:
        name, spec, length, inner = _axes(values, part)
        if spec.dtype.storage != steps.BOOL:
            raise Refused
        count = prod(spec.shape)
        step = steps.truths(is_all, count, after.shape, length, inner)
        return values.append(step, values.slot(name))

    return rule


def _sum(values: Values, part: Called, after: TensorSpec) -> Any:
    name, spec, length, inner = _axes(values, part)
    dtype, count = spec.dtype.storage, prod(spec.shape)
    if dtype != after.dtype.storage or dtype == _INT32 or dtype.kind not in "if":
        raise Refused
    # NumPy adds neighbours in memory, and a view has others. Few are added in order.
    is_new = values.operations.get(name) is indexing.take
    is_one = len(normalize_axes(part.options["axis"], spec.ndim)) == 1
    if dtype.kind == "f" and length > (MOST_ADDED if is_new else FEW * is_one):
        raise Refused
    step = steps.order(run.TOTAL, dtype, count, after.shape, length, inner)
    return values.append(step, values.slot(name))


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
    if len(indices) > 1 or not indices <= {_INT32, _INT64} or spec.ndim != 2:
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
    indexing.take: _take,
    indexing.take_along_axis: _take_along,
    indexing.scatter: _scatter,
    sorting.argmax: _order(run.ARGMAX),
    sorting.argmin: _order(run.ARGMIN),
    sorting.argsort: _order(run.ARGSORT),
    reduction.cumulative_sum: _order(run.ADD_UP),
    sorting.searchsorted: _searchsorted,
    reduction.any: _truths(False),
    reduction.all: _truths(True),
    reduction.sum: _sum,
    estimators.decision_trees: _trees,
}
