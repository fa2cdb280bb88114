"""What numba did in this process: functions compiled, and functions found on disk."""

import gc
from collections.abc import Callable
from dataclasses import dataclass

from numba.core import event
from numba.core.dispatcher import Dispatcher


@dataclass(frozen=True)
class Counts:
    """Specializations, each a function with the types of its arguments."""

    compiled: int
    loaded: int


class Watch(event.Listener):
    """Counts from its beginning to its end: `with Watch() as watch: ...; watch.counts`.

    A function that is inlined into the one that calls it counts too, where it had to be
    compiled for that.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self._before = 0
        self.counts = Counts(0, 0)

    def on_start(self, event: event.Event) -> None:
        self.compiled += 1

    def on_end(self, event: event.Event) -> None:
        """Nothing: compilations are counted as they begin."""

    def __enter__(self) -> "Watch":
        self.compiled, self._before = 0, loaded()
        event.register("numba:compile", self)
        return self

    def __exit__(self, *_: object) -> None:
        event.unregister("numba:compile", self)
        self.counts = Counts(self.compiled, loaded() - self._before)


class Notice(event.Listener):
    """Calls `told` when the first function is compiled: `with Notice(told): ...`."""

    def __init__(self, told: Callable[[], object]) -> None:
        self._told: Callable[[], object] | None = told

    def on_start(self, event: event.Event) -> None:
        told, self._told = self._told, None
        if told is not None:
            told()

    def on_end(self, event: event.Event) -> None:
        """Nothing: it is told as it begins."""

    def __enter__(self) -> "Notice":
        event.register("numba:compile", self)
        return self

    def __exit__(self, *_: object) -> None:
        event.unregister("numba:compile", self)


def loaded() -> int:
    """Specializations that came from the cache on disk, since the process began."""
    found = gc.get_objects()
    # isinstance would ask a weak proxy for the class of what may be gone.
    functions = [each for each in found if issubclass(type(each), Dispatcher)]
    return sum(sum(each.stats.cache_hits.values()) for each in functions)
