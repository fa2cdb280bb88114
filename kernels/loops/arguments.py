"""Arguments of a launch as cuLaunchKernel takes them: pointers to their values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.kernels.loops.kernel import Launch


# One function for the GPU's driver and for the emulated device: a wrong argument is
# found without a GPU (decision 0075).
def packed(launch: Launch, addresses: Sequence[int]) -> tuple[Any, list[Any]]:
    """Return the array of pointers, and what must stay alive until the launch returns.

    Args:
        launch: its operands and walks; numbers and walks are passed by value.
        addresses: of the first element of each operand; those of numbers are ignored.
    """
    pointers = [ctypes.c_void_p(address) for address in addresses]
    values = [
        x.ctypes.data if isinstance(x, np.ndarray) else ctypes.addressof(pointer)
        for x, pointer in zip(launch.operands, pointers, strict=True)
    ]
    values += [x.ctypes.data for x in launch.walks]
    table = (ctypes.c_void_p * len(values))(*values)
    return table, [pointers, launch]
