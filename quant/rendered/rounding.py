"""Codes and their steps in the loop IR: read, scaled, rounded once, saturated.

    steps = code - zero_point        round = rescale(steps, scale of x, scale of out)

All values are float64, which holds codes and sums exactly; `rescale` decides ties by
exact products (`kernels/loops/scalar.cuh`).
"""

from typing import Any

import numpy as np

from mdtensor import Device, Tensor
from mdtensor.extend import constant
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, cast, load, scalar
from mdtensor.quant.qparams import QParams


class Inputs:
    """The operands of a loop over codes, by number, while it is written.

    Args:
        device: where the operands are.
        name: of the operation, for the ledger.
    """

    def __init__(self, device: Device, name: str = "") -> None:
        self.device, self.name = device, name
        self.buffers: list[Any] = []
        self.inputs: list[Input] = []

    def add(self, buffer: Any, is_number: bool = False, is_table: bool = False) -> int:
        """Add an operand, and return its number."""
        self.buffers.append(buffer)
        self.inputs.append(Input(buffer.dtype.name, is_number, is_table))
        return len(self.inputs) - 1

    def element(self, buffer: Any) -> Value:
        """Return the element of a buffer."""
        return load(self.add(buffer), buffer.dtype.name)

    def number(self, value: float, type: str = "float64") -> Value:
        """Return a number that is passed by value."""
        given = np.array(value, np.dtype(type))
        return scalar(self.add(given, is_number=True), type)

    def field(self, values: Any, type: str = "float64") -> Value:
        """Return scales or zero points: one number, or an array that broadcasts."""
        values = np.asarray(values)
        if values.size == 1:
            return self.number(values.item(), type)
        return self.element(constant(self.device, values.astype(np.dtype(type))))

    def steps(self, x: Any, zeros: Any, type: str = "float64") -> Value:
        """Return the steps of a buffer of codes: codes minus their zero points."""
        codes = cast(self.element(x), type)
        if not np.any(zeros):
            return codes
        return apply("sub", codes, self.field(zeros, type))

    def rounded(self, steps: Value, scale: Any, unit: Any) -> Value:
        """Return steps · scale / unit, rounded once; scale and unit are numbers."""
        return apply("rescale", steps, self.field(scale), self.field(unit))

    def codes(self, steps: Value, grid: QParams, shape: tuple[int, ...]) -> Value:
        """Return the codes of whole steps on a grid; saturates."""
        zeros = grid.along(grid.zero_point, shape)
        if np.any(zeros):
            steps = apply("add", steps, self.field(zeros))
        # The type has the largest code; the least one depends on `narrow_range`.
        if grid.narrow_range:
            steps = apply("maximum", steps, self.number(grid.minimum))
        return cast(steps, grid.dtype.storage.name, "saturate")

    def loop(self, name: str, value: Value, **rest: Any) -> Loop:
        """Return the loop of these operands."""
        return Loop(tuple(self.inputs), value, name=name, **rest)


def scales_of(x: Tensor) -> Any:
    """Return the scales of a quantized tensor, as an array that broadcasts with it."""
    grid: QParams = x.qparams  # type: ignore[attr-defined]
    return grid.along(grid.scale, x.shape)


def zeros_of(x: Tensor) -> Any:
    """Return the zero points of a quantized tensor, as an array that broadcasts."""
    grid: QParams = x.qparams  # type: ignore[attr-defined]
    return grid.along(grid.zero_point, x.shape)
