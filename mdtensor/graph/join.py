"""Neighbouring calls of a trace, joined into compiled calls where no byte changes.

    calls       quantize(x), conv2d(%1, w), relu(%2), dequantize(%3), exp(%4)
    joined      [quantize, conv2d, relu, dequantize] in one compiled call, then exp

Calls on a device become launches of fused loops, see `launched.py`.

Of the compiled steps, only those are used that have the bytes of the calls that they
stand for, see `faithful.py`. Elementwise calls of floats without a convolution or codes
become loops of their own, see `chains.py`, also behind a product that runs as its call
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Any, ClassVar

from mdtensor.device import Device, cpu
from mdtensor.dtypes import float32
from mdtensor.generics.conv import conv2d
from mdtensor.graph.bound import Compiled
from mdtensor.graph.calls import Call, Output, spec_of, visit
from mdtensor.graph.chained import Chained
from mdtensor.graph.chains import chained
from mdtensor.graph.faithful import (
    has_codes,
    require_bytes,
    require_codes,
    saves_packing,
)
from mdtensor.graph.graph import Graph, Node
from mdtensor.graph.launched import Launched, launched
from mdtensor.graph.layouts import VIEWS
from mdtensor.graph.links import ROUNDINGS
from mdtensor.graph.lower import lower
from mdtensor.graph.planned import PlannedCalls
from mdtensor.graph.replay import Source
from mdtensor.graph.storage import storage_of
from mdtensor.rendered import is_rendered
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

#: A compiled call of fewer steps would not save the time of its own call, unless it has
#: packed weights.
FEWEST = 2


@dataclass(frozen=True)
class Joined:
    """Calls of a trace that run as one compiled call.

    Args:
        part: the compiled call.
        calls: the calls that it stands for.
        reads: what it takes, in order: results of other calls, and constants.
    """

    part: Compiled
    calls: tuple[Call, ...]
    reads: tuple[Any, ...]

    @property
    def writes(self) -> tuple[int, ...]:
        """Return the numbers of the calls whose results leave the compiled call."""
        return tuple(int(name) for name in self.part.writes)

    @property
    def kernels(self) -> list[str]:
        """Return the kernel and ISA of each call that does its own work."""
        return self.part.kernels

    #: Steps are not generated, and products are among them.
    texts: ClassVar[tuple[str, ...]] = ()
    runs: ClassVar[str] = "one compiled call"
    product: ClassVar[None] = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Return what the compiled call takes."""
        return self.reads

    def generate(self) -> None:
        """Do nothing: steps are compiled already."""

    def line(self, source: Source, given: Sequence[str]) -> str:
        """Return no text: a call is one of this object."""
        return ""

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """Return the results, in the order of `writes`."""
        values = dict(zip(self.part.reads, tensors, strict=True))
        self.part.run(values)
        return tuple(values[name] for name in self.part.writes)


Item = Call | Joined | Chained | Launched


def plan(items: Iterable[Item]) -> tuple[PlannedCalls, ...]:
    """Return what runs, in order."""
    found = []
    for item in items:
        if isinstance(item, Call):
            place = item.select().method.location
            found.append(PlannedCalls((item.name,), "call", place, item.specs))
            continue
        names = tuple(call.name for call in item.calls)
        code, results = ", ".join(item.kernels), item.calls[-1].specs
        found.append(PlannedCalls(names, item.runs, code, results))
    return tuple(found)


def explain(items: Iterable[Item]) -> str:
    """Return a line for each item: what it computes, and the code that runs it."""
    rows = [(", ".join(line.calls), line.runs, line.code) for line in plan(items)]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    return "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows)


# Steps with other bytes than their calls stay calls (decision 0055). Chains of exact
# ones are loops (decision 0062). With convolutions they are parts (decision 0110).
def join(
    calls: Sequence[Call], outputs: Iterable[Output], held: tuple[Any, ...]
) -> list[Item]:
    """Return the calls in order, with neighbours joined where that is possible.

    Args:
        calls: the calls of a trace.
        outputs: the results that leave the trace.
        held: the settings under which the trace runs.
    """
    found: list[Item] = []
    needed = {output.call.number for output in outputs}
    index = 0
    for place, group in groupby(calls, lambda call: _place(call, held)):
        run = [*group]
        index += len(run)
        read = needed | _read_by(calls[index:])
        if place is None:
            found += run
        else:
            found += _joined(run, read) if place is cpu else launched(run, place, read)
    return found


