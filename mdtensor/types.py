"""The kinds of tensors, which are abstract, and the concrete types of the host.

    Tensor
    ├─ LogicalTensor              Bool
    └─ NumericTensor
       ├─ RealTensor
       │  ├─ IntegerTensor
       │  │  ├─ SignedTensor    Int8 Int16 Int32 Int64
       │  │  └─ UnsignedTensor  UInt8 UInt16 UInt32 UInt64
       │  └─ FloatingTensor     Float16 BFloat16 Float32 Float64
       └─ ComplexTensor         Complex64 Complex128

Methods are written for kinds where all types of the kind behave alike, so a new
concrete type has all these methods.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mdtensor import dtypes
from mdtensor.errors import StorageError
from mdtensor.tensor import Tensor, leaves

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "Complex64Tensor",
    "Complex128Tensor",
    "ComplexTensor",
    "Float16Tensor",
    "Float32Tensor",
    "Float64Tensor",
    "FloatingTensor",
    "Int8Tensor",
    "Int16Tensor",
    "Int32Tensor",
    "Int64Tensor",
    "IntegerTensor",
    "LogicalTensor",
    "NumericTensor",
    "RealTensor",
    "SignedTensor",
    "UInt8Tensor",
    "UInt16Tensor",
    "UInt32Tensor",
    "UInt64Tensor",
    "UnsignedTensor",
]


# Methods name this kind, because `BoolTensor` would leave other devices without a
# method (decision 0009).
class LogicalTensor(Tensor):
    """Elements are bools."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = ("bool",)


class NumericTensor(Tensor):
    """Elements are numbers, stored as they are and not as codes."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = (
        "signed integer",
        "unsigned integer",
        "real floating",
        "complex floating",
    )


class RealTensor(NumericTensor):
    """Elements are real numbers."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = (
        "signed integer",
        "unsigned integer",
        "real floating",
    )


class IntegerTensor(RealTensor):
    """Elements are integers; arithmetic wraps modulo 2**bits."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = ("signed integer", "unsigned integer")


class SignedTensor(IntegerTensor):
    """Two's complement integers."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = ("signed integer",)


class UnsignedTensor(IntegerTensor):
    """Integers of 0 or more."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = ("unsigned integer",)


class FloatingTensor(RealTensor):
    """IEEE 754 binary floating point; arithmetic rounds half to even."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = ("real floating",)


class ComplexTensor(NumericTensor):
    """Pairs of IEEE 754 numbers, the real part first."""

    __slots__ = ()
    _kinds: ClassVar[tuple[str, ...]] = ("complex floating",)
    remedy = "Use real(x), imag(x) or abs(x)"


class BoolTensor(LogicalTensor, dtype=dtypes.bool_):
    """True or False, one byte each."""

    __slots__ = ()


class Int8Tensor(SignedTensor, dtype=dtypes.int8):
    """Integers from -128 to 127."""

    __slots__ = ()


class Int16Tensor(SignedTensor, dtype=dtypes.int16):
    """Integers from -2**15 to 2**15 - 1."""

    __slots__ = ()


class Int32Tensor(SignedTensor, dtype=dtypes.int32):
    """Integers from -2**31 to 2**31 - 1."""

    __slots__ = ()


class Int64Tensor(SignedTensor, dtype=dtypes.int64):
    """Integers from -2**63 to 2**63 - 1."""

    __slots__ = ()


class UInt8Tensor(UnsignedTensor, dtype=dtypes.uint8):
    """Integers from 0 to 255."""

    __slots__ = ()


class UInt16Tensor(UnsignedTensor, dtype=dtypes.uint16):
    """Integers from 0 to 2**16 - 1."""

    __slots__ = ()


class UInt32Tensor(UnsignedTensor, dtype=dtypes.uint32):
    """Integers from 0 to 2**32 - 1."""

    __slots__ = ()


class UInt64Tensor(UnsignedTensor, dtype=dtypes.uint64):
    """Integers from 0 to 2**64 - 1."""

    __slots__ = ()


class Float16Tensor(FloatingTensor, dtype=dtypes.float16):
    """IEEE 754 binary16: 11 significant bits; computed in float32, rounded once."""

    __slots__ = ()


class BFloat16Tensor(FloatingTensor, dtype=dtypes.bfloat16):
    """The upper half of a binary32: 8 significant bits; computed in float32."""

    __slots__ = ()


class Float32Tensor(FloatingTensor, dtype=dtypes.float32):
    """IEEE 754 binary32: 24 significant bits."""

    __slots__ = ()


class Float64Tensor(FloatingTensor, dtype=dtypes.float64):
    """IEEE 754 binary64: 53 significant bits."""

    __slots__ = ()


class Complex64Tensor(ComplexTensor, dtype=dtypes.complex64):
    """Two binary32 numbers."""

    __slots__ = ()


class Complex128Tensor(ComplexTensor, dtype=dtypes.complex128):
    """Two binary64 numbers."""

    __slots__ = ()

    def to_parts(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the numbers as float64 pairs: tensor files do not name complex128."""
        own = np.asarray(self.buffer, order="C")[..., None]
        return {"": own.view(np.float64)}, {}

    @classmethod
    def from_parts(
        cls, parts: dict[str, npt.NDArray[Any]], facts: dict[str, Any]
    ) -> Self:
        pairs = parts.get("")
        if pairs is None or pairs.dtype != np.float64 or pairs.shape[-1:] != (2,):
            raise StorageError("complex128 is stored as pairs of float64")
        numbers = np.asarray(pairs, order="C").view(np.complex128)[..., 0]
        return super().from_parts({"": numbers}, facts)


#: The concrete types of the host that this module declares.
HOST = tuple(kind for kind in leaves() if kind.__module__ == __name__)
