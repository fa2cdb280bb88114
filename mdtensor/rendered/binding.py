"""Kernels of CUDA text with their arguments, and the kernel that copies."""

from __future__ import annotations

from typing import Any

from mdtensor.device import Device
from mdtensor.errors import DeviceError, shown
from mdtensor.kernels.loops.ir import Input, Loop, load
from mdtensor.kernels.loops.kernel import Kernel, Launch


def bind(device: Device, kernel: Any, given: tuple[Any, ...]) -> Launch:
    """Return the launch of a kernel with these arguments, checked.

    Raises:
        DeviceError: `kernel` is not a kernel, or does not take the arguments.
    """
    if not isinstance(kernel, Kernel):
        problem = f"{device} launches kernels of CUDA text, not {shown(kernel)}"
        raise DeviceError(problem, "Use mdtensor.kernels.loops.cuda.render(loop)")
    try:
        return kernel.bind(given)
    except (TypeError, ValueError) as error:
        problem = str(error).removesuffix(".")
        raise DeviceError(f"a launch on {device} does not fit: {problem}") from error


def copy_kernel(type: str) -> Kernel:
    """Return the kernel that copies elements of a type."""
    # Here, because it loads OpenSSL, for a hash.
    from mdtensor.kernels.loops.cuda import render

    return render(Loop((Input(type),), load(0, type)))
