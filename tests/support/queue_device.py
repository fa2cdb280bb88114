"""A device for tests that computes on threads of its own, in memory of its own.

A launch returns at once; its kernel runs on the thread of its stream, and writes its
last buffer. Until then a raw read shows what was there before. A kernel that fails
leaves its error with the buffer it should have written, and with what is computed
from that.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import mdtensor as md

Task = Callable[[], None]


class QueueBuffer:
    """What a tensor of the device holds; `raw` reads it without waiting."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.written: QueueEvent | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.memory.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.memory.dtype)

    @property
    def size(self) -> int:
        return int(self.memory.size)

    def raw(self) -> Any:
        return self.memory.copy()

    def wait(self) -> None:
        if self.written is not None:
            self.written.wait()


class QueueEvent(md.Event):
    """Set when the launches before it are done; keeps the error of a failed one."""

    def __init__(self, stream: md.Stream) -> None:
        super().__init__(stream)
        self.done = threading.Event()
        self.error: Exception | None = None

    def wait(self) -> None:
        self.done.wait()
        if self.error is not None:
            raise self.error


class QueueStream(md.Stream):
    """One thread, which runs launches in their order while its gate is open."""

    def __init__(self, device: md.Device) -> None:
        super().__init__(device)
        self.gate = threading.Event()
        self.gate.set()
        self.waits = 0
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        event = QueueEvent(self)
        buffers = [a for a in arguments if isinstance(a, QueueBuffer)]
        before = [buffer.written for buffer in buffers if buffer.written]
        for buffer in buffers[-1:]:
            buffer.written = event

        def task() -> None:
            errors = (earlier.error for earlier in before)
            event.error = next(filter(None, errors), None) or self._run(
                kernel, arguments
            )
            self._failed = self._failed or event.error
            event.done.set()

        self._tasks.put(task)

    def _run(
        self, kernel: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> Exception | None:
        memory = [a.memory if isinstance(a, QueueBuffer) else a for a in arguments]
        try:
            self.gate.wait()
            kernel(*memory)
        except Exception as error:
            return self.device.failure(kernel, arguments, error)
        return None

    def record(self) -> QueueEvent:
        event = QueueEvent(self)
        self._tasks.put(event.done.set)
        return event

    def wait(self, event: md.Event) -> None:
        self._tasks.put(event.wait)

    def synchronize(self) -> None:
        """Wait for all; the first error since the last time is raised once."""
        self.waits += 1
        self.record().wait()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def close(self) -> None:
        self.gate.set()
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception as error:  # of an event of another device
                self._failed = self._failed or error


class QueueDevice(md.Device):
    """See the module."""

    name = "queue"

    def __init__(self) -> None:
        self.streams = [QueueStream(self)]

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> QueueBuffer:
        memory = np.empty(shape, storage)
        memory.view(np.uint8).fill(0xA5) if memory.ndim else memory.fill(0)
        return QueueBuffer(memory)

    def from_host(self, array: Any) -> QueueBuffer:
        return QueueBuffer(np.array(array, order="C"))

    def to_host(self, buffer: QueueBuffer) -> Any:
        buffer.wait()
        return buffer.memory.copy()

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        (self.current_stream() or self.streams[0]).launch(kernel, *arguments)

    def synchronize(self) -> None:
        for stream in self.streams:
            stream.record().wait()
        for stream in self.streams:
            stream.synchronize()

    def stream(self) -> QueueStream:
        self.streams.append(QueueStream(self))
        return self.streams[-1]

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
