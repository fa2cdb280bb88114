"""Export of tensors as Python numbers, NumPy arrays, DLPack capsules and copies.

An export changes the element type and the device only on request.
NumPy reads and writes the DLPack structure. It does not know bfloat16, so bfloat16 goes
through NumPy as uint16, and the type code in the structure is changed.

Source: `dlpack.h` of DLPack 1.1 (layout of `DLTensor` and of the structures around it).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mdtensor import dtypes
from mdtensor.device import Device, cpu, device as find_device, devices
from mdtensor.dtypes import DType, bfloat16
from mdtensor.errors import (
    CastError,
    DeviceError,
    DispatchError,
    ExchangeError,
    OptionError,
    ShapeError,
    checked,
    describe,
    shown,
    type_and_shape,
)
from mdtensor.promotion import DEFAULT_COMPLEX, DEFAULT_FLOAT, DEFAULT_INTEGER
from mdtensor.spec.shapes import MOST_AXES
from mdtensor.type_info import isdtype

# DLPack: sharing buffers with other libraries, without a copy.

#: Device type and number of the host in DLPack.
HOST = (1, 0)
UINT, BFLOAT = 1, 4
#: The offset of the type code in each structure, by the name of the capsule.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)


def export(
    array: npt.NDArray[Any], stream: Any, max_version: Any, dl_device: Any, copy: Any
) -> Any:
    """Return the capsule of a host array; see `Tensor.__dlpack__`.

    Raises:
        ExchangeError: the array cannot be exported as requested.
        OptionError: an option is invalid.
    """
    version = _version(max_version)
    if stream is not None:
        raise ExchangeError(
            f"stream is {shown(stream)}, but the host does not have streams",
            "Use stream=None",
        )
    # The pair is checked first: a comparison with an array would give an array.
    if dl_device is not None and (not _is_pair(dl_device) or dl_device != HOST):
        raise ExchangeError(
            f"the elements are on device {HOST}, not {shown(dl_device)}",
            "Move them with to(device)",
        )
    # Old consumers ignore the read-only flag and would write into the buffer.
    if not (array.flags.writeable or copy or version >= (1, 0)):
        raise ExchangeError(
            "DLPack before 1.0 cannot mark a buffer as read-only",
            "Use copy=True, or max_version=(1, 0)",
        )
    if copy is not None and not isinstance(copy, (bool, np.bool_)):
        raise OptionError(f"copy is {shown(copy)}", "Use None, True or False")
    found = array.copy() if copy else array
    is_bfloat16 = found.dtype == bfloat16.storage
    try:
        # NumPy cannot export bfloat16, so it goes as uint16 and gets its code below.
        capsule = (found.view(np.uint16) if is_bfloat16 else found).__dlpack__(
            max_version=max_version
        )
    except BufferError:
        raise ExchangeError(*_refusal(found)) from None
    if is_bfloat16:
        _type_code(capsule).value = BFLOAT
    return capsule


def export_from(
    place: Any, buffer: Any, stream: Any, max_version: Any, copy: Any
) -> Any:
    """Return the capsule of a buffer of a device that shares its memory.

    Raises:
        ExchangeError: the buffer is read-only, and is not to be copied.
    """
    if copy:
        buffer = place.copy(buffer)
    if not buffer.is_writable:
        raise ExchangeError("the buffer is read-only", "Use copy=True")
    is_bfloat16 = buffer.dtype == bfloat16.storage
    storage = np.dtype(np.uint16) if is_bfloat16 else buffer.dtype
    options = {"stream": stream, "max_version": max_version}
    try:
        capsule = place.export_dlpack(buffer, storage, options)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ExchangeError(str(error).rstrip("."), "Use copy=True") from error
    if is_bfloat16:
        _type_code(capsule).value = BFLOAT
    return capsule


def import_from(place: Any, source: Any) -> tuple[Any, DType]:
    """Return the buffer on a device that shares the memory of an array, and its type.

    Raises:
        BufferError, RuntimeError, TypeError, ValueError: the memory cannot be shared.
        OptionError: there is no element type for that of the array.
    """
    producer = _Producer(source) if hasattr(source, "__dlpack__") else source
    buffer, found = place.import_array(producer)
    if getattr(producer, "is_bfloat16", False):
        return buffer.view(lambda array: array.view(bfloat16.storage)), bfloat16
    return buffer, dtypes.dtype(found)


def _refusal(array: npt.NDArray[Any]) -> tuple[str, str]:
    """Return the problem and the fix for an array that NumPy cannot export."""
    problem = f"DLPack cannot represent {array.dtype}"
    # 2 marks types of other packages, such as the narrow floats.
    if array.dtype.isbuiltin == 2 and array.dtype != bfloat16.storage:
        return problem, "Use astype(x, float32)"
    return f"{problem} with strides {array.strides}", "Use copy=True"


def _version(max_version: Any) -> tuple[int, int]:
    # Without a version the consumer is older than DLPack 1.0.
    if max_version is None:
        return 0, 0
    if _is_pair(max_version):
        return max_version[0], max_version[1]
    raise OptionError(f"max_version is {shown(max_version)}", "Use (1, 0), or None")


def _is_pair(value: Any) -> bool:
    """Return whether `value` is a tuple of two integers, a DLPack version or device."""
    is_pair = isinstance(value, tuple) and len(value) == 2
    return is_pair and all(isinstance(n, int) for n in value)


def import_array(source: Any) -> npt.NDArray[Any]:
    """Return an array that shares the host memory of an object with `__dlpack__`.

    Raises:
        BufferError, RuntimeError, TypeError: NumPy cannot share the memory.
    """
    producer = _Producer(source)
    found = np.from_dlpack(producer)
    return found.view(bfloat16.storage) if producer.is_bfloat16 else found


class _Producer:
    """A proxy that exports `source`, with bfloat16 as uint16."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.is_bfloat16 = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        code = _type_code(capsule)
        self.is_bfloat16 = code.value == BFLOAT
        if self.is_bfloat16:
            code.value = UINT
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()


