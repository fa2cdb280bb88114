"""Exact comparisons of any two types of real numbers as rendered loops."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.errors import CastError, describe
from mdtensor.generics import comparison
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value
from mdtensor.ops.operands import comparison_operand
from mdtensor.rendered.launches import COMPLEX, REAL, Operands, compute
from mdtensor.rendered.methods import binary
from mdtensor.tensor import Tensor

#: The comparison of the IR, and whether the operands change places.
COMPARISONS: dict[Any, tuple[str, bool]] = {
    comparison.equal: ("equal", False),
    comparison.not_equal: ("not_equal", False),
    comparison.less: ("less", False),
    comparison.less_equal: ("less_equal", False),
    comparison.greater: ("less", True),
    comparison.greater_equal: ("less_equal", True),
}


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for operation in COMPARISONS:
        binary(device, operation, REAL, partial(_compare, operation), (int, float))
    for operation in (comparison.equal, comparison.not_equal):
        binary(device, operation, COMPLEX, partial(_parts, operation))


def _compare(operation: Any, x1: Any, x2: Any, /) -> Any:
    spec = infer(operation, x1, x2)
    name, is_swapped = COMPARISONS[operation]
    operands = Operands(operation.operation.name, (x1, x2))
    a, b = _value(operands, x1, x2), _value(operands, x2, x1)
    found = ir.compare(name, *((b, a) if is_swapped else (a, b)))
    return compute(spec, operands, found)


def _parts(operation: Any, x1: Tensor, x2: Tensor, /) -> Any:
    """Compare complex numbers in the wider of their types, which holds both."""
    spec = infer(operation, x1, x2)
    operands = Operands(operation.operation.name, (x1, x2))
    wide = max((x1.dtype, x2.dtype), key=lambda dtype: dtype.bits)
    a, b = (operands.value(x, wide) for x in (x1, x2))
    return compute(spec, operands, ir.apply(COMPARISONS[operation][0], a, b))


def _value(operands: Operands, x: Any, other: Any) -> Value:
    if isinstance(x, Tensor):
        return operands.tensor(x)
    found = comparison_operand(x, other)
    if isinstance(found, int):
        return operands.array(_integer(found))
    if found.dtype == object:
        # Between two floats of 64 bits: no number of ours has this place.
        call = describe(operands.name, *operands.given)
        problem = f"{x} needs more than 64 bits"
        raise CastError(problem, "Compare with a float", call)
    return operands.array(found)


def _integer(value: int) -> Any:
    """Return an integer as a number of 64 bits, or an infinity in its place."""
    for storage in (np.int64, np.uint64):
        info = np.iinfo(storage)
        if info.min <= value <= info.max:
            return np.array(value, storage)
    return np.array(np.inf if value > 0 else -np.inf)
