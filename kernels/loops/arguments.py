"""Arguments of a launch as cuLaunchKernel takes them: pointers to their values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.kernels.loops.kernel import Launch

#: The bytes of a pointer.
POINTER = ctypes.sizeof(ctypes.c_void_p)


# One function for the GPU's driver and for the emulated device: a wrong argument is
# found without a GPU (decision 0075).
def packed(launch: Launch, addresses: Sequence[int]) -> tuple[Any, list[Any]]:
    """Return the array of pointers, and what must stay alive until the launch returns.

    Args:
        launch: its operands and walks; numbers and walks are passed by value.
        addresses: of the first element of each operand; those of numbers are ignored.
    """
    # One array of addresses, since each object of ctypes takes as long as a launch.
    pointers = (ctypes.c_void_p * len(addresses))(*addresses)
    first = ctypes.addressof(pointers)
    values = [
        x.ctypes.data if isinstance(x, np.ndarray) else first + POINTER * at
        for at, x in enumerate(launch.operands)
    ]
    values += [x.ctypes.data for x in launch.walks]
    table = (ctypes.c_void_p * len(values))(*values)
    return table, [pointers, launch]
