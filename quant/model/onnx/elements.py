"""Element types of ONNX that no plain tensor has: each is held exactly by a wider one.

An int4 is held as int8, a float of 8 bits or fewer as float32. What the file calls it
is kept beside the value, so that it is rounded, and handed out, as what it is.
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
    """An element type of a file that is held by a wider one.

    Args:
        code: its number, TensorProto.DataType.
        storage: its NumPy type, by name of `ml_dtypes`.
        wide: the type of tensors that hold it.
        bits: of each in a file.
    """

    code: int
    storage: str
    wide: md.DType
    bits: int = 8

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.storage))
        return found

    @property
    def is_float(self) -> bool:
        return self.wide is md.float32

    @property
    def is_scale(self) -> bool:
        """Whether it has powers of 2 only, and no sign."""
        return self.storage == "float8_e8m0fnu"

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        count = 2**self.bits
        return (-count // 2, count // 2 - 1) if self.wide is md.int8 else (0, count - 1)

    def __str__(self) -> str:
        return self.storage


#: What an 8-bit byte holds several of, and floats of at most 8 bits.
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
    """The elements of a tensor as a file has them: of a quantized one its codes."""
    if isinstance(tensor, ScaledFloatTensor):
        return np.asarray(tensor.buffer)
    return to_file_dtype(np.asarray(getattr(tensor, "codes", tensor)), tensor.dtype)


def to_file_dtype(values: Array, dtype: md.DType) -> Array:
    """Numbers in the type that a file has for elements of `dtype`."""
    element = ELEMENTS.get(CODES.get(dtype, 0))
    return values.astype(dtype.storage if element is None else element.dtype)


def element_of(array: Array) -> Element | None:
    """The element type of an array that no plain tensor has; None if one has it."""
    name = array.dtype.name
    return next((e for e in ELEMENTS.values() if e.storage == name), None)


def widen(array: Array) -> Array:
    """The same numbers, in the type that holds them."""
    element = element_of(array)
    return array if element is None else array.astype(element.wide.storage)


@cache
def magnitudes(code: int) -> Array:
    """The numbers from 0 on that a type of floats has, in order, as float32.

    Number i has the bits i, so that an even place is an even number.
    """
    dtype = ELEMENTS[code].dtype
    info: Any = ml_dtypes.finfo  # which has no annotations
    count = 2 ** (info(dtype).bits - 1)
    with np.errstate(invalid="ignore"):
        found = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float32)
    return found[np.isfinite(found)]
