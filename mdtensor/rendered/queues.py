"""What devices that run rendered loops have in common: checked, ordered launches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any

from mdtensor import ledger
from mdtensor.device import Device, Stream
from mdtensor.kernels import observe
from mdtensor.rendered.memory import Buffer
from mdtensor.rendered.order import QueueStream, Uses, require_order
from mdtensor.tensor import Tensor


# Kernels and captures are imported on use: every import of mdtensor imports this class,
# for the types of a GPU, and most processes launch nothing (decision 0091).
class RenderedDevice(Device):
    """A device with streams that runs kernels of CUDA text."""

    #: Whether products of codes can go by tiles that tensor cores multiply.
    has_tensor_cores = False
    #: Whether a library computes the products of floats.
    multiplies_floats = False

    def __init__(self) -> None:
        self._lock = RLock()

    @abstractmethod
    def issue(self, stream: Any, kernel: Any, launch: Any) -> None:
        """Put a checked launch into a stream, and count it there."""

    @abstractmethod
    def main_stream(self) -> QueueStream:
        """Return the stream outside of all `with stream:` blocks."""

    def stream_now(self) -> Any:
        """Return the stream that launches of the caller go to."""
        current: Stream | None = self.current_stream()
        return current if isinstance(current, QueueStream) else self.main_stream()

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        self.enqueue(self.stream_now(), kernel, arguments)

    def copy(self, buffer: Any) -> Any:
        made = self.alloc(buffer.shape, buffer.dtype)
        self.copy_into(buffer, made)
        return made

    def copy_into(self, buffer: Any, target: Any) -> None:
        """Launch a copy of a buffer into another one of its type."""
        from mdtensor.rendered.binding import copy_kernel

        self.launch(copy_kernel(buffer.dtype.name), buffer, target)

    def capture(self, function: Callable[..., Any], *examples: Tensor) -> Any:
        from mdtensor.rendered.capture import Captured

        return Captured(self, function, examples)

    @abstractmethod
    def capturing_stream(self) -> Any:
        """Return a new stream, which nobody else uses."""

    @abstractmethod
    def own_memory(self) -> AbstractContextManager[None]:
        """Let the memory of a block come from a pool of its own."""

    @abstractmethod
    def begin_capture(self, stream: Any) -> None:
        """Keep the launches of a stream from now on, instead of running them."""

    @abstractmethod
    def end_capture(self, stream: Any) -> Any:
        """Return the launches that were kept, as a graph."""

    @abstractmethod
    def replay(self, stream: Any, graph: Any, name: str) -> None:
        """Put all launches of a graph into a stream, and count them as one."""

    def enqueue(self, stream: QueueStream, kernel: Any, given: tuple[Any, ...]) -> None:
        """Check a launch and put it into a stream.

        Raises:
            DeviceError: the kernel does not take the arguments, or another stream uses
                a buffer of them at the same time.
        """
        from mdtensor.rendered.binding import bind

        launch = bind(self, kernel, given)
        if observe.ACTIVE:
            language = "CUDA text" if launch.product is None else "cuBLAS"
            observe.ran(kernel.__name__, language)
        ledger.launched(self, kernel.__name__)
        with self._lock:
            reads, targets = _uses(kernel, launch)
            require_order(stream, kernel.name, reads, targets)
            if stream.captured is not None:
                _hold(stream.captured, launch)
            self.issue(stream, kernel, launch)
            for uses in reads:
                uses.read(stream)
            for uses in targets:
                uses.written(stream)


def _uses(kernel: Any, launch: Any) -> tuple[list[Uses], list[Uses]]:
    """Return the uses of the memory that a launch reads, and of what it writes."""
    *inputs, out = launch.operands
    reads, targets = list[Uses](), [out.memory.uses]
    for declared, x in zip(kernel.inputs, inputs, strict=True):
        if isinstance(x, Buffer):
            (targets if declared.is_counter else reads).append(x.memory.uses)
    return reads, targets


# A kernel with a counter is never captured, since its count is read at once.
def _hold(captured: dict[Any, bool], launch: Any) -> None:
    """Note the memory that a captured launch reads, and what it writes."""
    operands = [x for x in launch.operands if isinstance(x, Buffer)]
    for x in operands:
        captured.setdefault(x.memory, False)
    captured[operands[-1].memory] = True
