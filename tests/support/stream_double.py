"""A double of CUDA's streams and events: a task runs when somebody waits for it.

A stream is a queue. Its tasks run when the program waits for the stream, for an event
behind them or for the device, and when another stream that is waited for waits for
such an event; never before. So whoever forgets a wait, or puts a launch or a copy into
another stream, reads old bytes, each time.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

#: What the program asked for, in order.
CALLS: list[tuple[Any, ...]] = []
_local = threading.local()
# One for all streams: a task of one may run tasks of another.
_running = threading.RLock()


class Broken(Exception):
    """An error as CuPy raises it."""


class Stream:
    all: dict[int, Any] = {}  # noqa: RUF012

    def __init__(self, non_blocking: bool = False, ptr: int | None = None) -> None:
        self.ptr = 0x1000 + len(Stream.all) if ptr is None else ptr
        self.waiting: deque[Callable[[], None]] = deque()
        self.issued = self.done = 0
        self.graph: Any = None
        self.error = ""
        Stream.all[self.ptr] = self

    def __enter__(self) -> Any:
        stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        stack().pop()

    def add(self, task: Callable[[], None]) -> None:
        """Put a task at the end; into the graph while one is captured."""
        if self.graph is not None:
            self.graph.launches.append(task)
            return
        with _running:
            self.waiting.append(task)
            self.issued += 1

    def run(self, number: int) -> None:
        """Run the first tasks, up to a number of them."""
        with _running:
            while self.done < number and self.waiting:
                task = self.waiting.popleft()
                self.done += 1
                task()

    def record(self) -> Any:
        return Event(self)

    def begin_capture(self) -> None:
        self.graph = Graph()

    def end_capture(self) -> Any:
        graph, self.graph = self.graph, None
        return graph

    def wait_event(self, event: Any) -> None:
        refuse_capture(self, event.stream)
        CALLS.append(("wait", self.ptr, event.stream.ptr))
        self.add(event.reach)

    def synchronize(self) -> None:
        refuse_capture(self)
        CALLS.append(("synchronize", self.ptr))
        self.run(self.issued)
        error, self.error = self.error, ""
        if error:
            raise Broken(f"cudaErrorLaunchFailure: {error}")


class Graph:
    """Launches with a copy of their arguments."""

    def __init__(self) -> None:
        self.launches: list[Callable[[], None]] = []

    def launch(self, stream: Any) -> None:
        CALLS.append(("graph", len(self.launches), stream.ptr))
        for launch in self.launches:
            stream.add(launch)


class Event:
    """A GPU goes on by itself: done behind a wait, or when asked again."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.asked = stream, 0
        self.number, self.at = stream.issued, time.perf_counter()

    def reach(self) -> None:
        """Run what comes before it."""
        self.stream.run(self.number)

    @property
    def done(self) -> bool:
        self.asked += 1
        if self.asked > 1:
            self.reach()
        return bool(self.stream.done >= self.number)

    def synchronize(self) -> None:
        CALLS.append(("synchronize", self.stream.ptr))
        self.reach()


class Device:
    compute_capability = "90"

    def __init__(self, number: int = 0) -> None:
        self.id = number

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        for stream in list(Stream.all.values()):
            stream.synchronize()


def stack() -> list[Any]:
    """The streams of the `with` blocks of a thread; the last one is current."""
    if not hasattr(_local, "stack"):
        _local.stack = [Stream(ptr=0)]
    found: list[Any] = _local.stack
    return found


def refuse_capture(*streams: Any) -> None:
    """Raise what CUDA raises if a stream is captured."""
    if any(stream.graph is not None for stream in streams):
        raise Broken("cudaErrorStreamCaptureUnsupported: not permitted when capturing")