def _type_code(capsule: Any) -> ctypes.c_uint8:
    """Return the type code in the structure; writing to it changes the structure."""
    name = next(name for name in _CODE_AT if _is_valid(capsule, name))
    return ctypes.c_uint8.from_address(_pointer(capsule, name) + _CODE_AT[name])


class Interchange:
    """The methods of tensors that Python, NumPy and DLPack call."""

    __slots__ = ()

    dtype: ClassVar[DType]
    device: ClassVar[Device]
    buffer: Any

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self.device.to_host(self.buffer).tolist()

    def _scalar(self, kind: str) -> Any:
        host = self.device.to_host(self.buffer)
        if host.size != 1:
            raise ShapeError(
                f"expected one element, got {host.size}",
                "Index or reduce it first",
                describe(kind, self),
            )
        return host.reshape(()).item()

    def _real_scalar(self, kind: str) -> Any:
        # Python's `int(1j)` raises as well; NumPy would drop the imaginary part with a
        # warning.
        if self.dtype.is_complex:
            raise DispatchError(
                f"a complex number is not a {kind}",
                "Use real(x) or complex(x)",
                describe(kind, self),
            )
        return self._scalar(kind)

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return self._whole(int)

    def __float__(self) -> float:
        return float(self._real_scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    # `math.trunc(x)` and its kin; through a float, large integers would be rounded.
    def __trunc__(self) -> int:
        return int(self)

    def __floor__(self) -> int:
        return self._whole(math.floor)

    def __ceil__(self) -> int:
        return self._whole(math.ceil)

    def _whole(self, rounded: Callable[[Any], int]) -> int:
        """Return the only element as an integer, rounded by a function of `math`."""
        name = rounded.__name__
        found = self._real_scalar(name)
        try:
            return rounded(found)
        except (ValueError, OverflowError):
            call = describe(name, self)
            raise CastError(
                f"{found} is not an integer", "Mask it first", call
            ) from None

    # Without this, Python would make one byte of each element.
    def __bytes__(self) -> bytes:
        """Return the memory of the elements in row-major order."""
        return self.__array__().tobytes()

    def __index__(self) -> int:
        # Lists and NumPy try this first, and would accept one element with axes.
        if not self.dtype.is_integer or self.buffer.shape:
            problem = f"{type_and_shape(self)} is not an index"
            raise DispatchError(problem, "Use a 0-d tensor of integers, or int(x)")
        return int(self._scalar("index"))

    def __array__(
        self, dtype: object = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Return the elements as a NumPy array; shared unless `copy` is True.

        Another `dtype` is the caller's cast: NumPy's, as `astype` of an array casts.
        """
        if self.device is cpu and dtype is None and copy is None:
            buffer: npt.NDArray[Any] = self.buffer
            return buffer
        call = describe("__array__", self)
        if self.device is not cpu:
            problem = (
                f"NumPy reads host memory only, but the elements are on {self.device}"
            )
            raise DeviceError(problem, "Move them with to(cpu)", call)
        own = self.buffer.dtype
        wanted = own if dtype is None else _numpy_dtype(dtype, call)
        if copy is not None and not isinstance(copy, (bool, np.bool_)):
            problem = f"copy is a {type(copy).__name__}"
            raise OptionError(problem, "Use None, True or False", call)
        if copy is False and wanted != own:
            problem = f"{self.dtype} needs a copy to become {wanted}, but copy is False"
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
        """Return a DLPack capsule that shares the elements unless `copy` is True.

        A read-only buffer needs a `max_version` of (1, 0) or later. If `dl_device` is
        the host, a tensor on another device is copied there.
        """
        is_here = self.device is cpu

        def capsule() -> Any:
            if self.device.shares_memory and dl_device in (None, self.device.dlpack):
                given = self.buffer, stream, max_version, copy
                return export_from(self.device, *given)
            if not is_here and (copy is False or dl_device != HOST):
                problem = f"the elements are on {self.device}, not on the host"
                fix = f"Move them with to(cpu), or pass dl_device={HOST}"
                raise ExchangeError(problem, fix)
            # A copy on the host can be exported, whatever the device.
            host = self.buffer if is_here else self.device.to_host(self.buffer)
            return export(host, stream, max_version, dl_device, copy)

        return checked("__dlpack__", (self,), capsule)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return device type and number in DLPack."""
        return self.device.dlpack

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return where a GPU has the elements, for CuPy, Numba and PyTorch.

        Raises:
            AttributeError: they are not on a GPU, or NumPy lacks their type.
        """
        storage = self.dtype.storage
        is_plain = storage.isbuiltin == 1 and storage.name == self.dtype.name
        if not (self.device.shares_memory and is_plain):
            name = "__cuda_array_interface__"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        place: Any = self.device
        found: dict[str, Any] = place.array_interface(self.buffer)
        return found

    def __reduce__(self) -> Any:
        return type(self), (self.device.to_host(self.buffer),)

    def __copy__(self) -> Self:
        """Return a tensor with a copy of the elements, as NumPy arrays do."""
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: object) -> Self:
        # Without `__init__`, which would convert and check the elements again.
        new = object.__new__(type(self))
        # The memo of `copy` is not needed: a buffer holds no objects.
        new.buffer = self.device.copy(self.buffer)
        return new


def _numpy_dtype(dtype: Any, call: str) -> np.dtype[Any]:
    """Return `dtype` as a NumPy dtype; for our element types, their storage."""
    if isinstance(dtype, DType):
        return dtype.storage
    try:
        meant: np.dtype[Any] = np.dtype(dtype)
        return meant
    except (TypeError, ValueError, RecursionError):
        problem = f"dtype is a {type(dtype).__name__}, which is not a NumPy type"
        fix = "Give a NumPy dtype or its name, or None for the type of the tensor"
        raise OptionError(problem, fix, call) from None


# The inspection API of the array API standard.

#: Supported versions of the array API.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

#: The element types of the array API; bfloat16 and float16 are not among them.
_STANDARD = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("uint64", "float32", "float64", "complex64", "complex128"),
)


def check_api_version(version: str | None) -> None:
    """Check that a version of the array API is supported.

    Raises:
        OptionError: the version is not a supported one.
    """
    if version is None:
        return
    if not isinstance(version, str) or version not in API_VERSIONS:
        raise OptionError(
            f"api_version is {shown(version)}",
            f"Use {', '.join(API_VERSIONS)}",
            "__array_namespace__",
        )


class NamespaceInfo:
    """Capabilities of the namespace; see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Return the supported optional behaviour."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MOST_AXES,
        }

    def default_device(self) -> Device:
        """Return the device of new tensors if you do not pass one."""
        return cpu

    def devices(self) -> list[Device]:
        """Return the devices that can be used on this machine."""
        return [found for found in devices() if not found.missing]

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        """Return the element types of Python numbers and of indices."""
        self._check(device)
        return {
            "real floating": DEFAULT_FLOAT,
            "complex floating": DEFAULT_COMPLEX,
            "integral": DEFAULT_INTEGER,
            "indexing": DEFAULT_INTEGER,
        }

    def dtypes(self, *, device: object = None, kind: object = None) -> dict[str, DType]:
        """Return the element types of the array API by name, all or of one kind."""
        self._check(device)
        # The standard's types only: a library that asks may not know others.
        found = {name: dtypes.dtype(name) for name in _STANDARD}
        if kind is None:
            return found
        return {name: found[name] for name in found if isdtype(found[name], kind)}

    def _check(self, device: Any) -> None:
        if device is not None:
            find_device(device)


def __array_namespace_info__() -> NamespaceInfo:
    """Return capabilities, devices and element types of this namespace.

    Example:
        >>> __array_namespace_info__().default_dtypes()["real floating"]
        mdtensor.float32
        >>> list(__array_namespace_info__().dtypes(kind="complex floating"))
        ['complex64', 'complex128']

    Source: array API 2024.12, `__array_namespace_info__`.
    """
    return NamespaceInfo()
