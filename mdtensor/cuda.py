"""The CUDA device, with one concrete tensor type for every element type.

The types exist on machines without a GPU too, so that ambiguous methods for them are
found on every machine. Allocating memory raises `DeviceError` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mdtensor import dtypes
from mdtensor.device import Device, register_device
from mdtensor.dispatch.suggestions import NO_CUDA
from mdtensor.errors import DeviceError
from mdtensor.types import (
    ComplexTensor,
    FloatingTensor,
    LogicalTensor,
    SignedTensor,
    UnsignedTensor,
)

__all__ = [
    "CudaBFloat16Tensor",
    "CudaBoolTensor",
    "CudaComplex64Tensor",
    "CudaComplex128Tensor",
    "CudaFloat16Tensor",
    "CudaFloat32Tensor",
    "CudaFloat64Tensor",
    "CudaInt8Tensor",
    "CudaInt16Tensor",
    "CudaInt32Tensor",
    "CudaInt64Tensor",
    "CudaUInt8Tensor",
    "CudaUInt16Tensor",
    "CudaUInt32Tensor",
    "CudaUInt64Tensor",
    "cuda",
]


class _Cuda(Device):
    name = "cuda:0"
    dlpack = (2, 0)

    missing = NO_CUDA

    def _refuse(self) -> DeviceError:
        return DeviceError(f"cuda:0 cannot be used: {self.missing}", "Use cpu")

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
        raise self._refuse()

    def from_host(self, array: npt.NDArray[Any]) -> Any:
        raise self._refuse()

    def to_host(self, buffer: Any) -> npt.NDArray[Any]:
        raise self._refuse()

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        raise self._refuse()

    def synchronize(self) -> None:
        # Nothing was launched. Raising would break programs that wait for every device.
        return None


cuda: Final = register_device(_Cuda())


class CudaBoolTensor(LogicalTensor, dtype=dtypes.bool_, device=cuda):
    """`BoolTensor` in the memory of a GPU."""

    __slots__ = ()


class CudaInt8Tensor(SignedTensor, dtype=dtypes.int8, device=cuda):
    """`Int8Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaInt16Tensor(SignedTensor, dtype=dtypes.int16, device=cuda):
    """`Int16Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaInt32Tensor(SignedTensor, dtype=dtypes.int32, device=cuda):
    """`Int32Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaInt64Tensor(SignedTensor, dtype=dtypes.int64, device=cuda):
    """`Int64Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaUInt8Tensor(UnsignedTensor, dtype=dtypes.uint8, device=cuda):
    """`UInt8Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaUInt16Tensor(UnsignedTensor, dtype=dtypes.uint16, device=cuda):
    """`UInt16Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaUInt32Tensor(UnsignedTensor, dtype=dtypes.uint32, device=cuda):
    """`UInt32Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaUInt64Tensor(UnsignedTensor, dtype=dtypes.uint64, device=cuda):
    """`UInt64Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaFloat16Tensor(FloatingTensor, dtype=dtypes.float16, device=cuda):
    """`Float16Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaBFloat16Tensor(FloatingTensor, dtype=dtypes.bfloat16, device=cuda):
    """`BFloat16Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaFloat32Tensor(FloatingTensor, dtype=dtypes.float32, device=cuda):
    """`Float32Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaFloat64Tensor(FloatingTensor, dtype=dtypes.float64, device=cuda):
    """`Float64Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaComplex64Tensor(ComplexTensor, dtype=dtypes.complex64, device=cuda):
    """`Complex64Tensor` in the memory of a GPU."""

    __slots__ = ()


class CudaComplex128Tensor(ComplexTensor, dtype=dtypes.complex128, device=cuda):
    """`Complex128Tensor` in the memory of a GPU."""

    __slots__ = ()
