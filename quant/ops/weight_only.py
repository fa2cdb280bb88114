"""Floats beside quantized weights: the weights become numbers, nothing else does.

    w = float32(scale · (code - zero point))

A product takes them one after the other, `kernels/cpu/generic/float_matmul.py` says how, and
turns codes into numbers on the way. So it is, to the byte, that of the dequantized
weights in the same kernel, whatever the CPU. A convolution is such a product of what
its window sees, channels last.

Grids that no kernel takes, and 8-bit floats, are packed as numbers: the layer is of
`gemm_f32f32f32` then, and a plan says so.
"""

from typing import Any

import numpy as np

from mdtensor import DType, Float32Tensor, TensorSpec, astype, leaf
from mdtensor.kernels.cpu.program import layers
from mdtensor.kernels.numpy.float16 import round_to, widen
from mdtensor.quant.deduction import type_of_floats
from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.generics import dequantize
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized
from mdtensor.spec.windows import Window, conv_window

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
        w: quantized, of any grid, or float32.
        b: floats [n], or None.
    """
    bias = None if b is None else widen(b.buffer)
    if not isinstance(w, QuantizedTensor):
        return layers.Linear(w.buffer, bias)
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


def conv_layer(w: Any, b: Any, window: Window, groups: int) -> layers.Conv2d:
    """Weights [n, c / groups, kh, kw], packed for this CPU.

    Args:
        w: quantized, of any grid.
        b: floats [n], or None.
    """
    rows, size = _rows_of_window(w), w.shape[0] // groups
    parts = [slice(at, at + size) for at in range(0, w.shape[0], size)]
    made = [linear_layer(rows[at], None if b is None else b[at]) for at in parts]
    return layers.Conv2d(
        made, window.kernel, window.stride, window.padding, window.dilation
    )


def _rows_of_window(w: Any) -> Any:
    """Weights as [n, kh · kw · c]; numbers where no kernel takes their grid."""
    grid = w.qparams
    if w.dtype in OFFSETS and grid.is_along(None, 0):
        return quantized(_channels_last(w.codes.buffer), grid)
    if w.dtype in OFFSETS and grid.axis == 1 and _are_whole(grid.block_size, w.shape):
        scale, zeros = map(_channels_last, (grid.scale, grid.zero_point))
        blocks = grid.replace(scale=scale, zero_point=zeros)
        return quantized(_channels_last(w.codes.buffer), blocks)
    return Float32Tensor.wrap(_channels_last(dequantize(w).buffer))


def _channels_last(array: Any) -> Any:
    """[n, c, kh, kw] as [n, kh · kw · c]."""
    return array.transpose(0, 2, 3, 1).reshape(len(array), -1)


def _are_whole(size: int | None, shape: tuple[int, ...]) -> bool:
    """Whether blocks of `size` channels are blocks of neighbours, channels last."""
    return size is not None and (shape[1] % size == 0 or shape[2:] == (1, 1))


class KeptLayer:
    """A layer of floats with weights that are packed once.

    Args:
        layer: takes float32.
        dtype: of the result; narrow floats are rounded once.
    """

    def __init__(self, layer: Any, dtype: DType) -> None:
        self.layer, self.dtype = layer, dtype

    def __call__(self, x: Any) -> Any:
        found, storage = self.layer(widen(x.buffer)), self.dtype.storage
        result: Any = leaf(self.dtype)
        return result.wrap(
            found if storage == found.dtype else round_to(found, storage)
        )


def kept_linear(x: TensorSpec, w: Any, b: Any, /) -> KeptLayer:
    """The layer of constant weights and bias, for floats of this type.

    Raises:
        NotCompiled: they are not constant, or float64.
    """
    return KeptLayer(linear_layer(w, b), _packed_type(x, w, b))


def kept_conv2d(
    x: TensorSpec,
    w: Any,
    b: Any,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> KeptLayer:
    """The convolution by constant weights and bias, for floats of this type.

    Raises:
        NotCompiled: they are not constant, float64, or of one channel a group.
    """
    dtype = _packed_type(x, w, b)
    if not is_product(w, groups):
        raise NotCompiled("weights of one channel a group become numbers")
    window = conv_window(w.shape, stride, padding, dilation)
    return KeptLayer(conv_layer(w, b, window, groups), dtype)


def is_product(w: Any, groups: int) -> bool:
    """Whether a convolution is a matrix product for each group of channels."""
    return w.size > 0 and (w.shape[1] > 1 or groups == 1)


def _packed_type(x: TensorSpec, *constants: Any) -> DType:
    """The type of the result of packed weights.

    Raises:
        NotCompiled: they are not constant, or float64.
    """
    if any(isinstance(given, TensorSpec) for given in constants):
        raise NotCompiled("weights and biases that are packed are constants")
    dtype = type_of_floats(x, constants[-1])
    if dtype.storage.itemsize > 4:
        raise NotCompiled("packed weights are for float32 and narrower")
    return dtype
