"""DLPack: the buffer of another library, or for one, without a copy.

NumPy writes and reads the structure. bfloat16, which its DLPack does not know, goes as
uint16 whose type code is changed in the structure.

Source: `dlpack.h` of DLPack 1.1 (layout of `DLTensor` and of what manages it).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.dtypes import bfloat16
from mdtensor.errors import ExchangeError, OptionError, shown

#: Type and number of the host as a device of DLPack.
HOST = (1, 0)
UINT, BFLOAT = 1, 4
#: Where the type code is in the structure of each name.
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)


def exported(
    array: npt.NDArray[Any], stream: Any, max_version: Any, dl_device: Any, copy: Any
) -> Any:
    """The capsule of a host array; see `Tensor.__dlpack__`.

    Raises:
        ExchangeError: not as asked for.
        OptionError: no such version.
    """
    version = _version(max_version)
    if stream is not None:
        raise ExchangeError(
            f"the host has no streams, stream is {shown(stream)}", "Use stream=None"
        )
    if dl_device is not None and (not _is_pair(dl_device) or dl_device != HOST):
        raise ExchangeError(
            f"the elements are on device {HOST}, not {shown(dl_device)}",
            "Move them with to(device)",
        )
    if not (array.flags.writeable or copy or version >= (1, 0)):
        raise ExchangeError(
            "only from DLPack 1.0 on can a buffer be marked as read-only",
            "Use copy=True, or max_version=(1, 0)",
        )
    if copy is not None and not isinstance(copy, (bool, np.bool_)):
        raise OptionError(f"copy is {shown(copy)}", "Use None, True or False")
    found = array.copy() if copy else array
    is_bfloat16 = found.dtype == bfloat16.storage
    try:
        capsule = (found.view(np.uint16) if is_bfloat16 else found).__dlpack__(
            max_version=max_version
        )
    except BufferError:
        raise ExchangeError(*_refusal(found)) from None
    if is_bfloat16:
        _type_code(capsule).value = BFLOAT
    return capsule


def _refusal(array: npt.NDArray[Any]) -> tuple[str, str]:
    """Why NumPy does not export an array, and what would work."""
    problem = f"DLPack has no place for {array.dtype}"
    if array.dtype.isbuiltin == 2 and array.dtype != bfloat16.storage:
        return problem, "Use astype(x, float32)"
    return f"{problem} with strides {array.strides}", "Use copy=True"


def _version(max_version: Any) -> tuple[int, int]:
    if max_version is None:
        return 0, 0
    if _is_pair(max_version):
        return max_version[0], max_version[1]
    raise OptionError(f"max_version is {shown(max_version)}", "Use (1, 0), or None")


def _is_pair(value: Any) -> bool:
    """Whether it is a tuple of two integers, as DLPack writes versions and devices."""
    is_pair = isinstance(value, tuple) and len(value) == 2
    return is_pair and all(isinstance(n, int) for n in value)


def imported(source: Any) -> npt.NDArray[Any]:
    """The array of an object with `__dlpack__`, in shared memory of the host.

    Raises:
        BufferError, RuntimeError, TypeError: NumPy's, if it cannot share it.
    """
    producer = _Producer(source)
    found = np.from_dlpack(producer)
    return found.view(bfloat16.storage) if producer.is_bfloat16 else found


class _Producer:
    """What exports `source`, but bfloat16 as uint16."""

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
    """The type code in the structure, which may be changed."""
    name = next(name for name in _CODE_AT if _is_valid(capsule, name))
    return ctypes.c_uint8.from_address(_pointer(capsule, name) + _CODE_AT[name])
