"""Writes into host tensors that recorded calls still have to read.

A recorded call reads its host tensors when it runs. A write before that would change
its result, so a reader hears of the write before it happens. Memory that is written
through NumPy is not seen, as with every array that shares memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from mdtensor.tensor import ON_WRITE


class Reader(Protocol):
    """An object that reads host tensors later: a recorded call, or a trace."""

    def before_write(self, owner: Any) -> None:
        """Prepare for a write into the memory of the array `owner`."""


#: The readers of each array, by the `id` of the array that owns the memory.
_READERS: dict[int, WeakSet[Any]] = {}
#: How many arrays may have readers before those without living ones are dropped.
_LIMIT = 4096


def owner_of(buffer: Any) -> Any:
    """Return the array that owns the memory of `buffer`."""
    while isinstance(getattr(buffer, "base", None), np.ndarray):
        buffer = buffer.base
    return buffer


# A copy of each tensor when it is recorded would double the memory of weights
# (decision 0051).
def watch(reader: Reader, buffers: Iterable[Any]) -> None:
    """Tell `reader` of each write into these buffers, before it happens."""
    if len(_READERS) > _LIMIT:
        for owner in [owner for owner, known in _READERS.items() if not known]:
            del _READERS[owner]
    for buffer in buffers:
        _READERS.setdefault(id(owner_of(buffer)), WeakSet()).add(reader)


def _before_write(buffer: Any) -> None:
    owner = owner_of(buffer)
    for reader in _READERS.pop(id(owner), ()):
        reader.before_write(owner)


ON_WRITE.append(_before_write)
