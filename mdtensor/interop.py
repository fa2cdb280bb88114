"""How tensors leave: as Python numbers, NumPy arrays, DLPack capsules, copies.

Nothing changes its type on the way, or its device unless it is asked to.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mdtensor import dlpack
from mdtensor.device import Device, cpu
from mdtensor.dtypes import DType
from mdtensor.errors import (
    CastError,
    DeviceError,
    DispatchError,
    ExchangeError,
    OptionError,
    ShapeError,
    checked,
    describe,
    type_and_shape,
)


class Interchange:
    """What Python, NumPy and DLPack ask of a tensor."""

    __slots__ = ()

    dtype: ClassVar[DType]
    device: ClassVar[Device]
    buffer: Any

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.device.to_host(self.buffer).tolist()

    def item(self) -> Any:
        """The only element as a Python number."""
        return self._scalar("item")

    def _scalar(self, kind: str) -> Any:
        host = self.device.to_host(self.buffer)
        if host.size != 1:
            raise ShapeError(
                f"{host.size} elements are not one {kind}",
                "Index or reduce it first",
                describe(kind, self),
            )
        return host.reshape(()).item()

    def _real_scalar(self, kind: str) -> Any:
        if self.dtype.is_complex:
            raise DispatchError(
                f"a complex number is no {kind}",
                "Use real(x) or complex(x)",
                describe(kind, self),
            )
        return self._scalar(kind)

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        found = self._real_scalar("int")
        try:
            return int(found)
        except (ValueError, OverflowError):
            call = describe("int", self)
            raise CastError(f"{found} is no integer", "Mask it first", call) from None

    def __float__(self) -> float:
        return float(self._real_scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        # Lists and NumPy ask this first: one element in brackets is no number.
        if not self.dtype.is_integer or self.buffer.shape:
            problem = f"{type_and_shape(self)} is no index"
            raise DispatchError(problem, "Use a 0-d tensor of integers, or int(x)")
        return int(self._scalar("index"))

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """The elements as a NumPy array; shared unless a copy is asked for."""
        call = describe("__array__", self)
        if self.device is not cpu:
            problem = f"NumPy reads the host, the elements are on {self.device}"
            raise DeviceError(problem, "Move them with to(cpu)", call)
        own = self.buffer.dtype
        wanted = own if dtype is None else _numpy_dtype(dtype, call)
        if not np.can_cast(own, wanted, "safe"):
            problem = f"NumPy asks for {wanted}, the elements are {self.dtype}"
            raise CastError(problem, f"Use astype(x, {wanted}) first", call)
        if copy is not None and not isinstance(copy, (bool, np.bool_)):
            problem = f"copy is a {type(copy).__name__}"
            raise OptionError(problem, "Use None, True or False", call)
        if copy is False and wanted != own:
            problem = f"{self.dtype} becomes {wanted} only by a copy, copy is False"
            raise OptionError(problem, "Use copy=None", call)
        return np.array(self.buffer, wanted, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule that shares the elements unless `copy` is True.

        A read-only buffer needs `max_version` from (1, 0) on. A tensor of another
        device is copied to the host if `dl_device` says so.
        """
        is_here = self.device is cpu

        def capsule() -> Any:
            if not is_here and (copy is False or dl_device != dlpack.HOST):
                problem = f"the elements are on {self.device}, not on the host"
                fix = f"Move them with to(cpu), or ask for dl_device={dlpack.HOST}"
                raise ExchangeError(problem, fix)
            host = self.buffer if is_here else self.device.to_host(self.buffer)
            return dlpack.exported(host, stream, max_version, dl_device, copy)

        return checked("__dlpack__", (self,), capsule)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Type and number of the device in DLPack."""
        return self.device.dlpack

    def __reduce__(self) -> Any:
        return type(self), (self.device.to_host(self.buffer),)

    def __copy__(self) -> Self:
        """A copy of the elements too, as of a NumPy array."""
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> Self:
        new = object.__new__(type(self))
        new.buffer = self.device.copy(self.buffer)
        return new


def _numpy_dtype(dtype: Any, call: str) -> np.dtype[Any]:
    """What NumPy means by it, or what an element type of ours is stored as."""
    if isinstance(dtype, DType):
        return dtype.storage
    try:
        meant: np.dtype[Any] = np.dtype(dtype)
        return meant
    except (TypeError, ValueError, RecursionError):
        problem = f"NumPy has no element type like a {type(dtype).__name__}"
        raise OptionError(problem, "Use dtype=None", call) from None
