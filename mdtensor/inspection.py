"""What this namespace offers, as portable programs ask for it."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.device import Device, cpu, device as find_device, devices
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, shown
from mdtensor.promotion import DEFAULT_COMPLEX, DEFAULT_FLOAT, DEFAULT_INTEGER
from mdtensor.spec.shapes import MOST_AXES
from mdtensor.type_info import isdtype

#: Versions of the array API whose names mean here what they mean there.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

#: The element types that the array API names; bfloat16 and float16 are ours besides.
_STANDARD = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("uint64", "float32", "float64", "complex64", "complex128"),
)


def check_api_version(version: str | None) -> None:
    """Refuse a version of the array API that is not spoken here.

    Raises:
        OptionError: it is not.
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
    """Answers about the namespace; see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """What optional behaviour there is."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MOST_AXES,
        }

    def default_device(self) -> Device:
        """Where tensors are made unless said otherwise."""
        return cpu

    def devices(self) -> list[Device]:
        """The devices that can be used on this machine."""
        return [found for found in devices() if not found.missing]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The element types of Python numbers, and of indices."""
        self._check(device)
        return {
            "real floating": DEFAULT_FLOAT,
            "complex floating": DEFAULT_COMPLEX,
            "integral": DEFAULT_INTEGER,
            "indexing": DEFAULT_INTEGER,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The element types of the array API by name, all or of a kind."""
        self._check(device)
        found = {name: dtypes.dtype(name) for name in _STANDARD}
        if kind is None:
            return found
        return {name: found[name] for name in found if isdtype(found[name], kind)}

    def _check(self, device: Any) -> None:
        if device is not None:
            find_device(device)


def __array_namespace_info__() -> NamespaceInfo:
    """Capabilities, devices and element types of this namespace.

    Example:
        >>> __array_namespace_info__().default_dtypes()["real floating"]
        mdtensor.float32
        >>> list(__array_namespace_info__().dtypes(kind="complex floating"))
        ['complex64', 'complex128']

    Source: array API 2024.12, `__array_namespace_info__`.
    """
    return NamespaceInfo()
