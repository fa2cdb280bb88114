"""What devices that run rendered loops have in common: checked, ordered launches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from threading import RLock
from typing import Any

from mdtensor import ledger
from mdtensor.device import Device, Stream
from mdtensor.errors import DeviceError, shown
from mdtensor.kernels import observe
from mdtensor.kernels.loops.ir import Input, Loop, load
from mdtensor.kernels.loops.kernel import Kernel, Launch
from mdtensor.rendered.memory import Buffer
from mdtensor.rendered.order import QueueStream, require_order


class RenderedDevice(Device):
    """A device with streams that runs kernels of CUDA text."""

    def __init__(self) -> None:
        self._lock = RLock()

    @abstractmethod
    def issue(self, stream: Any, kernel: Kernel, launch: Launch) -> None:
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
        self.launch(copy_kernel(buffer.dtype.name), buffer, made)
        return made

    def enqueue(self, stream: QueueStream, kernel: Any, given: tuple[Any, ...]) -> None:
        """Check a launch and put it into a stream.

        Raises:
            DeviceError: the kernel does not take the arguments, or another stream uses
                a buffer of them at the same time.
        """
        launch = self._bind(kernel, given)
        if observe.ACTIVE:
            observe.ran(kernel.__name__, "CUDA text")
        ledger.launched(self, kernel.__name__)
        with self._lock:
            *inputs, out = launch.operands
            reads = [x.memory.uses for x in inputs if isinstance(x, Buffer)]
            require_order(stream, kernel.name, reads, out.memory.uses)
            self.issue(stream, kernel, launch)
            for uses in reads:
                uses.read(stream)
            out.memory.uses.written(stream)

    def _bind(self, kernel: Any, given: tuple[Any, ...]) -> Launch:
        if not isinstance(kernel, Kernel):
            problem = f"{self} launches kernels of CUDA text, not {shown(kernel)}"
            raise DeviceError(problem, "Use mdtensor.kernels.loops.cuda.render(loop)")
        try:
            return kernel.bind(given)
        except (TypeError, ValueError) as error:
            problem = str(error).removesuffix(".")
            raise DeviceError(f"a launch on {self} does not fit: {problem}") from error


def copy_kernel(type: str) -> Kernel:
    """Return the kernel that copies elements of a type."""
    # Here, because it loads OpenSSL, for a hash.
    from mdtensor.kernels.loops.cuda import render

    return render(Loop((Input(type),), load(0, type)))
