"""The CUDA device, with one concrete tensor type for every element type.

The types exist on machines without a GPU too, so that ambiguous methods for them are
found on every machine. Allocating memory raises `DeviceError` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mdtensor.device import Device, register_device
from mdtensor.dispatch.suggestions import NO_CUDA
from mdtensor.errors import DeviceError
from mdtensor.siblings import siblings
from mdtensor.types import HOST


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
_TYPES = siblings(cuda, "Cuda", HOST, __name__)
globals().update(_TYPES)
__all__ = ["cuda", *_TYPES]
