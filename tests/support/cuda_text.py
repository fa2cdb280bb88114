"""Runs of rendered loops on host arrays, without a device."""

from typing import Any

import numpy as np

from mdtensor.kernels.emulated import launcher
from mdtensor.kernels.loops.kernel import Kernel


class Memory:
    """A host array that a kernel takes for a buffer."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype


def run(kernel: Kernel, *given: Any, out: Any, axes: Any = (), **how: Any) -> Any:
    """Run a kernel over arrays; 0-d inputs that it declares as numbers stay numbers."""
    operands = [
        x if declared.is_number else Memory(x)
        for declared, x in zip(kernel.inputs, given, strict=True)
    ]
    rest = (axes,) if kernel.takes_axes else ()
    launch = kernel.bind([*operands, Memory(out), *rest])
    places = [x.ctypes.data for x in (*given, out)]
    launcher.run(kernel, launch, places, **how)
    return out


def empty(shape: Any, type: str) -> Any:
    """An array in which an element that nobody writes is found."""
    made = np.empty(shape, np.dtype(type))
    made.reshape(-1).view(np.uint8).fill(0xA5)
    return made
