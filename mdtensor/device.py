"""Where a tensor lives: memory, kernel launches, waiting. Nothing about element types.

A CPU answers at once. Other devices queue work: `synchronize` waits for it, and
`to_host` never returns before it is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mdtensor.errors import DeviceError, RegistrationError, shown

_REGISTRY: dict[str, Device] = {}


class Device(ABC):
    """A place for buffers and kernels; register one with `register_device`."""

    name: str

    @property
    def missing(self) -> str:
        """What it lacks on this machine; empty where it can be used."""
        return ""

    #: Type and number in DLPack, where type 12 is one that it does not know.
    dlpack: tuple[int, int] = (12, 0)

    @abstractmethod
    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
        """A new buffer with undefined contents."""

    @abstractmethod
    def from_host(self, array: npt.NDArray[Any]) -> Any:
        """A buffer with the contents of a host array."""

    @abstractmethod
    def to_host(self, buffer: Any) -> npt.NDArray[Any]:
        """A host array with the contents of a buffer; waits for pending work."""

    @abstractmethod
    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Run `kernel(*arguments)`, now or in order behind earlier launches."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until every earlier launch is done."""

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return device, (self.name,)


class _Cpu(Device):
    name = "cpu"
    dlpack = (1, 0)

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
        return np.empty(shape, storage)

    def from_host(self, array: npt.NDArray[Any]) -> Any:
        return array

    def to_host(self, buffer: Any) -> npt.NDArray[Any]:
        return np.asarray(buffer)

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        kernel(*arguments)

    def synchronize(self) -> None:
        return None


def register_device(new: Device) -> Device:
    """Make `new` known under its name.

    Raises:
        RegistrationError: the name is taken.
    """
    if new.name in _REGISTRY:
        raise RegistrationError(f"a device named {new.name} exists already")
    _REGISTRY[new.name] = new
    return new


def devices() -> tuple[Device, ...]:
    """All registered devices, those included that cannot be used here."""
    return tuple(_REGISTRY.values())


def device(name: str | Device) -> Device:
    """The device called `name`; `cuda` is short for `cuda:0`.

    Raises:
        DeviceError: no such device is registered.

    Example:
        >>> device("cpu")
        cpu
    """
    if isinstance(name, Device):
        return name
    is_name = isinstance(name, str)
    found = _REGISTRY.get(name, _REGISTRY.get(f"{name}:0")) if is_name else None
    if found is None:
        known = ", ".join(_REGISTRY)
        raise DeviceError(f"no device {shown(name)}", f"Registered are {known}")
    return found


cpu: Final = register_device(_Cpu())
