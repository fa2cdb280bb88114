"""The device on which the suites of rendered operations run.

The variable MDTENSOR_TEST_DEVICE chooses it: `emucuda`, the emulated device; `double`,
the code of cuda:0 on a double of CuPy; `cuda`, a GPU.
"""

import os
from typing import Any

import pytest
from support import cupy_double

import mdtensor as md
from mdtensor.kernels.emulated import compiler

VARIABLE = "MDTENSOR_TEST_DEVICE"


def name() -> str:
    """Return what the variable names."""
    return os.environ.get(VARIABLE, "emucuda")


def chosen() -> Any:
    """Return the device; the double is installed for the rest of the process."""
    if name() == "double":
        cupy_double.install(pytest.MonkeyPatch())
    return md.device("emucuda" if name() == "emucuda" else "cuda")


def prefix(device: Any) -> str:
    """Return how the names of its types begin."""
    return md.leaf(md.float32, device).__name__.removesuffix("Float32Tensor")


def missing(device: Any) -> str:
    """Return why the device cannot run; empty if it can."""
    if name() != "cuda" and not compiler.compiler():
        return compiler.NO_COMPILER
    found: str = device.missing
    return found
