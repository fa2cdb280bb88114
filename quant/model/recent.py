"""What was used last: a few values by key, made when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

#: Values that are kept; for a new one, the one that was used longest ago goes.
MOST = 8


class Recent(Generic[Key, Value]):
    """The `most` values that were used last. Threads may share it.

    Example:
        >>> from mdtensor.quant.model.recent import Recent
        >>> squares = Recent()
        >>> squares.get(3, lambda: 9), squares.last
        (9, 3)
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._values: dict[Key, Value] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of `key`; `make` returns it if it is not kept."""
        with self._lock:
            # A dict keeps the order of insertion: the first was used longest ago.
            value = self._values.pop(key) if key in self._values else make()
            while len(self._values) >= self._most:
                del self._values[next(iter(self._values))]
            self._values[key] = value
            return value

    def found(self, key: Key) -> Value | None:
        """Return the value of `key` if it is kept, without a lock or a new order."""
        # A dict answers one question of many threads at a time.
        return self._values.get(key)

    @property
    def last(self) -> Key | None:
        """Return the key that was used last; None without any."""
        return next(reversed(self._values), None)

    def __len__(self) -> int:
        return len(self._values)