def _place(call: Call, held: tuple[Any, ...]) -> Device | None:
    """Return the device on which a call is joined with others; None of others."""
    if len(call.specs) != 1 or call.settings != held:
        return None
    place: Device = call.specs[0].type.device
    if is_rendered(place):
        return place
    return cpu if _fits(call) else None


def _fits(call: Call) -> bool:
    """Return whether a call can be a node: tensors in, one tensor out."""
    inner: list[Any] = []
    visit(call.options, (Output, Tensor), inner.append)
    for argument in call.arguments:
        if not isinstance(argument, (Output, Tensor)):
            visit(argument, (Output, Tensor, str), inner.append)
    if inner:
        return False
    # Loops hold narrow floats, and steps do not.
    kind = call.specs[0].type
    return storage_of(kind) is not None or kind.dtype in ROUNDINGS


def _read_by(calls: Sequence[Call]) -> set[int]:
    return {source.call.number for call in calls for source in call.sources}


def _joined(calls: list[Call], needed: set[int]) -> list[Item]:
    """Return the items for calls that are nodes."""
    has_images = any(map(_convolves_floats, calls))
    if len(calls) < FEWEST and not has_images:
        return chained(calls, needed)
    numbers = {call.number: call for call in calls}
    graph, reads = _graph(calls, [n for n in numbers if n in needed])
    items: list[Item] = []
    # Where no weights are packed, loops of floats are as fast as parts of a plan.
    accept = require_bytes if has_images else require_codes
    for part in lower(graph, accept=accept):
        nodes = part.nodes if isinstance(part, Compiled) else (part.node,)
        own = [numbers[int(node.output)] for node in nodes]
        if not isinstance(part, Compiled) or not _pays(part):
            items += own
            continue
        known = {**graph.constants, **reads}
        given = (
            known[n] if n in known else Output(numbers[int(n)]) for n in part.reads
        )
        items.append(Joined(part, tuple(own), tuple(given)))
    return chained(items, needed)


def _convolves_floats(call: Call) -> bool:
    return call.operation is conv2d and call.specs[0].type.dtype is float32


def _graph(calls: list[Call], needed: list[int]) -> tuple[Graph, dict[str, Output]]:
    """Return the calls as a graph, and the tensors that it takes by their names.

    A value has the number of its call as its name.
    """
    inputs: dict[str, TensorSpec] = {}
    reads: dict[str, Output] = {}
    constants: dict[str, Any] = {}
    nodes: list[Node] = []
    inside = {call.number for call in calls}

    def name(x: Any) -> Any:
        if isinstance(x, Output) and x.result is not None:
            x = x.result
        if isinstance(x, Tensor):
            key = f"constant {len(constants)}"
            constants[key] = x
            return key
        if not isinstance(x, Output):
            return x
        key = f"{x.call.number}" if not x.index else f"{x.call.number}.{x.index}"
        if x.call.number not in inside:
            inputs[key], reads[key] = x.spec, x
        return key

    for call in calls:
        given = tuple(map(name, call.arguments))
        nodes.append(_node(call, given))
    return Graph(inputs, tuple(nodes), constants, tuple(map(str, needed))), reads


def _node(call: Call, inputs: tuple[Any, ...]) -> Node:
    path, _, line = call.place.rpartition(":")
    place = f"{call.name} at {PurePath(path).name}:{line}"
    node = Node(
        f"{place} ({call.number})",
        call.operation,
        inputs,
        str(call.number),
        call.options,
    )
    # A trace has inferred its specs under its own settings.
    return node.with_spec(call.specs[0], *map(_spec, call.arguments))


def _spec(argument: Any) -> Any:
    """Return the spec of a tensor; any other argument as it is."""
    if isinstance(argument, Output):
        return argument.spec
    return spec_of(argument) if isinstance(argument, Tensor) else argument


def _pays(part: Compiled) -> bool:
    """Return whether a compiled call saves time, and no result is a view.

    A view that a call returns shares the memory of its argument; a compiled result does
    not.
    """
    views = {node.output for node in part.nodes if node.operation in VIEWS}
    if not views.isdisjoint(part.writes):
        return False
    steps = [step for step in part.steps if step is not None]
    if any(map(saves_packing, steps)):
        return True
    return len(steps) >= FEWEST and any(map(has_codes, steps))
