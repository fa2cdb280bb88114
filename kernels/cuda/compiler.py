"""Machine code of kernels: once for each text and architecture, cached by content."""

from __future__ import annotations

import ctypes

from mdtensor.kernels.cuda import nvrtc
from mdtensor.kernels.loops import store
from mdtensor.kernels.loops.cuda import SCALARS
from mdtensor.kernels.loops.kernel import Kernel

#: Products and sums round separately, and no number becomes 0: the bytes of the host.
OPTIONS: tuple[str, ...] = ("--std=c++17", "--fmad=false", "--ftz=false")
OPTIONS += ("--prec-div=true", "--prec-sqrt=true", "-default-device")
OPTIONS += ("--diag-suppress=177",)


def source(kernel: Kernel) -> str:
    """Return the whole text that NVRTC compiles."""
    return f"{SCALARS}\n{kernel.text}"


def options(arch: int) -> tuple[str, ...]:
    """Return the options for an architecture: 90 is sm_90."""
    return (*OPTIONS, f"-arch=sm_{arch}")


def cubin(kernel: Kernel, arch: int, lib: ctypes.CDLL | None = None) -> bytes:
    """Return the machine code of a kernel.

    Args:
        kernel: its text is compiled with the functions of `scalar.cuh`.
        arch: the compute capability of the GPU without a point: 90.
        lib: NVRTC; by default the newest that is installed.

    Raises:
        NvrtcError: NVRTC is not installed, or the text does not compile.
    """
    found = lib or nvrtc.library()
    text, how = source(kernel), options(arch)
    key = store.key_of(text, how, nvrtc.version(found))
    place = store.folder("cuda") / f"{key}.cubin"
    known = store.read(place)
    if known is None:
        known, _ = nvrtc.compile_text(found, text, how)
        store.write(place, known)
    return known
