"""Compiled functions that choose a device for each kind of call.

The trace of a call says what it needs: bytes, multiply-accumulates, and methods for its
types. It is made again on the device that `placement.py` chooses. Arguments are copied
there, and results back to where the arguments were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced
from math import prod
from typing import Any

from mdtensor.device import Device, cpu, devices
from mdtensor.errors import MdtensorError
from mdtensor.graph.calls import Call, Output, replace
from mdtensor.graph.placement import Choice, Work, choices, fastest
from mdtensor.graph.planned import PlannedCalls
from mdtensor.graph.products import PRODUCTS
from mdtensor.graph.trace import Trace, placeholder, traced
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor


class Placed:
    """A trace on the device that is expected to be the fastest.

    Args:
        trace: the calls where the arguments are.
        name: of the function, for errors.

    Raises:
        AllocationError: no device has the memory.
    """

    def __init__(self, trace: Trace, name: str) -> None:
        self._source = trace
        self._made = {self.home(trace): trace}
        work = work_of(trace)
        #: What each device means for the trace, the fastest one first.
        self.choices: list[Choice] = choices(work, devices(), self._lacks)
        self.device = fastest(work, self.choices, name)
        self.trace = self._made[self.device]
        self._made.clear()  # the others hold copies of constants

    @staticmethod
    def home(trace: Trace) -> Device:
        """Return the device of the arguments."""
        return trace.inputs[0].type.device if trace.inputs else cpu

    def _lacks(self, place: Device) -> str:
        """Return why a device cannot make the calls; nothing if it can."""
        if place not in self._made:
            try:
                self._made[place] = moved(self._source, place)
            except MdtensorError as error:
                return error.problem
        return ""

    @property
    def is_current(self) -> bool:
        """Return whether the function would make these calls again."""
        return self._source.is_current and self.trace.is_current

    def run(self, tensors: Sequence[Any]) -> Any:
        """Return the result for tensors of the trace's types, on their device."""
        home = self.home(self._source)
        if self.device is home:
            return self.trace.run(tensors)
        found = self.trace.run([x.to(self.device) for x in tensors])
        return replace(found, Tensor, lambda x: x.to(home))

    def items(self) -> list[Any]:
        """Return what runs."""
        return self.trace.items()

    def plan(self) -> tuple[PlannedCalls, ...]:
        """Return what runs, as `Trace.plan` does."""
        return self.trace.plan()

    def explain(self) -> str:
        """Return a line for each device, the chosen one first, and what runs."""
        return "\n".join([*map(str, self.choices), self.trace.explain()])


def work_of(trace: Trace) -> Work:
    """Return what a trace asks of a device."""
    inputs = sum(map(size_of, trace.inputs))
    results: list[int] = []
    replace(trace.result, Output, lambda x: results.append(size_of(x.spec)))
    steps, sizes, alive, most = [], dict[int, int](), inputs, inputs
    for step in trace.steps:
        call = step.call
        written = sizes[call.number] = sum(map(size_of, call.specs))
        held = sum(x.nbytes for x in call.tensors())
        read = sum(size_of(source.spec) for source in call.sources) + held
        given = [_shape(x) for x in call.arguments[:2]]
        macs = macs_of(call.operation, given, call.specs[0].shape)
        steps.append((macs, read + written))
        alive += written + held
        most = max(most, alive)
        alive -= sum(sizes.get(number, 0) for number in step.dead)
    return Work(steps, most, inputs + sum(results))


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(getattr(x, "shape", ()))


def size_of(spec: TensorSpec) -> int:
    """Return the bytes of the elements of a tensor."""
    return -(-prod(map(int, spec.shape)) * spec.dtype.bits // 8)


def macs_of(
    operation: Any, given: Sequence[Sequence[int]], result: Sequence[int]
) -> int:
    """Return the multiply-accumulates of a product; 0 of other calls.

    Args:
        operation: of the call.
        given: the shapes of its first two arguments.
        result: the shape of the result.
    """
    if operation not in PRODUCTS:
        return 0
    x, w = (tuple(map(int, shape)) for shape in given)
    # Each result sums over an axis of the input, or over a filter of the weights.
    is_filter = len(w) > 2 and len(x) == len(w)
    return prod(map(int, result)) * (prod(w[1:]) if is_filter else x[-1])


def moved(trace: Trace, place: Device) -> Trace:
    """Return a trace of the same calls on another device, with copied constants.

    Raises:
        MdtensorError: the device lacks a type or a method.
    """
    specs = [replaced(spec, type=spec.type.with_device(place)) for spec in trace.inputs]
    calls = [Call(None, (), {}, (spec,)) for spec in specs]
    copies: dict[int, Any] = {}

    def there(x: Any) -> Any:
        if id(x) not in copies:
            copies[id(x)] = x.to(place)
        return copies[id(x)]

    def function() -> Any:
        pairs = zip(trace.placeholders, calls, strict=True)
        known: dict[int, Any] = {old.number: (placeholder(new),) for old, new in pairs}

        def value(x: Any) -> Any:
            if not isinstance(x, Output):
                return there(x)
            made = known.get(x.call.number)
            return there(x.result) if made is None else made[x.index]

        for step in trace.steps:
            known[step.call.number] = step.call.run(value, (Output, Tensor))
        return replace(trace.result, (Output, Tensor), value)

    return traced(calls, function)
