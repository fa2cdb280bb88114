"""The emulated CUDA device: the kernel text of a GPU, compiled by g++ for the CPU.

It has memory of its own, and launches run when somebody waits for them: `synchronize`,
an event, or a read. It finds what a GPU would not tell:

- memory that nothing has written is NaN, or 255 in each byte;
- a write outside of a buffer damages a red zone, and the launch that did it is named;
- arguments are checked against the declaration of the kernel;
- a launch that uses a buffer of another stream without an event in between raises;
- threads run in ascending, descending or random order: `emucuda.order`.

It says nothing about the speed of a GPU. `md.device("emucuda")` imports it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import prod
from threading import RLock
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mdtensor import ledger
from mdtensor.device import Event, cpu, register_device
from mdtensor.errors import DeviceError, MdtensorError, describe
from mdtensor.kernels.emulated import launcher
from mdtensor.kernels.emulated.compiler import (
    NO_COMPILER,
    EmulationError,
    compiler,
    prepare,
)
from mdtensor.kernels.loops.kernel import Kernel, Launch
from mdtensor.rendered import register
from mdtensor.rendered.memory import Buffer, Memory
from mdtensor.rendered.order import QueueEvent, QueueStream
from mdtensor.rendered.queues import RenderedDevice
from mdtensor.siblings import siblings
from mdtensor.types import HOST

#: Bytes before and behind each buffer, and what they hold.
ZONE, GUARD, POISON = 64, 0xA5, 0xFF
#: Bytes that the pool keeps at most.
MOST_POOLED = 1 << 28


class Pool:
    """Blocks of freed buffers, for later ones of the same size; and bytes in use.

    Args: counts: the pool that counts the bytes; by default this one.
    """

    def __init__(self, counts: Pool | None = None) -> None:
        self._counts = self if counts is None else counts
        self.blocks: dict[int, list[npt.NDArray[np.uint8]]] = {}
        self.used = self.pooled = self.peak = 0
        self._lock = RLock()

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        """Return a block of `size` bytes between red zones, poisoned."""
        with self._lock:
            free = self.blocks.get(size)
            if free:
                block, self.pooled = free.pop(), self.pooled - size
            else:
                block = np.empty(size + 2 * ZONE, np.uint8)
        self._counts.count(size)
        block.fill(GUARD)
        block[ZONE : ZONE + size] = POISON
        return block

    def give(self, block: npt.NDArray[np.uint8]) -> None:
        """Keep the block of a buffer that nothing holds any more."""
        size = block.size - 2 * ZONE
        # A stale read finds poison, not the numbers that were there.
        block[ZONE : ZONE + size] = POISON
        self._counts.count(-size)
        with self._lock:
            if self.pooled + size <= MOST_POOLED:
                self.pooled += size
                self.blocks.setdefault(size, []).append(block)

    def count(self, size: int) -> None:
        """Count bytes of a buffer; negative ones if nothing holds it any more."""
        with self._lock:
            self.used += size
            self.peak = max(self.peak, self.used)


class EmuMemory(Memory):
    """Bytes of one allocation between two red zones."""

    def __init__(self, size: int, pool: Pool) -> None:
        self.bytes = pool.take(size)
        super().__init__(self.bytes, int(self.bytes.ctypes.data))
        # Not at the end of the process, when nothing takes a block any more.
        weakref.finalize(self, pool.give, self.bytes).atexit = False

    @property
    def is_damaged(self) -> bool:
        """Return whether something was written outside of the buffer."""
        zones = self.bytes[:ZONE], self.bytes[-ZONE:]
        return any(bool((zone != GUARD).any()) for zone in zones)


class EmuBuffer(Buffer):
    """Elements in the memory of the device; views share it."""

    memory: EmuMemory

    def raw(self) -> npt.NDArray[Any]:
        """Return the present contents without waiting, as no GPU lets you."""
        return self._elements.copy()


class EmuEvent(QueueEvent):
    """An event of the emulated device; its time is that of the host."""

    stream: EmuStream

    def __init__(self, stream: EmuStream) -> None:
        super().__init__(stream)
        stream.events.add(self)
        stream.reach()

    @property
    def is_done(self) -> bool:
        # Nothing runs meanwhile, as on a GPU: so each question lets one launch run, and
        # a loop that asks comes to an end.
        if self.stream.done < self.number:
            emucuda.wait_for(self.stream, self.stream.done + 1)
        return bool(self.stream.done >= self.number)

    def wait(self) -> None:
        ledger.waited(emucuda, "event")
        self.reach()

    def reach(self) -> None:
        """Run the launches before the event."""
        emucuda.wait_for(self.stream, self.number)


class Task(NamedTuple):
    """A launch of a kernel, or a wait for another stream."""

    run: Callable[[], None]
    kernel: Kernel | None = None


class EmuGraph(NamedTuple):
    """Launches that were captured, in their order."""

    launches: list[tuple[Kernel, Launch]]


class EmuStream(QueueStream):
    """A queue of launches, which run when somebody waits for them."""

    def __init__(self, device: EmuCuda) -> None:
        super().__init__(device)
        self.tasks: deque[Task] = deque()
        #: While launches are captured.
        self.graph: EmuGraph | None = None
        #: Events that it has not reached.
        self.events: weakref.WeakSet[EmuEvent] = weakref.WeakSet()

    def reach(self) -> None:
        """Note the time of the events whose launches have run."""
        for event in [one for one in self.events if one.number <= self.done]:
            event.reached = perf_counter_ns()
            self.events.discard(event)

    def record(self) -> EmuEvent:
        return EmuEvent(self)

    def wait(self, event: Event) -> None:
        if not isinstance(event, EmuEvent):
            super().wait(event)
            return
        self.learn(event)
        self.device.add_task(self, Task(event.reach))

    def synchronize(self) -> None:
        ledger.waited(self.device, "stream")
        self.device.wait_for(self, self.issued)


class EmuCuda(RenderedDevice):
    """See the module."""

    name = "emucuda"
    has_tensor_cores = True
    #: The order of threads: ascending, descending or random.
    order = "ascending"

    def __init__(self) -> None:
        super().__init__()
        self._main = EmuStream(self)
        self._pending: dict[Any, None] = {}
        self._pool = Pool()
        self._own_pool: ContextVar[Pool | None] = ContextVar("pool", default=None)
        #: What the device did itself, to compare a ledger with: launches that ran, and
        #: bytes that were copied in each direction.
        self.counts = {"launches": 0, ledger.TO_DEVICE: 0, ledger.TO_HOST: 0}

    @property
    def missing(self) -> str:
        return "" if compiler() else NO_COMPILER

    @property
    def free_bytes(self) -> int | None:
        # Its memory is the host's.
        return cpu.free_bytes

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> EmuBuffer:
        pool = self._own_pool.get() or self._pool
        memory = EmuMemory(prod(shape) * storage.itemsize, pool)
        return EmuBuffer(memory, np.ndarray(shape, storage, memory.bytes, ZONE))

    def from_host(self, array: npt.NDArray[Any]) -> EmuBuffer:
        made = self.alloc(array.shape, array.dtype)
        ledger.copied(self, ledger.TO_DEVICE, array.nbytes)
        made._elements[...] = array
        self.counts[ledger.TO_DEVICE] += made._elements.nbytes
        return made

    def to_host(self, buffer: EmuBuffer) -> npt.NDArray[Any]:
        ledger.waited(self, "read")
        ledger.copied(self, ledger.TO_HOST, buffer.size * buffer.dtype.itemsize)
        with self._lock:
            if buffer.memory.uses.writer is not None:
                self.wait_for(*buffer.memory.uses.writer)
            found = buffer.raw()
            self.counts[ledger.TO_HOST] += found.nbytes
            return found

    def memory_stats(self) -> ledger.MemoryStats:
        """Return the bytes in buffers, in the pool, and in buffers at most."""
        return ledger.MemoryStats(self._pool.used, self._pool.pooled, self._pool.peak)

    def synchronize(self) -> None:
        ledger.waited(self, "synchronize")
        with self._lock:
            errors = [self._drain(stream) for stream in list(self._pending)]
        for error in filter(None, errors):
            raise error

    def stream(self) -> EmuStream:
        return EmuStream(self)

    def main_stream(self) -> EmuStream:
        return self._main

    def issue(self, stream: EmuStream, kernel: Kernel, launch: Launch) -> None:
        if stream.graph is not None:
            stream.graph.launches.append((kernel, launch))
            stream.issued += 1
            return
        self.add_task(stream, Task(lambda: self._run(kernel, launch), kernel))

    def add_task(self, stream: EmuStream, task: Task) -> None:
        """Put a task at the end of a stream.

        Raises:
            DeviceError: the stream is captured, and the task is not a launch.
        """
        if stream.graph is not None:
            problem = "a stream that is captured cannot wait for an event"
            raise DeviceError(problem, "Record the event after the capture")
        with self._lock:
            stream.tasks.append(task)
            stream.issued += 1
            self._pending[stream] = None

    def wait_for(self, stream: Any, number: int) -> None:
        """Run a stream up to a number of tasks."""
        with self._lock:
            if stream.done < number:
                self._compile_pending()
            while stream.done < number:
                task = stream.tasks.popleft()
                stream.done += 1
                if not stream.tasks:
                    self._pending.pop(stream, None)
                try:
                    task.run()
                finally:
                    stream.reach()

    def _compile_pending(self) -> None:
        """Compile all that waits at once: one run of g++ for many kernels."""
        waiting = (task.kernel for s in self._pending for task in s.tasks)
        # A text that does not compile is the failure of its own launch.
        with suppress(EmulationError):
            prepare(kernel for kernel in waiting if kernel is not None)

    def _drain(self, stream: EmuStream) -> MdtensorError | None:
        """Run all of a stream, and return the first error."""
        first = None
        while stream.tasks:
            try:
                self.wait_for(stream, stream.issued)
            except MdtensorError as error:
                first = first or error
        return first

    def capturing_stream(self) -> EmuStream:
        return EmuStream(self)

    @contextmanager
    def own_memory(self) -> Iterator[None]:
        token = self._own_pool.set(Pool(self._pool))
        try:
            yield
        finally:
            self._own_pool.reset(token)

    def begin_capture(self, stream: EmuStream) -> None:
        stream.graph = EmuGraph([])

    def end_capture(self, stream: EmuStream) -> EmuGraph:
        graph, stream.graph = stream.graph, None
        assert graph is not None
        return graph

    def replay(self, stream: EmuStream, graph: EmuGraph, name: str) -> None:
        self.add_task(stream, Task(lambda: self._run_all(graph)))

    def _run_all(self, graph: EmuGraph) -> None:
        self.counts["launches"] += 1
        for kernel, launch in graph.launches:
            self._run_one(kernel, launch)

    def _run(self, kernel: Kernel, launch: Launch) -> None:
        self.counts["launches"] += 1
        self._run_one(kernel, launch)

    def _run_one(self, kernel: Kernel, launch: Launch) -> None:
        """Run a launch, and check that it wrote only its own buffers."""
        places = [getattr(x, "address", 0) for x in launch.operands]
        try:
            launcher.run(kernel, launch, places, self.order, self.counts["launches"])
        except EmulationError as error:
            raise self.failure(kernel, launch.operands, error) from error
        for at, x in enumerate(launch.operands):
            if isinstance(x, EmuBuffer) and x.memory.is_damaged:
                _repair(x.memory)
                problem = f"on emucuda a launch wrote outside of argument {at}"
                call = describe(kernel.name, *launch.operands)
                raise DeviceError(problem, "Check the places that it writes", call)


def _repair(memory: EmuMemory) -> None:
    """Restore the red zones, so that the next launch is not blamed."""
    memory.bytes[:ZONE] = memory.bytes[-ZONE:] = GUARD


emucuda: Final = EmuCuda()
register_device(emucuda)
globals().update(siblings(emucuda, "EmuCuda", HOST, __name__))
register(emucuda)
