"""Memory of the device, and buffers: elements of it at any strides.

A view is found by moving an array of the same shape and strides over an address space
that nobody reads, so NumPy computes its place, and no element is copied.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

WORD = 4


@dataclass
class Usage:
    """Bytes of the memory that something holds now, and at most."""

    used: int = 0
    peak: int = 0

    def __post_init__(self) -> None:
        self._lock = Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self.used += size
            self.peak = max(self.peak, self.used)


class Memory:
    """One allocation: a buffer of wgpu, of whole words."""

    def __init__(self, gpu: Any, size: int, usage: Usage) -> None:
        import wgpu

        flags = wgpu.BufferUsage
        # A binding must not be empty.
        self.size = max(-(-size // WORD) * WORD, WORD)
        self.handle = gpu.create_buffer(
            size=self.size, usage=flags.STORAGE | flags.COPY_SRC | flags.COPY_DST
        )
        usage.add(self.size)
        weakref.finalize(self, usage.add, -self.size)


class Buffer:
    """Elements in the memory of the device; views share it.

    Args:
        memory: where they are.
        layout: an array of their shape and strides over the address space.
    """

    def __init__(self, memory: Memory, layout: npt.NDArray[Any]) -> None:
        self.memory, self._layout = memory, layout
        self.shape, self.strides = layout.shape, layout.strides
        self.dtype, self.size = layout.dtype, layout.size
        self.is_writable = layout.flags.writeable

    @property
    def first(self) -> int:
        """Return the place of the first element, counted in elements."""
        if not self.size:
            return 0
        start = self._layout.ctypes.data - address_space().ctypes.data
        return int(start) // self.dtype.itemsize

    def view(self, function: Callable[[Any], Any]) -> "Buffer | None":
        """Return the view that `function` makes of an array; None if it copies."""
        found = function(self._layout)
        # Views of nothing share no byte.
        shares = not found.size or np.may_share_memory(found, address_space())
        return Buffer(self.memory, found) if shares else None

    def span(self) -> tuple[int, int]:
        """Return the bytes that hold the elements, from a word to a word."""
        if not self.size:
            return 0, 0
        item = self.dtype.itemsize
        reach = [s * (n - 1) for n, s in zip(self.shape, self.strides, strict=True)]
        start = self.first * item
        low = start + sum(r for r in reach if r < 0)
        high = start + sum(r for r in reach if r > 0) + item
        return low // WORD * WORD, -(-high // WORD) * WORD

    def elements(self, found: bytes | memoryview) -> npt.NDArray[Any]:
        """Return the elements as a host array, from the bytes of `span`."""
        low, _ = self.span()
        start = self.first * self.dtype.itemsize - low
        # An array without elements has no place.
        whole = np.ndarray(
            self.shape, self.dtype, found if self.size else bytes(WORD),
            start if self.size else 0, self.strides if self.size else None,
        )  # fmt: skip
        return whole.copy()


@cache
def address_space() -> npt.NDArray[np.uint8]:
    """Return as many addresses as a buffer has bytes; the system maps none of them."""
    from mdtensor_webgpu.adapter import request

    return np.empty(request().limits["max-storage-buffer-binding-size"], np.uint8)


def layout(shape: tuple[int, ...], storage: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array at the start of the address space."""
    return np.ndarray(shape, storage, address_space())
