"""Launches of a function as one graph, which a later call replays.

    fast = md.cuda.capture(model, x)     # runs model three times: the last is captured
    y = fast(x2)                         # one launch for the whole model

A graph uses the same memory in every replay, so it has a pool of its own, holds all
memory that its launches use, and returns copies of its results.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from mdtensor.errors import DeviceError, OptionError, ShapeError, type_and_shape
from mdtensor.ledger import launched, no_sync, no_transfer
from mdtensor.rendered.order import QueueStream, require_order
from mdtensor.tensor import Tensor


class Captured:
    """A captured function; `Device.capture` makes it.

    Args:
        device: where its launches run.
        function: what is captured.
        examples: tensors of the device.
    """

    def __init__(
        self, device: Any, function: Callable[..., Any], examples: Sequence[Tensor]
    ) -> None:
        self.device, self.function = device, function
        self.name = getattr(function, "__name__", type(function).__name__)
        _require_here(device, examples)
        # The first call compiles texts, and copies constants to the device. At the
        # second one a compiled function joins its calls, and compiles their texts.
        for _ in range(2):
            function(*examples)
        stream = device.capturing_stream()
        with device.own_memory(), stream:
            self._inputs = [copy.copy(x) for x in examples]
            # Nothing outside of the graph may be pending: it could not be waited for.
            device.synchronize()
            stream.finish()
            self._graph, self._result = self._capture(stream)

    def _capture(self, stream: QueueStream) -> tuple[Any, Any]:
        """Return the graph of a call, and the result of that call."""
        held: dict[Any, bool] = {}
        stream.captured = held
        self.device.begin_capture(stream)
        try:
            with no_sync(), no_transfer():
                result = self.function(*self._inputs)
        except DeviceError as error:
            problem = f"{self.name} cannot be captured: {error.problem}"
            fix = "Move what waits or copies out of the function"
            raise DeviceError(problem, fix) from error
        finally:
            # A capture that has failed ends with an error of its own.
            graph = self.device.end_capture(stream)
            self._held, stream.captured = held, None
            # Nothing has run.
            stream.done = stream.issued
        return graph, result

    def __call__(self, *inputs: Tensor) -> Any:
        """Replay the launches with these inputs, in the stream of the caller.

        Raises:
            ShapeError: the inputs differ from the examples in number, type or shape.
            DeviceError: another stream uses the graph, and no event orders both.
        """
        self._require_alike(inputs)
        for x, own in zip(inputs, self._inputs, strict=True):
            self.device.copy_into(x.buffer, own.buffer)
        self._replay(self.device.stream_now())
        if isinstance(self._result, tuple):
            return tuple(map(copy.copy, self._result))
        return copy.copy(self._result)

    def _replay(self, stream: QueueStream) -> None:
        reads = [memory.uses for memory, writes in self._held.items() if not writes]
        targets = [memory.uses for memory, writes in self._held.items() if writes]
        require_order(stream, self.name, reads, targets)
        launched(self.device, self.name)
        self.device.replay(stream, self._graph, self.name)
        for one in reads:
            one.read(stream)
        for one in targets:
            one.written(stream)

    def _require_alike(self, inputs: Sequence[Tensor]) -> None:
        _require_here(self.device, inputs)
        if [*map(_kind, inputs)] != [*map(_kind, self._inputs)]:
            wanted = ", ".join(map(type_and_shape, self._inputs))
            found = ", ".join(map(type_and_shape, inputs))
            problem = f"{self.name} was captured for {wanted}, got {found}"
            raise ShapeError(problem, "Capture it again for these")


def _kind(x: Tensor) -> tuple[Any, ...]:
    """Return what must not change between calls: type, shape, and grid."""
    return type(x), x.shape, getattr(x, "qparams", None)


def _require_here(device: Any, inputs: Sequence[Tensor]) -> None:
    """Raise unless there are inputs, and all are tensors of the device."""
    for x in inputs:
        if not isinstance(x, Tensor) or x.device is not device:
            shown = type_and_shape(x) if isinstance(x, Tensor) else type(x).__name__
            raise OptionError(f"an input is {shown}, not on {device}", "Use x.to(...)")
    if not inputs:
        raise OptionError("capture needs an example of each input", "Pass tensors")
