"""Counts of the functions that numba compiled or loaded from its disk cache.

Observers stand in `ACTIVE`; `jit.py` calls them when numba begins to compile. So this
module does not load numba, which may be imported while an observer waits.
"""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """Numbers of specializations; one is a function with the types of its arguments."""

    compiled: int
    loaded: int


class Observer:
    """An object that is active in a `with` block; `begin` is called per compilation."""

    def begin(self) -> None:
        """Note that numba begins to compile a function."""
        raise NotImplementedError

    def __enter__(self) -> "Observer":
        ACTIVE.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        ACTIVE.remove(self)


ACTIVE: list[Observer] = []


class Watch(Observer):
    """Counter of compilations inside a `with` block.

    Example: `with Watch() as watch: ...`, then read `watch.counts`.

    A function that is inlined into its caller counts if numba had to compile it.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self._before = 0
        self.counts = Counts(0, 0)

    def begin(self) -> None:
        """Count a compilation."""
        self.compiled += 1

    def __enter__(self) -> "Watch":
        self.compiled, self._before = 0, count_loaded()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.counts = Counts(self.compiled, count_loaded() - self._before)


class Notice(Observer):
    """Call a function when the first compilation begins: `with Notice(call): ...`."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def begin(self) -> None:
        """Call the callback when the first compilation begins, and never again."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def count_loaded() -> int:
    """Return how many specializations this process loaded from the disk cache."""
    numba = sys.modules.get("numba.core.dispatcher")
    if numba is None:
        return 0
    found = gc.get_objects()
    # isinstance would read the class of a weak proxy, whose object may be gone.
    functions = [each for each in found if issubclass(type(each), numba.Dispatcher)]
    return sum(sum(each.stats.cache_hits.values()) for each in functions)
