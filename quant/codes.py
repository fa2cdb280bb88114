"""How the compiled kernels want codes: uint8, channels last.

A signed code plus 128 is an unsigned code on the grid whose zero point is 128 more, and
a code of 4 bits is one of 8, so one set of kernels serves all narrow types.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import PackedTensor, quantized

#: What makes uint8 codes of those of other narrow types.
OFFSETS = {qint4: 128, qint8: 128, quint4: 0}
Codes = npt.NDArray[np.uint8]
#: Makes unsigned codes of signed ones and back; as an array NumPy converts no number.
FLIP = np.array(128, np.uint8)
FLIP.flags.writeable = False


# Kernels see signed and 4-bit codes as unsigned bytes, so that one kernel serves all of
# them (decision 0018).
def unsigned_grid(grid: QParams) -> QParams:
    """The grid of uint8 codes that stands for the same real numbers."""
    if grid.dtype not in OFFSETS:
        return grid
    zeros = grid.zero_point + OFFSETS[grid.dtype]
    return grid.replace(zero_point=zeros, dtype=quint8, narrow_range=False)


def unsigned(x: Any) -> Codes:
    """The codes of a narrow tensor on its `unsigned_grid`."""
    codes: Codes = x.code_array.view(np.uint8)
    return codes ^ np.uint8(128) if OFFSETS.get(x.dtype) else codes


def from_unsigned(codes: Codes, grid: QParams) -> Any:
    """The tensor on `grid` of codes on its `unsigned_grid`."""
    if OFFSETS.get(grid.dtype):
        codes = (codes ^ np.uint8(128)).view(np.int8)
    return quantized(codes, grid)


class Reader:
    """How a compiled step reads the codes of tensors of one type and shape.

    Args:
        kind: the type.
        is_image: the step takes channels last.
        shape: to which the codes are broadcast; None leaves them as they are.
    """

    __slots__ = ("is_image", "is_packed", "is_signed", "shape")

    def __init__(self, kind: Any, is_image: bool = False, shape: Any = None) -> None:
        self.is_packed = issubclass(kind, PackedTensor)
        self.is_signed = bool(OFFSETS.get(kind.dtype))
        self.is_image, self.shape = is_image, shape

    def __call__(self, x: Any) -> Codes:
        """Return the codes on the `unsigned_grid` as they lie for the step, 1-D."""
        codes = (x.code_array if self.is_packed else x.buffer).view(np.uint8)
        if self.is_signed:
            codes = codes ^ FLIP
        if self.is_image:
            codes = codes.transpose(0, 2, 3, 1)
        if self.shape is not None:
            codes = np.broadcast_to(codes, self.shape)
        return np.ascontiguousarray(codes).reshape(-1)


def contiguous(codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The codes in row-major order; unlike `ascontiguousarray`, 0-d stays 0-d."""
    return np.asarray(codes, order="C")


def channels_last(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[n, c, h, w] as contiguous [n, h, w, c]; no copy if it lies so already."""
    return np.ascontiguousarray(np.moveaxis(image, 1, -1))


def channels_first(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[n, h, w, c] seen as [n, c, h, w]."""
    return np.moveaxis(image, -1, 1)
