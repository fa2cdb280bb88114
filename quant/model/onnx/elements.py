"""Element types of ONNX without a tensor type of their own; wider types store them.

An int4 is stored as int8, a float of 8 bits or fewer as float32. The name of the type
in the file is stored with the value, so that the value is rounded to that type and
written with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.quant.dtypes import (
    qfloat8_e4m3,
    qfloat8_e5m2,
    qint4,
    qint8,
    qint16,
    qint32,
    quint4,
    quint8,
)
from mdtensor.quant.tensor import ScaledFloatTensor

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Element:
    """An element type of a file whose values are stored in a wider type.

    Args:
        code: its number in the file format, TensorProto.DataType.
        storage: the name of its dtype in `ml_dtypes`.
        wide: the element type of the tensors that store it.
        bits: bits of one element in a file.
    """

    code: int
    storage: str
    wide: md.DType
    bits: int = 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the NumPy dtype of the element type."""
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.storage))
        return found

    @property
    def is_float(self) -> bool:
        """Return whether the type is a floating-point type."""
        return self.wide is md.float32

    @property
    def is_scale(self) -> bool:
        """Return whether the type has only powers of 2, without a sign."""
        return self.storage == "float8_e8m0fnu"

    @property
    def range(self) -> tuple[int, int]:
        """Return the smallest and the largest integer of the type."""
        count = 2**self.bits
        return (-count // 2, count // 2 - 1) if self.wide is md.int8 else (0, count - 1)

    def __str__(self) -> str:
        return self.storage


#: Integers of fewer than 8 bits and floats of at most 8 bits, by number.
ELEMENTS = {
    element.code: element
    for element in (
        Element(17, "float8_e4m3fn", md.float32),
        Element(18, "float8_e4m3fnuz", md.float32),
        Element(19, "float8_e5m2", md.float32),
        Element(20, "float8_e5m2fnuz", md.float32),
        Element(21, "uint4", md.uint8, 4),
        Element(22, "int4", md.int8, 4),
        Element(23, "float4_e2m1fn", md.float32, 4),
        Element(24, "float8_e8m0fnu", md.float32),
        Element(25, "uint2", md.uint8, 2),
        Element(26, "int2", md.int8, 2),
        Element(27, "float6_e2m3fn", md.float32),
        Element(28, "float6_e3m2fn", md.float32),
    )
}


#: The quantized type of codes, by the number of their element type in a file.
QUANTIZED = {
    2: quint8,
    3: qint8,
    5: qint16,
    6: qint32,
    17: qfloat8_e4m3,
    19: qfloat8_e5m2,
    21: quint4,
    22: qint4,
}
CODES = {dtype: code for code, dtype in QUANTIZED.items()}


def to_file_elements(tensor: Any) -> Array:
    """Return the elements of a tensor as a file stores them: codes if quantized."""
    # `codes` of scaled floats are bytes, but a file stores the floats themselves.
    if isinstance(tensor, ScaledFloatTensor):
        return np.asarray(tensor.buffer)
    return to_file_dtype(np.asarray(getattr(tensor, "codes", tensor)), tensor.dtype)


def to_file_dtype(values: Array, dtype: md.DType) -> Array:
    """Convert numbers to the dtype that a file has for elements of `dtype`."""
    element = ELEMENTS.get(CODES.get(dtype, 0))
    return values.astype(dtype.storage if element is None else element.dtype)


def element_of(array: Array) -> Element | None:
    """Return the element type of an array without a tensor type, otherwise None."""
    name = array.dtype.name
    return next((e for e in ELEMENTS.values() if e.storage == name), None)


def widen(array: Array) -> Array:
    """Convert an array to the wider type that stores its elements, without rounding."""
    element = element_of(array)
    return array if element is None else array.astype(element.wide.storage)


@cache
def magnitudes(code: int) -> Array:
    """Return the finite numbers of an ONNX floating-point type that are 0 or more.

    The result is float32, in ascending order. Number i has the bit pattern i, so
    numbers at even indices have an even significand.
    """
    dtype = ELEMENTS[code].dtype
    info: Any = ml_dtypes.finfo  # Any: ml_dtypes does not annotate it
    count = 2 ** (info(dtype).bits - 1)
    # Some bit patterns are NaN; their conversion must not warn.
    with np.errstate(invalid="ignore"):
        found = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float32)
    return found[np.isfinite(found)]
