"""What this machine has for CUDA: a driver, CuPy, a GPU, and NVRTC.

CuPy is looked for only where there is a driver, and imported only where both are.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mdtensor.kernels.cuda import nvrtc

#: The oldest version of CUDA that CuPy has packages for, as the driver counts.
OLDEST = 12000
NO_DRIVER = "there is no NVIDIA driver on this machine: libcuda.so.1 was not found"
NO_DRIVER += "; next to a driver it takes pip install 'mdtensor[cuda13]'"


def driver_version() -> int:
    """Return the version of CUDA that the driver supports, as 13000; 0 without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    found = ctypes.c_int()
    return 0 if driver.cuDriverGetVersion(ctypes.byref(found)) else found.value


def major_version() -> int:
    """Return the major version of CUDA that the driver and the packages support."""
    return min(driver_version() // 1000, nvrtc.MAJORS[0])


def install_line(version: int) -> str:
    """Return the command that installs what a driver of this version needs."""
    major = 12 if OLDEST <= version < 13000 else 13
    return f"pip install 'mdtensor[cuda{major}]'"


def cupy() -> Any:
    """Import and return CuPy."""
    return import_module("cupy")


def missing() -> str:
    """Return why CUDA cannot be used on this machine; empty if it can."""
    version = driver_version()
    if not version:
        return NO_DRIVER
    shown = f"the driver supports CUDA {version // 1000}.{version % 1000 // 10}"
    if version < OLDEST:
        return f"{shown}, but CuPy needs 12.0 or later: update the driver"
    line = install_line(version)
    if find_spec("cupy") is None:
        return f"{shown}, but CuPy is not installed: {line}"
    try:
        count = cupy().cuda.runtime.getDeviceCount()
        nvrtc.library(major_version())
    # CuPy's own errors, and those of libraries that it loads; each names its cause.
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        return f"{shown}, but CuPy or NVRTC fails ({reason}): {line}"
    return "" if count else f"{shown}, but finds no GPU"
