"""Floats beside quantized weights: the weights become numbers, nothing else does.

    w = float32(scale · (code - zero point))

A product takes them one after the other, `kernels/cpu/float_matmul.py` says how, and
turns codes into numbers on the way. So it is, to the byte, that of the dequantized
weights in the same kernel, whatever the CPU.
"""

from typing import Any

import numpy as np

from mdtensor import DType, TensorSpec, astype, leaf
from mdtensor.kernels.cpu import layers
from mdtensor.kernels.dense.half import rounded, widened
from mdtensor.quant.deduction import type_of_floats
from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.generics import dequantize
from mdtensor.quant.ops.compiled import NotCompiled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

#: What makes codes of 0 to 15 of those of 4 bits, and of -128 to 127 of those of 8.
OFFSETS = {qint4: 8, quint4: 0, qint8: 0, quint8: -128}
FOUR_BITS = (qint4, quint4)


def of_numbers(operation: Any, *arguments: Any, **options: Any) -> Any:
    """The operation of dequantized arguments, in the type of those that are floats.

    Narrow floats are computed in float32 and rounded once, as everywhere.
    """
    numbers = [
        dequantize(x) if isinstance(x, QuantizedTensor) else x for x in arguments
    ]
    found = operation(*numbers, **options)
    dtype = type_of_floats(*arguments)
    # An infinity where it is too large, as float arithmetic gives.
    return found if found.dtype is dtype else astype(found, dtype, casting="wrap")


def is_single(*floats: Any) -> bool:
    """Whether these floats on the host are computed in float32."""
    given = [x for x in floats if x is not None]
    narrow = all(x.dtype.storage.itemsize <= 4 for x in given)
    return narrow and all(isinstance(x.buffer, np.ndarray) for x in given)


def linear_layer(w: Any, b: Any = None) -> layers.Layer:
    """Weights [n, k], packed for this CPU.

    Args:
        w: quantized, of any grid.
        b: floats [n], or None.
    """
    bias = None if b is None else widened(b.buffer)
    grid = _by_rows(w.qparams, w.shape) if w.dtype in OFFSETS else None
    if grid is None:
        return layers.Linear(dequantize(w).buffer, bias)
    offset, size = OFFSETS[w.dtype], grid[2]
    scales, zeros = grid[0], grid[1] + offset
    if w.dtype in FOUR_BITS and (size % 2 == 0 or size >= w.shape[1]):
        pairs = w.buffer ^ np.uint8(17 * offset)
        return layers.LinearU4(pairs, w.shape[1], scales, zeros, size, bias)
    codes = w.codes.buffer
    if w.dtype is quint8:
        codes = (codes ^ np.uint8(128)).view(np.int8)
    if w.dtype in FOUR_BITS:
        codes, zeros = codes.view(np.int8), grid[1]
    return layers.LinearS8(codes, scales, zeros, size, bias)


def _by_rows(grid: QParams, shape: tuple[int, ...]) -> Any:
    """(scales, zeros, size) of [n, blocks of `size` columns]; None for other grids."""
    n, k = shape
    if grid.axis == 1 and grid.block_size is not None:
        return grid.scale, grid.zero_point, grid.block_size
    if grid.is_along(None, 0):
        scales, zeros = grid.scale.reshape(-1, 1), grid.zero_point.reshape(-1, 1)
        whole = (n, 1)
        return np.broadcast_to(scales, whole), np.broadcast_to(zeros, whole), k
    return None


class KeptLinear:
    """A product of floats with weights that are packed once, for a plan.

    Args:
        w: quantized weights [n, k].
        dtype: of the result; narrow floats are rounded once.
        b: floats [n], or None.
    """

    def __init__(self, w: Any, b: Any, dtype: DType) -> None:
        self.layer = linear_layer(w, b)
        self.dtype = dtype

    def __call__(self, x: Any) -> Any:
        found, storage = self.layer(widened(x.buffer)), self.dtype.storage
        result: Any = leaf(self.dtype)
        return result.wrap(found if storage == found.dtype else rounded(found, storage))


def kept_linear(x: TensorSpec, w: Any, b: Any, /) -> KeptLinear:
    """The layer of constant weights and bias, for floats of this type.

    Raises:
        NotCompiled: they are not constant, or float64.
    """
    if any(isinstance(given, TensorSpec) for given in (w, b)):
        raise NotCompiled("weights and biases that are packed are constants")
    dtype = type_of_floats(x, b)
    if dtype.storage.itemsize > 4:
        raise NotCompiled("packed weights are for float32 and narrower")
    return KeptLinear(w, b, dtype)
