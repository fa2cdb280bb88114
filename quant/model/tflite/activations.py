"""Activations that an operator of a file contains, on numbers and on codes.

On codes they are limits, as in LiteRT: the result is rounded to its grid first, then
its codes are cut off at the codes of the limits. So the operation before has a
quantized method, and no rule of rounding has to define activations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Operator
from mdtensor.quant.qparams import QParams

#: Activations by their number in `tflite.ActivationFunctionType`.
NONE, RELU, RELU_N1_TO_1, RELU6, TANH = range(5)
#: The limits of an operator that is not an activation of others.
RELU_0_TO_1 = -1
#: The operation on numbers, its options, and its limits.
ACTIVATIONS: dict[int, tuple[Any, dict[str, Any], tuple[Any, Any]]] = {
    RELU: (md.relu, {}, (0.0, None)),
    RELU_N1_TO_1: (md.hardtanh, {"min_val": -1.0, "max_val": 1.0}, (-1.0, 1.0)),
    RELU6: (md.relu6, {}, (0.0, 6.0)),
    RELU_0_TO_1: (md.hardtanh, {"min_val": 0.0, "max_val": 1.0}, (0.0, 1.0)),
    TANH: (md.tanh, {}, (None, None)),
}
#: Calls of operations: what it is, further inputs, options.
Calls = list[tuple[Any, tuple[Any, ...], dict[str, Any]]]


def activation_of(op: Operator) -> int:
    """Return the number of the activation that an operator contains.

    Raises:
        ModelError: the activation is not supported.
    """
    number: int = op.get("FusedActivationFunction", NONE)
    if number != NONE and number not in ACTIVATIONS:
        raise op.error(
            f"has FusedActivationFunction={number}", f"Supported are {NONE} to {TANH}"
        )
    return number


def on_numbers(op: Operator) -> Calls:
    """Return the call of the activation on numbers, if there is one."""
    number = activation_of(op)
    if number == NONE:
        return []
    operation, options, _ = ACTIVATIONS[number]
    return [(operation, (), options)]


def on_codes(op: Operator, grid: QParams) -> Calls:
    """Return the call that cuts off codes on a grid, if it changes any.

    Raises:
        ModelError: the activation is not a limit.
    """
    number = activation_of(op)
    if number == TANH:
        raise op.error("has FusedActivationFunction=4 on codes", "Use TANH behind it")
    if number == NONE:
        return []
    low, high = ACTIVATIONS[number][2]
    first = grid.minimum if low is None else _code(low, grid)
    last = grid.maximum if high is None else _code(high, grid)
    # Limits at or beyond the ends of the grid change nothing.
    options = {
        "min": _number(first, grid) if first > grid.minimum else None,
        "max": _number(last, grid) if last < grid.maximum else None,
    }
    return [] if set(options.values()) == {None} else [(md.clip, (), options)]


def _code(limit: float, grid: QParams) -> int:
    """Return the code of a limit, rounded as LiteRT does.

    Source: LiteRT, "kernel_util.cc", CalculateActivationRangeQuantizedImpl.
    """
    quotient = np.float32(limit) / np.float32(grid.scale)
    # Halves are rounded away from zero.
    return grid.zero + int(np.copysign(np.floor(np.abs(quotient) + 0.5), quotient))


def _number(code: int, grid: QParams) -> float:
    """Return the number that a code stands for, which float64 holds exactly."""
    return float((code - grid.zero) * grid.fraction)
