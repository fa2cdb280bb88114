"""Neighbouring calls of a device, joined into launches of fused loops.

    calls     mul(%0, 2), add(%2, %1), relu(%3)       three launches
    joined    one launch, of a text that the device's renderer made

The methods of the calls run on buffers that do not exist yet, and their launches are
recorded. So an operation needs no code to be joined. A call that looks at elements, or
launches in a way of its own, cannot be recorded, and stays a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from mdtensor.device import Device
from mdtensor.errors import MdtensorError
from mdtensor.graph.calls import Call, Output
from mdtensor.graph.replay import Source
from mdtensor.rendered.launch_plan import LaunchPlan
from mdtensor.rendered.recording import (
    NoViewError,
    Planned,
    Recorded,
    UnknownValueError,
    around,
    recording,
)
from mdtensor.tensor import Tensor


class Launched:
    """Calls of a trace that are fewer launches than calls.

    Args:
        plan: the launches.
        calls: the calls that they stand for.
        reads: what they take, in order: results of other calls.
        results: a tensor around a planned buffer for each call whose result leaves.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        calls: Sequence[Call],
        reads: Sequence[Output],
        results: dict[int, Any],
    ) -> None:
        self._plan, self.calls, self.reads = plan, tuple(calls), tuple(reads)
        self._results = results

    #: Products are among the launches.
    product: ClassVar[None] = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Return what the launches take."""
        return self.reads

    @property
    def writes(self) -> tuple[int, ...]:
        """Return the numbers of the calls whose results leave."""
        return tuple(self._results)

    @property
    def runs(self) -> str:
        """Return how the calls run, for `explain`."""
        count = len(self._plan.kernels)
        return "one launch" if count == 1 else f"{count} launches"

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the name of the kernel of each launch."""
        return tuple(kernel.__name__ for kernel in self._plan.kernels)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the text of each kernel."""
        return tuple(kernel.text for kernel in self._plan.kernels)

    def generate(self) -> None:
        """Do nothing: the texts are generated already."""

    def line(self, source: Source, given: Sequence[str]) -> str:
        """Return no text: a call is one of this object."""
        return ""

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """Return the results, in the order of `writes`."""
        try:
            made = self._plan.run([x.buffer for x in tensors])
        except NoViewError:
            return self._run_calls(tensors)
        pairs = zip(self._results.values(), made, strict=True)
        return tuple(around(like, buffer) for like, buffer in pairs)

    def _run_calls(self, tensors: Any) -> tuple[Any, ...]:
        """Run the calls one by one, for arguments with other strides."""
        pairs = zip(self.reads, tensors, strict=True)
        known = {(x.call.number, x.index): tensor for x, tensor in pairs}

        def value(output: Output) -> Any:
            return known[output.call.number, output.index]

        for call in self.calls:
            (known[call.number, 0],) = call.run(value)
        return tuple(known[number, 0] for number in self.writes)


def launched(
    calls: Sequence[Call], device: Device, needed: set[int]
) -> list[Call | Launched]:
    """Return the calls in order, with neighbours joined into launches.

    Args:
        calls: calls on one device.
        needed: the numbers of the calls whose results others read.
    """
    found: list[Call | Launched] = []
    run = _Run(device)
    for at, call in enumerate(calls):
        if run.take(call):
            continue
        found += [*run.items(needed | _read_by(calls[at:])), call]
        run = _Run(device)
    return [*found, *run.items(needed)]


def _read_by(calls: Iterable[Call]) -> set[int]:
    return {source.call.number for call in calls for source in call.sources}


class _Run:
    """Calls whose launches were recorded, without another call in between."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._calls: list[Call] = []
        self._records: list[Recorded] = []
        self._tensors: dict[tuple[int, int], Any] = {}
        self._reads: list[Output] = []

    def take(self, call: Call) -> bool:
        """Record the launches of a call; return whether that is possible."""
        count = len(self._reads)
        try:
            with recording() as records:
                (made,) = call.run(self._planned)
                _require_plan(made, call)
        except (UnknownValueError, MdtensorError):
            # An error of the call is raised when it runs.
            for output in self._reads[count:]:
                del self._tensors[output.call.number, output.index]
            del self._reads[count:]
            return False
        self._tensors[call.number, 0] = made
        self._calls.append(call)
        self._records += records
        return True

    def _planned(self, output: Output) -> Any:
        """Return the tensor of a result of another call, around a planned buffer."""
        if output.result is not None:
            return output.result
        key = output.call.number, output.index
        if key not in self._tensors:
            spec = output.spec
            if spec.type.device is not self._device or spec.dtype.bits < 8:
                raise UnknownValueError("its buffer has another shape or place")
            number = len(self._reads)
            buffer = Planned.of(number, spec.shape, spec.dtype.storage)
            self._tensors[key] = spec.type.of_spec(buffer, spec)
            self._reads.append(output)
        return self._tensors[key]

    def items(self, needed: set[int]) -> list[Call | Launched]:
        """Return the calls, or what stands for them."""
        results = {
            call.number: self._tensors[call.number, 0]
            for call in self._calls
            if call.number in needed
        }
        if not self._records or not results:
            return [*self._calls]
        buffers = [x.buffer for x in results.values()]
        try:
            plan = LaunchPlan(self._device, self._records, buffers)
        except (UnknownValueError, MdtensorError):
            return [*self._calls]
        is_fewer = len(plan.kernels) < len(self._records)
        if not is_fewer and len(self._calls) < 2:
            return [*self._calls]
        return [Launched(plan, self._calls, self._reads, results)]


def _require_plan(made: Any, call: Call) -> None:
    """Raise if a result has no planned buffer, or another type than was traced.

    Raises:
        UnknownValueError: so it is.
    """
    is_planned = isinstance(made, Tensor) and isinstance(made.buffer, Planned)
    if not is_planned or type(made) is not call.specs[0].type:
        raise UnknownValueError("the result has a buffer already")
    if made.buffer.shape != call.specs[0].shape:
        raise UnknownValueError("the buffer has another shape")
