"""Arrays of CuPy on memory of ours, and memory of other libraries, without a copy.

Streams: CuPy orders an exchange behind its current stream. So both functions enter the
stream that uses the memory, and the other library's stream waits for it, or it for
the other's.

Source: DLPack 1.1, "Python Specification"; Numba, "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

from typing import Any

from mdtensor.kernels.cuda import driver
from mdtensor.kernels.cuda.gpu import Gpu


def array(
    gpu: Gpu, owner: Any, address: int, shape: Any, strides: Any, dtype: Any
) -> Any:
    """Return a CuPy array of memory that `owner` keeps alive."""
    cupy = driver.cupy()
    before, size = _reach(shape, strides, dtype.itemsize)
    memory = cupy.cuda.UnownedMemory(address - before, size, owner, gpu.number)
    pointer = cupy.cuda.MemoryPointer(memory, before)
    return cupy.ndarray(shape, dtype, memptr=pointer, strides=strides)


def extent(array: Any) -> tuple[int, int]:
    """Return the lowest address of an array's elements, and the bytes from there on."""
    before, size = _reach(array.shape, array.strides, array.dtype.itemsize)
    return int(array.data.ptr) - before, size


def _reach(shape: Any, strides: Any, itemsize: int) -> tuple[int, int]:
    """Return the bytes before the first element, and all that the elements span."""
    if 0 in shape:
        return 0, 0
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    before = -sum(step for step in steps if step < 0)
    return before, before + sum(step for step in steps if step > 0) + itemsize


def imported(gpu: Gpu, source: Any, stream: Any) -> Any:
    """Return the CuPy array of an object with DLPack or the CUDA array interface.

    Raises:
        Exception: the object is on another device, or refuses.
    """
    cupy = driver.cupy()
    with gpu.device, stream:
        if hasattr(source, "__dlpack__"):
            return cupy.from_dlpack(source)
        return cupy.asarray(source)
