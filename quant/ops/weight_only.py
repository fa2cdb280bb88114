"""Products of floats with quantized weights, which are converted to float32.

    w = float32(scale · (code - zero point))

A product converts the codes while it reads them, and adds in the order that
`kernels/cpu/generic/float_matmul.py` defines. So it equals the product with dequantized
weights in the same kernel, byte by byte, on every CPU. A convolution is such a product
with the pixels in its window, channels last.

Weights that kernels cannot read as codes (some grids, 8-bit floats) are packed as
float32: the layer runs `gemm_f32f32f32` then, and a plan shows it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType, Float32Tensor, Tensor, TensorSpec, astype, leaf
from mdtensor.extend import Window, conv_window
from mdtensor.kernels.cpu.program import layers
from mdtensor.kernels.numpy.float16 import round_to, widen
from mdtensor.quant.deduction import type_of_floats
from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.generics import dequantize
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

#: Added to codes and zero points: kernels read 0 to 15, or -128 to 127 of 8 bits.
OFFSETS = {qint4: 8, quint4: 0, qint8: 0, quint8: -128}
FOUR_BITS = (qint4, quint4)
Array = npt.NDArray[Any]


def compute_on_numbers(
    operation: Callable[..., Any], *arguments: Tensor | None, **options: object
) -> Tensor:
    """Return the result for dequantized arguments, in the type of the float arguments.

    Narrow floats are computed in float32 and rounded once, as everywhere.
    """
    numbers: list[Any] = [
        dequantize(x) if isinstance(x, QuantizedTensor) else x for x in arguments
    ]
    found: Tensor = operation(*numbers, **options)
    dtype = type_of_floats(*arguments)
    # A cast that checks would raise for large numbers; floats overflow to infinity.
    if found.dtype is dtype:
        return found
    cast: Any = astype
    wide: Tensor = cast(found, dtype, casting="wrap")
    return wide


def is_single(*floats: Tensor | None) -> bool:
    """Return whether all are on the host and computed in float32; None is ignored."""
    given = [x for x in floats if x is not None]
    narrow = all(x.dtype.storage.itemsize <= 4 for x in given)
    return narrow and all(isinstance(x.buffer, np.ndarray) for x in given)


def linear_layer(w: Tensor, b: Tensor | None = None) -> layers.Layer:
    """Return the layer of weights [n, k], packed for this CPU.

    Args:
        w: quantized on any grid, or float32.
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
    # Two codes share a byte, so a block must not begin inside one.
    if w.dtype in FOUR_BITS and (size % 2 == 0 or size >= w.shape[1]):
        pairs = w.buffer ^ np.uint8(17 * offset)
        return layers.LinearU4(pairs, w.shape[1], scales, zeros, size, bias)
    # Kernels read signed bytes, so unsigned codes are shifted by 128.
    codes = w.codes.buffer
    if w.dtype is quint8:
        codes = (codes ^ np.uint8(128)).view(np.int8)
    if w.dtype in FOUR_BITS:
        codes, zeros = codes.view(np.int8), grid[1]
    return layers.LinearS8(codes, scales, zeros, size, bias)


def _by_rows(grid: QParams, shape: tuple[int, ...]) -> tuple[Array, Array, int] | None:
    """Return (scales, zeros, size) of [n, blocks of `size` columns].

    Returns:
        None for grids that kernels do not read.
    """
    n, k = shape
    if grid.axis == 1 and grid.block_size is not None:
        return grid.scale, grid.zero_point, grid.block_size
    if grid.is_along(None, 0):
        scales, zeros = grid.scale.reshape(-1, 1), grid.zero_point.reshape(-1, 1)
        whole = (n, 1)
        return np.broadcast_to(scales, whole), np.broadcast_to(zeros, whole), k
    return None


