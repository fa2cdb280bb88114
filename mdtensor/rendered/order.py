"""The order of launches in several streams, known before any of them has run.

A stream numbers its launches. An event knows how many launches come before it, in its
own stream and in those that the stream has waited for. So a launch that uses what
another stream uses, without an event between them, is found when it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.device import Device, Event, Stream
from mdtensor.errors import DeviceError


class Uses:
    """The launches that use one memory, as (stream, number)."""

    def __init__(self) -> None:
        #: The last launch that writes, and those that read since.
        self.writer: tuple[QueueStream, int] | None = None
        self.readers: dict[QueueStream, int] = {}
        #: Every stream that has used the memory.
        self.streams: set[QueueStream] = set()

    def read(self, stream: QueueStream) -> None:
        """Record the newest launch of a stream as one that reads."""
        self.readers[stream] = stream.issued
        self.streams.add(stream)

    def written(self, stream: QueueStream) -> None:
        """Record the newest launch of a stream as the last one that writes."""
        self.writer, self.readers = (stream, stream.issued), {}
        self.streams.add(stream)


class QueueStream(Stream):
    """A stream that counts its launches, and knows what they come after."""

    device: Any

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        #: Launches so far, and those that are known to be done.
        self.issued = self.done = 0
        #: The launches of other streams that come before the next launch.
        self.clock: dict[QueueStream, int] = {}
        #: While launches are captured: the memory that they use, and whether they
        #: write it.
        self.captured: dict[Any, bool] | None = None

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        self.device.enqueue(self, kernel, arguments)

    def learn(self, event: QueueEvent) -> None:
        """Let later launches come after an event."""
        for stream, number in event.clock.items():
            self.clock[stream] = max(number, self.clock.get(stream, 0))

    def finish(self) -> None:
        """Wait for the launches so far, without a word in the ledger."""
        self.device.wait_for(self, self.issued)

    def comes_after(self, stream: QueueStream, number: int) -> bool:
        """Return whether the next launch comes after a launch of any stream."""
        known = max(stream.done, self.clock.get(stream, 0))
        return stream is self or number <= known


class QueueEvent(Event):
    """A number of launches of a stream, and what these had waited for."""

    stream: QueueStream

    def __init__(self, stream: QueueStream) -> None:
        super().__init__(stream)
        self.number = stream.issued
        self.clock = {**stream.clock, stream: stream.issued}


def require_order(
    stream: QueueStream, name: str, reads: list[Uses], targets: list[Uses]
) -> None:
    """Check that a launch comes after all that use its buffers.

    Args:
        stream: where the launch goes.
        name: of its kernel.
        reads: the uses of the memory that it reads.
        targets: those of the memory that it writes.

    Raises:
        DeviceError: another stream uses a buffer, and nothing orders the two launches.
    """
    before = [uses.writer for uses in (*reads, *targets) if uses.writer is not None]
    for target in targets:
        before += target.readers.items()
    if all(stream.comes_after(*one) for one in before):
        return
    problem = f"{name} uses a buffer that a launch in another stream uses"
    fix = "Use stream.wait(other.record()) first"
    raise DeviceError(f"{stream.device}: {problem}", fix)
