"""Bound calls between float32 numbers and codes on grids that the byte kernels lack.

These are grids with one scale for each index of an axis, and codes of 4 or 16 bits.
A grid of blocks, or of 32 bits, stays with `exact`.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType, Float32Tensor, Tensor
from mdtensor.kernels import observe
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.numpy import empty
from mdtensor.quant.dtypes import qint4, qint8, qint16, quint4, quint8
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

Array = npt.NDArray[Any]
QUANTIZE = Entry("generic.axis_codes", "quantize_axis")
DEQUANTIZE = Entry("generic.axis_codes", "dequantize_axis")
#: Types whose steps times a scale have fewer bits than float64 has.
SHORT: frozenset[DType] = frozenset({qint4, quint4, qint8, quint8, qint16})
#: Bytes of a result from which it takes the memory of an earlier one.
LARGE = 1 << 20


def is_short(grid: QParams) -> bool:
    """Return whether the calls of this module know the grid."""
    return grid.dtype in SHORT and grid.block_size is None


class _AxisGrid:
    """A grid as the kernels take it.

    Args:
        grid: one for which `is_short` is true.
        shape: the shape of the codes.
    """

    __slots__ = ("grid", "inner", "scales", "zeros")

    def __init__(self, grid: QParams, shape: tuple[int, ...]) -> None:
        self.grid = grid
        # One scale is an axis of one index, in front of all others.
        after = shape if grid.axis is None else shape[grid.axis + 1 :]
        self.inner = prod(after)
        self.scales = np.array(grid.scale, np.float64).reshape(-1)
        self.zeros = np.array(grid.zero_point, np.int64).reshape(-1)


# The byte kernels know one scale and 8 bits (decision 0106).
class QuantizeAxis(_AxisGrid):
    """A bound call that rounds float32 numbers to codes.

    Args: refuse: returns the error for a tensor with a NaN.
    """

    __slots__ = ("refuse",)

    def __init__(
        self,
        grid: QParams,
        shape: tuple[int, ...],
        refuse: Callable[[Tensor], Exception],
    ) -> None:
        super().__init__(grid, shape)
        self.refuse = refuse

    def __call__(self, x: Tensor) -> QuantizedTensor:
        """Return the codes of `x`.

        Raises:
            CastError: `x` holds a NaN.
        """
        values, grid = x.buffer, self.grid
        codes = empty(values.shape, grid.dtype.storage, LARGE)
        if codes.size:
            ends = grid.minimum, grid.maximum
            rows, target = in_a_row(values), codes.reshape(-1)
            parameters = self.inner, self.scales, self.zeros, *ends
            if QUANTIZE.call(rows, *parameters, target):
                raise self.refuse(x)
            if observe.ACTIVE:
                observe.ran(QUANTIZE.__name__, "generic")
        return quantized(codes, grid)


class DequantizeAxis(_AxisGrid):
    """A bound call that computes the numbers of codes."""

    __slots__ = ()

    def __call__(self, x: QuantizedTensor) -> Float32Tensor:
        """Return the numbers that the codes of `x` stand for."""
        codes = x.code_array
        out = empty(codes.shape, np.float32, LARGE)
        if out.size:
            parameters = self.inner, self.scales, self.zeros
            DEQUANTIZE.call(in_a_row(codes), *parameters, out.reshape(-1))
            if observe.ACTIVE:
                observe.ran(DEQUANTIZE.__name__, "generic")
        return Float32Tensor.wrap(out)


def in_a_row(array: Array) -> Array:
    """Return the elements as a writable 1-D array, copied only if they must be."""
    # Another signature, of arrays that nobody may write, would be compiled anew.
    if not array.flags.carray:
        array = np.array(array, order="C")
    return array.reshape(-1)
