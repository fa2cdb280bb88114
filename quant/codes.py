"""The memory layout that compiled kernels take: uint8 codes, channels last.

A signed code plus 128 is an unsigned code on the grid whose zero point is larger by
128, and a 4-bit code is also an 8-bit code. So one set of kernels serves all types of
at most 8 bits.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import TensorSpec
from mdtensor.graph.storage import Storage, add_storage
from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    NarrowTensor,
    PackedTensor,
    QuantizedTensor,
    quantized,
    wrap_codes,
)

#: The number to add to a code, and to its zero point, to get a uint8 code.
OFFSETS = {qint4: 128, qint8: 128, quint4: 0}
Codes = npt.NDArray[np.uint8]
#: Flips the sign bit of a code: the same as adding 128, or subtracting it.
# An array, because NumPy would convert a Python number again at each call.
FLIP = np.array(128, np.uint8)
# All steps share this array, so no step may write into it.
FLIP.flags.writeable = False


# Kernels see signed and 4-bit codes as unsigned bytes, so that one kernel serves all of
# them (decision 0018).
def unsigned_grid(grid: QParams) -> QParams:
    """Return the grid of uint8 codes that represents the same real numbers."""
    # quint8 needs no change, and codes of more than 8 bits do not fit uint8.
    if grid.dtype not in OFFSETS:
        return grid
    zeros = grid.zero_point + OFFSETS[grid.dtype]
    return grid.replace(zero_point=zeros, dtype=quint8, narrow_range=False)


def unsigned(x: QuantizedTensor) -> Codes:
    """Return the codes of `x`, of at most 8 bits, on its `unsigned_grid`."""
    codes: Codes = x.code_array.view(np.uint8)
    return codes ^ np.uint8(128) if OFFSETS.get(x.dtype) else codes


def from_unsigned(codes: npt.NDArray[Any], grid: QParams) -> Any:
    """Return a tensor on `grid` from codes on its `unsigned_grid`."""
    if OFFSETS.get(grid.dtype):
        codes = (codes ^ np.uint8(128)).view(np.int8)
    return quantized(codes, grid)


class Reader:
    """Reads the codes of tensors of one type and shape for a compiled step.

    Args:
        kind: the type of the tensors.
        is_image: whether the step takes channels last.
        shape: the shape to which the codes are broadcast; None keeps their own.
    """

    __slots__ = ("is_image", "is_packed", "is_signed", "shape")

    def __init__(
        self,
        kind: type[QuantizedTensor],
        is_image: bool = False,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.is_packed = issubclass(kind, PackedTensor)
        self.is_signed = bool(OFFSETS.get(kind.dtype))
        self.is_image, self.shape = is_image, shape

    def __call__(self, x: QuantizedTensor) -> Codes:
        """Return the codes on the `unsigned_grid` in the order of the step, 1-D."""
        codes = (x.code_array if self.is_packed else x.buffer).view(np.uint8)
        if self.is_signed:
            codes = codes ^ FLIP
        if self.is_image:
            codes = codes.transpose(0, 2, 3, 1)
        if self.shape is not None:
            codes = np.broadcast_to(codes, self.shape)
        # Kernels read memory in sequence and do not know strides.
        return np.ascontiguousarray(codes).reshape(-1)


def contiguous(codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the codes in row-major order; `ascontiguousarray` would make 0-d 1-d."""
    return np.asarray(codes, order="C")


def _wrap(array: Codes, spec: TensorSpec) -> Any:
    grid = spec.qparams
    assert grid is not None
    if OFFSETS.get(grid.dtype):
        # NumPy returns a scalar for an array without axes.
        array = np.asarray(array ^ FLIP).view(np.int8)
    return wrap_codes(spec.type, array, grid, grid.rounding)


add_storage(NarrowTensor, Storage(np.dtype(np.uint8), unsigned, _wrap, True))
