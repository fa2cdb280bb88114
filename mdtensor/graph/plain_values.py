"""Values that the rules of `plain_steps.py` read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdtensor.graph.bound import Called
from mdtensor.kernels.cpu.generic import plain_codes as run
from mdtensor.kernels.cpu.program import plain as steps
from mdtensor.spec.shapes import normalize_axes
from mdtensor.spec.spec import TensorSpec

Array = npt.NDArray[Any]
#: The most elements of a value: with more, what surrounds a call is short.
MOST_ELEMENTS = 1 << 13
INT32, INT64 = steps.INT32, steps.INT64


class Refused(Exception):
    """No step computes a call."""


class Values(Protocol):
    """What rules read and write: the program that is being built."""

    constants: Mapping[str, Any]
    specs: Mapping[str, TensorSpec]
    #: The operation that writes each value.
    operations: Mapping[str, Any]
    #: The most elements of a value that a step reads or writes.
    most_elements: int

    def slot(self, x: str) -> Any:
        """Return the slot of a value, in rows and of its own type."""

    def append(self, step: Any, *slots: Any) -> Any:
        """Append a step; return the slot of its result."""

    def any_slot(self) -> Any:
        """Return a slot that exists."""

    def watch(self, indices: Any, size: int) -> None:
        """Let a call fail if an index is outside [-size, size)."""


Rule = Callable[[Values, Any, TensorSpec], Any]


def require_small(values: Values, specs: Iterable[TensorSpec]) -> None:
    """Raise Refused unless values have a type of the steps, and few elements."""
    given = list(specs)
    if any(spec.dtype.storage not in steps.TYPES for spec in given):
        raise Refused
    require_few(values, given)


def require_few(values: Values, specs: Iterable[TensorSpec]) -> None:
    """Raise Refused unless values have few elements, and more than none.

    A size of -1 depends on the elements, so it is refused.
    """
    for spec in specs:
        sizes = [*map(int, spec.shape)]
        if min(sizes, default=1) < 1 or prod(sizes) > values.most_elements:
            raise Refused


def number(x: Any, dtype: Any) -> Array:
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


def operand(values: Values, x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a slot, or a constant array, with the elements of `shape` or one."""
    if not isinstance(x, str):
        return number(x, dtype)
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


def dtype_of(values: Values, part: Called) -> Any:
    """Return the type of the arguments of a call, which must be one."""
    found = {values.specs[name].dtype.storage for name in part.node.values}
    if len(found) != 1:
        raise Refused
    return found.pop()


def combined(
    values: Values, code: int, dtype: Any, shape: tuple[int, ...], given: list[Any]
) -> Any:
    """Append the steps of x ∘ y, where one may be a constant array."""
    if isinstance(given[0], np.ndarray):
        given[0] = held(values, given[0])
    # Short integers are computed as wide ones, which give the same low bits.
    wide = INT64 if dtype == INT32 else dtype
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


def axes_of(values: Values, part: Called) -> tuple[str, Any, int, int]:
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


def picked(values: Values, slots: list[Any], places: Array) -> Any:
    """Append the steps that write elements of several values at their places."""
    while len(slots) > 2:
        # Two neighbours become one value; places stay as they are.
        pairs = [slots[i : i + 2] for i in range(0, len(slots), 2)]
        slots = [
            picked(values, pair, np.arange(sum(prod(one.shape) for one in pair)))
            if len(pair) > 1
            else pair[0]
            for pair in pairs
        ]
    sizes = [prod(one.shape) for one in slots]
    return values.append(steps.pick(slots[0].dtype, places, sizes), *slots)
