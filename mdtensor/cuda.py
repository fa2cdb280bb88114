"""The CUDA device, with one concrete tensor type for every element type.

The types exist on machines without a GPU too, so that ambiguous methods for them are
found on every machine. There, allocating memory raises `DeviceError` with the reason.
"""

from __future__ import annotations

from typing import Final

from mdtensor.device import register_device
from mdtensor.gpu.device import Cuda
from mdtensor.siblings import siblings
from mdtensor.types import HOST

cuda: Final = Cuda()
register_device(cuda)
_TYPES = siblings(cuda, "Cuda", HOST, __name__)
globals().update(_TYPES)
__all__ = ["cuda", *_TYPES]
