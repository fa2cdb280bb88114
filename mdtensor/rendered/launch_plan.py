"""Fused launches for calls of the same shapes: planned once, run with new buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mdtensor.device import Device
from mdtensor.kernels.loops.kernel import Kernel
from mdtensor.rendered.fusion import Fused, fuse, walked
from mdtensor.rendered.launches import render
from mdtensor.rendered.recording import (
    Blank,
    NoViewError,
    Planned,
    Recorded,
    UnknownValueError,
)


@dataclass(frozen=True)
class _Step:
    """A launch, and the launches whose results no later one reads."""

    kernel: Kernel
    fused: Fused
    dead: tuple[Recorded, ...]


class LaunchPlan:
    """The fewest launches that write some results of recorded ones.

    Args:
        device: where they run.
        records: the launches in their order.
        results: the buffers that leave.

    Raises:
        NoMethodError: the language of the device lacks something.
        UnknownValueError: nothing writes a result.
    """

    def __init__(
        self, device: Device, records: Sequence[Recorded], results: Sequence[Planned]
    ) -> None:
        self._device, self._results = device, tuple(results)
        if any(isinstance(x.source, Blank) for x in results):
            raise UnknownValueError("nothing writes a result")
        leaving = [x.source for x in results if isinstance(x.source, Recorded)]
        steps: list[_Step] = []
        needed = {id(one) for one in leaving}
        for one in reversed(fuse(records, leaving)):
            into = one.record.into
            read = (*one.operands, *(() if into is None else (into,)))
            sources = {id(x.source): x.source for x in read}
            last = [x for x in sources.values() if isinstance(x, Recorded)]
            dead = tuple(x for x in last if id(x) not in needed)
            needed |= {id(x) for x in last}
            steps.append(_Step(render(device, one.loop), one, dead))
        self._steps = steps[::-1]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Return the kernel of each launch."""
        return tuple(step.kernel for step in self._steps)

    def run(self, buffers: Sequence[Any]) -> list[Any]:
        """Launch all, and return the buffers of the results.

        Args: buffers: the arguments, by number.

        Raises:
            NoViewError: an argument has strides that do not allow a planned view.
        """
        made: dict[int, Any] = {}
        find = partial(_found, buffers, made)
        for step in self._steps:
            record = step.fused.record
            operands = [find(x.source, x.path) for x in step.fused.operands]
            whole, out = self._target(record, made)
            axes = (step.fused.axes,) if step.kernel.takes_axes else ()
            self._device.launch(step.kernel, *operands, out, *axes)
            made[id(record)] = whole
            for one in step.dead:
                del made[id(one)]
        return [find(x.source, x.path) for x in self._results]

    def _target(self, record: Recorded, made: dict[int, Any]) -> tuple[Any, Any]:
        """Return the buffer of the result of a launch, and what of it is written."""
        into = record.into
        if into is None:
            out = self._device.alloc(record.shape, record.result.dtype)
            return out, out
        source: Any = into.source
        if isinstance(source, Blank):
            whole = self._device.alloc(source.shape, source.dtype)
        else:
            whole = made[id(source)]
        return whole, whole.view(partial(walked, into.path)) if into.path else whole


def _found(buffers: Sequence[Any], made: dict[int, Any], source: Any, path: Any) -> Any:
    """Return an operand: an argument, what a launch wrote, or a constant.

    Raises:
        NoViewError: its strides do not allow the view.
    """
    if isinstance(source, int):
        found = buffers[source]
    elif isinstance(source, Recorded):
        found = made[id(source)]
    else:
        found = source
    if path:
        found = found.view(partial(walked, path))
    if found is None:
        raise NoViewError
    return found
