"""Writes into host tensors that recorded calls still have to read.

A recorded call reads its host tensors when it runs. A write before that would change
its result, so a reader hears of the write before it happens. Memory that is written
through NumPy is not seen, as with every array that shares memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol
from weakref import WeakSet, ref

import numpy as np

from mdtensor.tensor import ON_WRITE


class Reader(Protocol):
    """An object that reads host tensors later: a recorded call, or a trace."""

    def before_write(self, owner: Any) -> None:
        """Prepare for a write into the memory of the array `owner`."""


#: The readers of each array, by the `id` of the array that owns the memory; with a weak
#: reference that drops them with the array.
_READERS: dict[int, tuple[ref[Any], WeakSet[Any]]] = {}


def owner_of(buffer: Any) -> Any:
    """Return the array that owns the memory of `buffer`."""
    while isinstance(getattr(buffer, "base", None), np.ndarray):
        buffer = buffer.base
    return buffer


# A copy of each tensor when it is recorded would double the memory of weights
# (decision 0051).
def watch(reader: Reader, buffers: Iterable[Any]) -> None:
    """Tell `reader` of each write into these buffers, before it happens."""
    for buffer in buffers:
        owner = owner_of(buffer)
        # Other buffers are those of lazy tensors, and cannot be written.
        if isinstance(owner, np.ndarray):
            _readers_of(owner).add(reader)


def _readers_of(owner: Any) -> WeakSet[Any]:
    key = id(owner)
    if key not in _READERS:
        _READERS[key] = ref(owner, lambda _: _READERS.pop(key, None)), WeakSet()
    return _READERS[key][1]


def _before_write(buffer: Any) -> None:
    owner = owner_of(buffer)
    _, readers = _READERS.pop(id(owner), (None, ()))
    for reader in tuple(readers):
        reader.before_write(owner)


ON_WRITE.append(_before_write)
