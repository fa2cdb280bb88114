"""Streams and events of CUDA, in the order that `mdtensor.rendered.order` checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from mdtensor import ledger
from mdtensor.device import Event
from mdtensor.errors import DeviceError, MdtensorError
from mdtensor.rendered.order import QueueEvent, QueueStream


@contextmanager
def reporting(what: str) -> Iterator[None]:
    """Turn errors of CuPy and of the driver into ours."""
    try:
        yield
    except MdtensorError:
        raise
    except Exception as error:
        raise failure(what, error) from error


def failure(what: str, error: Exception) -> DeviceError:
    """Return our error for one of CuPy or of the driver."""
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    problem = f"cuda:0: {what} fails with {type(error).__name__}: {reason}"
    return DeviceError(problem)


class CudaEvent(QueueEvent):
    """An event of CUDA, in a stream.

    Example:
        >>> import mdtensor as md
        >>> done = md.device("cuda").stream().record()  # doctest: +SKIP
        >>> done.wait(), done.is_done  # doctest: +SKIP
        (None, True)
    """

    stream: CudaStream

    def __init__(self, stream: CudaStream) -> None:
        super().__init__(stream)
        self.raw = stream.raw.record()

    def wait(self) -> None:
        ledger.waited(self.stream.device, "event")
        with reporting("waiting for an event"):
            self.raw.synchronize()
        self.stream.done = max(self.stream.done, self.number)

    @property
    def is_done(self) -> bool:
        with reporting("asking for an event"):
            found = bool(self.raw.done)
        if found:
            self.stream.done = max(self.stream.done, self.number)
        return found

    def _milliseconds_since(self, earlier: Any) -> float:
        with reporting("reading the time of events"):
            return float(self.stream.device.gpu.milliseconds(earlier.raw, self.raw))


class CudaStream(QueueStream):
    """A stream of CUDA; inside its `with` block it is CuPy's current stream, too.

    Args:
        device: the device.
        raw: CuPy's stream.
    """

    def __init__(self, device: Any, raw: Any) -> None:
        super().__init__(device)
        self.raw = raw
        self.owner: Any = None
        #: Whether others may launch there, whom nobody counts.
        self.is_shared = False

    def record(self) -> CudaEvent:
        return CudaEvent(self)

    def wait(self, event: Event) -> None:
        if not isinstance(event, CudaEvent):
            super().wait(event)
            return
        self.learn(event)
        self.raw.wait_event(event.raw)

    def synchronize(self) -> None:
        ledger.waited(self.device, "stream")
        self.finish()

    def finish(self) -> None:
        """Wait for the launches so far."""
        number = self.issued
        with reporting("waiting for a stream"):
            self.raw.synchronize()
        self.done = max(self.done, number)

    def follow(self, other: CudaStream) -> None:
        """Let the GPU run later launches after those of another stream."""
        # A capture begins when all is done, and a replay is ordered when it is made.
        is_captured = self.captured is not None or other.captured is not None
        if not is_captured and (other.is_shared or other.done < other.issued):
            self.raw.wait_event(other.raw.record())

    def __enter__(self) -> Self:
        self.raw.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.raw.__exit__(*error)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return version and handle of the stream, for other libraries."""
        return 0, int(self.raw.ptr)
