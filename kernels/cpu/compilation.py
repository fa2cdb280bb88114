"""Counts of the functions that numba compiled or loaded from its disk cache."""

import gc
from collections.abc import Callable
from dataclasses import dataclass

from numba.core import event
from numba.core.dispatcher import Dispatcher


@dataclass(frozen=True)
class Counts:
    """Numbers of specializations; one is a function with the types of its arguments."""

    compiled: int
    loaded: int


class Watch(event.Listener):
    """Counter of compilations inside a `with` block.

    Example: `with Watch() as watch: ...`, then read `watch.counts`.

    A function that is inlined into its caller counts if numba had to compile it.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self._before = 0
        self.counts = Counts(0, 0)

    def on_start(self, event: event.Event) -> None:
        """Count a compilation."""
        self.compiled += 1

    def on_end(self, event: event.Event) -> None:
        """Do nothing: compilations are counted as they begin."""

    def __enter__(self) -> "Watch":
        self.compiled, self._before = 0, count_loaded()
        event.register("numba:compile", self)
        return self

    def __exit__(self, *_: object) -> None:
        event.unregister("numba:compile", self)
        self.counts = Counts(self.compiled, count_loaded() - self._before)


class Notice(event.Listener):
    """Call a function when the first compilation begins: `with Notice(call): ...`."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def on_start(self, event: event.Event) -> None:
        """Call the callback when the first compilation begins, and never again."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def on_end(self, event: event.Event) -> None:
        """Do nothing: the function was called as the compilation began."""

    def __enter__(self) -> "Notice":
        event.register("numba:compile", self)
        return self

    def __exit__(self, *_: object) -> None:
        event.unregister("numba:compile", self)


def count_loaded() -> int:
    """Return how many specializations this process loaded from the disk cache."""
    found = gc.get_objects()
    # isinstance would read the class of a weak proxy, whose object may be gone.
    functions = [each for each in found if issubclass(type(each), Dispatcher)]
    return sum(sum(each.stats.cache_hits.values()) for each in functions)
