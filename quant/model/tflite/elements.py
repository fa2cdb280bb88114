"""Constants and grids of a TFLite file as tensors.

Codes are a type of their own only if the file gives them a scale: int8 without one is a
plain integer.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant.dtypes import qint4, qint8, qint16, quint8
from mdtensor.quant.model.budget import Spending
from mdtensor.quant.model.onnx.build import as_model_error
from mdtensor.quant.model.tflite.file import FileTensor
from mdtensor.quant.model.tflite.sparse import densify
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

Array = npt.NDArray[Any]
INT4 = 17
#: Element types by their number in the format, `tflite.TensorType`.
TYPES = {
    0: md.float32,
    1: md.float16,
    2: md.int32,
    3: md.uint8,
    4: md.int64,
    6: md.bool,
    7: md.int16,
    8: md.complex64,
    9: md.int8,
    10: md.float64,
    11: md.complex128,
    12: md.uint64,
    15: md.uint32,
    16: md.uint16,
    INT4: md.int8,
    18: md.bfloat16,
}
#: The quantized types of codes.
CODES = {3: quint8, 7: qint16, 9: qint8, INT4: qint4}


def element_type(number: int, where: str) -> md.DType:
    """Return the element type with a number of the format.

    Raises:
        ModelError: the type is not supported.
    """
    if number not in TYPES:
        listed = ", ".join(dict.fromkeys(map(str, TYPES.values())))
        problem = f"{where} has element type {number} of TFLite"
        raise ModelError(problem, f"Supported are {listed}")
    return TYPES[number]


def grid_of(tensor: FileTensor) -> QParams | None:
    """Return the grid of the codes of a tensor, or None for plain numbers.

    Raises:
        ModelError: the file has a grid that does not exist.
    """
    if tensor.kind not in CODES or not tensor.scales.size:
        return None
    dtype, scales = CODES[tensor.kind], tensor.scales.astype(np.float64)
    zeros = tensor.zeros if tensor.zeros.size else np.zeros(1, np.int64)
    try:
        if scales.size == 1:
            return QParams(float(scales[0]), int(zeros.reshape(-1)[0]), dtype=dtype)
        spread = np.broadcast_to(zeros, scales.shape).copy()
        return QParams(scales, spread, dtype=dtype, axis=tensor.axis)
    except Exception as error:
        raise as_model_error(f"the grid of tensor {tensor.name!r}", error) from None


def array_of(tensor: FileTensor, spending: Spending) -> Array:
    """Return the elements of a constant.

    Raises:
        ModelError: the data does not fit the shape, or the budget does not allow it.
    """
    where = f"tensor {tensor.name!r}"
    dtype, count = element_type(tensor.kind, where), prod(tensor.shape)
    data = np.zeros(0, np.uint8) if tensor.data is None else tensor.data
    if tensor.sparsity is not None:
        spending.add_computed(where, count)
        stored = _elements(data, dtype, tensor.kind, None, where)
        return densify(stored, tensor.shape, tensor.sparsity)
    spending.add_stored(data.size)
    return _elements(data, dtype, tensor.kind, count, where).reshape(tensor.shape)


def _elements(
    data: Array, dtype: md.DType, kind: int, count: int | None, where: str
) -> Array:
    """Return the elements in bytes, a list."""
    width = dtype.storage.itemsize
    found = data.size * 2 if kind == INT4 else data.size // width
    if kind == INT4 and count is not None and found - count == 1:
        found = count
    if (count is not None and found != count) or (kind != INT4 and data.size % width):
        wanted = "whole elements" if count is None else f"{count} elements"
        raise ModelError(
            f"{where} has {data.size} bytes, expected {wanted} of {dtype}",
            "Export it again",
        )
    if kind == INT4:
        return _unpacked(data)[:found]
    # Files are little-endian on every machine.
    if dtype.storage.kind in "iufc":
        little = np.frombuffer(data.tobytes(), dtype.storage.newbyteorder("<"))
        return little.astype(dtype.storage)
    if dtype is md.bool:
        truths: Array = data != 0
        return truths
    return np.frombuffer(data.tobytes(), dtype.storage)


def _unpacked(data: Array) -> Array:
    """Return the 4-bit integers in bytes, the low half of a byte first."""
    halves = np.stack([data & 15, data >> 4], axis=-1).reshape(-1).astype(np.int8)
    return (halves ^ 8) - 8


def constant_of(tensor: FileTensor, spending: Spending) -> Any:
    """Return a constant of a file as a tensor, on its grid if it has one."""
    array, grid = array_of(tensor, spending), grid_of(tensor)
    if grid is None:
        return md.asarray(array)
    if not grid.fits(array.shape):
        raise ModelError(
            f"tensor {tensor.name!r} of shape {array.shape} has {grid.scale.size} "
            f"scales along axis {grid.axis}",
            "Export it again",
        )
    return quantized(array, grid)