def conv_layer(
    w: QuantizedTensor, b: Tensor | None, window: Window, groups: int
) -> layers.Conv2d:
    """Return the layer of weights [n, c / groups, kh, kw], packed for this CPU.

    Args:
        w: quantized on any grid.
        b: floats [n], or None.
    """
    # A group is a matrix product of its own, with its own packed weights.
    rows, size = _rows_of_window(w), w.shape[0] // groups
    parts = [slice(at, at + size) for at in range(0, w.shape[0], size)]
    made = [linear_layer(rows[at], None if b is None else b[at]) for at in parts]
    return layers.Conv2d(
        made, window.kernel, window.stride, window.padding, window.dilation
    )


def _rows_of_window(w: QuantizedTensor) -> Any:
    """Return weights as [n, kh · kw · c]; float32 if kernels cannot read them."""
    grid = w.qparams
    if w.dtype in OFFSETS and grid.is_along(None, 0):
        return quantized(_channels_last(w.codes.buffer), grid)
    if w.dtype in OFFSETS and grid.axis == 1 and _are_whole(grid.block_size, w.shape):
        scale, zeros = map(_channels_last, (grid.scale, grid.zero_point))
        blocks = grid.replace(scale=scale, zero_point=zeros)
        return quantized(_channels_last(w.codes.buffer), blocks)
    return Float32Tensor.wrap(_channels_last(dequantize(w).buffer))


def _channels_last(array: Array) -> Array:
    """Return [n, c, kh, kw] as [n, kh · kw · c]."""
    return array.transpose(0, 2, 3, 1).reshape(len(array), -1)


def _are_whole(size: int | None, shape: tuple[int, ...]) -> bool:
    """Return whether blocks of `size` channels stay contiguous, channels last."""
    return size is not None and (shape[1] % size == 0 or shape[2:] == (1, 1))


class PackedLayer:
    """A layer of floats whose weights are packed.

    Args:
        layer: computes with float32.
        dtype: of the result; narrow floats are rounded once.
    """

    def __init__(self, layer: Any, dtype: DType) -> None:
        self.layer, self.dtype = layer, dtype

    def __call__(self, x: Tensor) -> Tensor:
        """Return the result for the floats `x`."""
        found, storage = self.layer(widen(x.buffer)), self.dtype.storage
        if storage != found.dtype:
            found = round_to(found, storage)
        return leaf(self.dtype).wrap(found)


def float_linear_step(x: TensorSpec, w: Any, b: Any, /) -> PackedLayer:
    """Return the layer of constant weights and bias, for floats of the type of `x`.

    Raises:
        NotCompiled: weights or bias are not constant, or the result is float64.
    """
    # First the type: it raises for weights and biases that are not constant.
    dtype = _result_type(x, w, b)
    return PackedLayer(linear_layer(w, b), dtype)


def float_conv2d_step(
    x: TensorSpec,
    w: Any,
    b: Any,
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> PackedLayer:
    """Return the convolution with constant weights, for floats of the type of `x`.

    Raises:
        NotCompiled: weights or bias are not constant, the result is float64, or each
            group has one channel.
    """
    dtype = _result_type(x, w, b)
    if not is_product(w, groups):
        raise NotCompiled("depthwise weights are dequantized, not packed")
    window = conv_window(w.shape, stride, padding, dilation)
    return PackedLayer(conv_layer(w, b, window, groups), dtype)


def is_product(w: Tensor, groups: int) -> bool:
    """Return whether a convolution is a matrix product for each group of channels."""
    return w.size > 0 and (w.shape[1] > 1 or groups == 1)


def _result_type(x: TensorSpec, *constants: Any) -> DType:
    """Return the element type of a product with packed weights.

    Raises:
        NotCompiled: weights or bias are not constant, or the result is float64.
    """
    if any(isinstance(given, TensorSpec) for given in constants):
        raise NotCompiled("kernels need constant weights and biases")
    dtype = type_of_floats(x, constants[-1])
    if dtype.storage.itemsize > 4:
        raise NotCompiled("packed weights multiply float32 and narrower floats")
    return dtype
