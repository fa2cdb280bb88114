"""The choice of a device for a model: what its nodes ask, what each device lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdtensor import Device, TensorSpec, cpu, devices
from mdtensor.errors import MdtensorError, OptionError
from mdtensor.extend import find_device
from mdtensor.graph import Graph, Node
from mdtensor.graph.automatic import macs_of, size_of
from mdtensor.graph.inputs import shapes_example
from mdtensor.graph.placement import Work, choices, fastest

#: The name for the device that is expected to be the fastest.
AUTO = "auto"


def place_of(graph: Graph, device: Device | str) -> Device:
    """Return a device; for "auto" the one that is expected to be the fastest.

    Raises:
        DeviceError: there is no such device.
        AllocationError: no device has the memory, with "auto".
        OptionError: `device` is "auto", and a size of an input is dynamic.
    """
    if device != AUTO:
        return find_device(device)
    work = work_of(graph)
    found = choices(work, devices(), lambda place: _lacks(graph, place))
    return fastest(work, found, "to")


def work_of(graph: Graph) -> Work:
    """Return what a graph asks of a device.

    Raises:
        OptionError: a size of an input is dynamic.
    """
    if any(-1 in spec.shape for spec in graph.inputs.values()):
        fix = f"Give {shapes_example(graph.inputs)}, or name the device"
        raise OptionError(f"device={AUTO!r} needs the sizes of all inputs", fix, "to")
    specs = graph.specs()
    sizes = {value: size_of(spec) for value, spec in specs.items()}
    steps = [
        (_macs(node, specs), sum(sizes[x] for x in (*node.values, node.output)))
        for node in graph.nodes
    ]
    weights = sum(x.nbytes for x in graph.constants.values())
    inputs = sum(sizes[x] for x in graph.inputs)
    moved = inputs + sum(sizes[x] for x in graph.outputs)
    return Work(steps, weights + inputs + _most(graph, sizes), moved)


def _most(graph: Graph, sizes: dict[str, int]) -> int:
    """Return the bytes of the results of nodes that are needed at a time, at most."""
    last = {x: at for at, node in enumerate(graph.nodes) for x in node.values}
    made = {node.output for node in graph.nodes} - {*graph.outputs}
    alive = most = 0
    for at, node in enumerate(graph.nodes):
        alive += sizes[node.output]
        most = max(most, alive)
        alive -= sum(sizes[x] for x in {*node.values} & made if last[x] == at)
    return most


def _macs(node: Node, specs: Any) -> int:
    given = [specs[x].shape for x in node.values[:2]]
    return macs_of(node.operation, given, specs[node.output].shape)


def _lacks(graph: Graph, place: Device) -> str:
    """Return why a device cannot run a graph: a type or a method; nothing if it can."""
    if place is cpu:
        return ""
    try:
        there = {name: _moved(spec, place) for name, spec in graph.specs().items()}
        for node in graph.nodes:
            node.select(*node.arguments(there))
    except MdtensorError as error:
        return error.problem
    return ""


def _moved(spec: TensorSpec, place: Device) -> TensorSpec:
    return replace(spec, type=spec.type.with_device(place))
