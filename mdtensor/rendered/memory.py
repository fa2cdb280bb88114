"""Buffers of devices that run rendered loops: elements in memory, and views of them.

A view is made by a function of a NumPy array, `buffer.view(lambda array: array[1:])`.
The host never reads memory of a device: the function gets an array of the same layout,
over bytes that the host may touch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor.rendered.order import Uses


def reshaped(shape: tuple[int, ...], array: Any) -> Any:
    """Return a view of another shape; an array that shares nothing if there is none."""
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:
        return np.empty(1, array.dtype)


class Memory:
    """Bytes of one allocation, and the launches that use them.

    Args:
        span: an array of as many bytes, for views; on a device with memory of the host
            the bytes themselves.
        address: where the device has the first byte of `span`.
    """

    def __init__(self, span: npt.NDArray[np.uint8], address: int) -> None:
        self.span, self.address = span, address
        self.uses = Uses()


class Buffer:
    """Elements in the memory of a device; views share it.

    Args:
        memory: the memory.
        elements: an array over bytes of `memory.span`.
    """

    def __init__(self, memory: Memory, elements: npt.NDArray[Any]) -> None:
        self.memory = memory
        self._elements = elements
        self.shape, self.strides = elements.shape, elements.strides
        self.dtype, self.size = elements.dtype, elements.size
        self.is_writable = elements.flags.writeable

    @cached_property
    def address(self) -> int:
        """Return where the device has the first element."""
        first = self._elements.ctypes.data - self.memory.span.ctypes.data
        return int(self.memory.address + first)

    @property
    def is_contiguous(self) -> bool:
        """Return whether the elements are in row-major order without gaps."""
        return bool(self._elements.flags.c_contiguous)

    def view(self, function: Callable[[Any], Any]) -> Self | None:
        """Return the view that `function` makes of an array; None if it copies."""
        found = function(self._elements)
        # Views of nothing share no byte.
        shares = not found.size or np.may_share_memory(found, self.memory.span)
        return type(self)(self.memory, found) if shares else None
