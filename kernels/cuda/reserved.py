"""Addresses of the host that stand for memory of a GPU, where views are computed."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt


class _Bytes:
    """Mapped bytes that NumPy takes for writable; nobody writes there."""

    def __init__(self, size: int) -> None:
        # Zeros that nobody has touched take no memory, and pages that cannot be written
        # are not counted by hosts that limit what may be mapped.
        self.mapped = mmap.mmap(-1, size, prot=mmap.PROT_READ)
        address = np.frombuffer(self.mapped, np.uint8).ctypes.data
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


class Reserved:
    """One range of addresses for all buffers of a device; it grows."""

    def __init__(self) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def span(self, size: int) -> npt.NDArray[np.uint8]:
        """Return an array of as many bytes; a function that copies it reads zeros.

        Raises:
            MemoryError: the host has no such range of addresses.
        """
        if size > self._bytes.size:
            wanted = max(size, 2 * self._bytes.size, 1 << 20)
            try:
                self._bytes = np.asarray(_Bytes(wanted))
            # A host limits what may be mapped, and a size has at most 63 bits.
            except (OSError, OverflowError) as error:
                words = f"there is no memory for {size} bytes"
                raise MemoryError(words) from error
        return self._bytes[:size]
