"""Memory of a GPU, and buffers in it."""

from __future__ import annotations

import weakref
from threading import Lock
from typing import Any

from mdtensor.gpu.streams import CudaStream
from mdtensor.kernels.cuda.reserved import Reserved
from mdtensor.rendered.memory import Buffer, Memory

#: Where the host computes views.
_RESERVED = Reserved()


class Count:
    """Bytes in buffers, and the most that there were."""

    def __init__(self) -> None:
        self.used = self.peak = 0
        self._lock = Lock()

    def add(self, size: int) -> None:
        """Count the bytes of a buffer; negative ones if nothing holds it any more."""
        with self._lock:
            self.used += size
            self.peak = max(self.peak, self.used)


# The pool gives a freed block to the next buffer of its stream at once, so launches of
# other streams that still use it must come first (decision 0075).
class CudaMemory(Memory):
    """Bytes on the GPU.

    Args:
        size: in bytes.
        address: of the first byte.
        owner: keeps the bytes alive: a block of the pool, or another library's array.
        home: the stream whose launches may still use the block.
        count: counts the bytes.
    """

    def __init__(
        self, size: int, address: int, owner: Any, home: CudaStream, count: Count
    ) -> None:
        super().__init__(_RESERVED.span(size), address)
        self.owner, self.home = owner, home
        count.add(size)
        given = owner, home, self.uses.streams, size, count
        weakref.finalize(self, _release, *given).atexit = False


def _release(
    owner: Any, home: CudaStream, streams: set[Any], size: int, count: Count
) -> None:
    """Give the bytes of a buffer back that nothing holds any more."""
    for stream in streams - {home}:
        home.follow(stream)
    count.add(-size)


class CudaBuffer(Buffer):
    """Elements in the memory of a GPU; views share it."""

    memory: CudaMemory
