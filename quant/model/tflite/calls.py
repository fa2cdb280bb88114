"""Operators of a file with the names of their values in the graph that is built."""

from __future__ import annotations

from collections.abc import Sequence

from mdtensor.graph import fresh_name
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.file import FileGraph, FileOperator


def names_of(graph: FileGraph) -> list[str]:
    """Return a name for each tensor, that of the file if no other tensor has it."""
    taken: set[str] = set()
    counts: dict[str, int] = {}
    # The names of inputs and outputs are public, so they come first.
    order = dict.fromkeys((*graph.inputs, *graph.outputs, *range(len(graph.tensors))))
    names: dict[int, str] = {}
    for at in order:
        stem = graph.tensors[at].name or f"tensor {at}"
        names[at] = fresh_name(stem, taken, counts)
        taken.add(names[at])
    return [names[at] for at in range(len(graph.tensors))]


def inner_names(
    g: Reading, op: Call, graph: FileGraph, given: Sequence[str]
) -> list[str]:
    """Return a name for each tensor of a graph that an operator calls.

    Args:
        g: what has been read.
        op: the operator.
        graph: the graph.
        given: the values of its inputs.
    """
    made = []
    for at, tensor in enumerate(graph.tensors):
        # A graph may be called many times; its constants are entered once.
        name = g.inner_constants.get((id(graph), at))
        if name is None:
            name = g.builder.fresh(f"{op.outputs[0]}.{tensor.name}")
            g.builder.keep(name)
            g.tensors[name] = tensor
            if tensor.data is not None:
                g.inner_constants[id(graph), at] = name
        made.append(name)
    for index, value in zip(graph.inputs, given, strict=True):
        made[index] = value
    return made


def call_of(
    operator: FileOperator,
    graph: FileGraph,
    names: Sequence[str],
    shapes_example: str,
    within: str = "",
) -> Call:
    """Return an operator of the file with the names of its values.

    Args:
        operator: the operator.
        graph: the graph that contains it.
        names: a name for each tensor of the graph.
        shapes_example: the argument of `load` that fixes the sizes of its inputs.
        within: the name of the operator that calls the graph.
    """
    name = f"{operator.kind}.{operator.number}"
    return Call(
        operator.kind,
        f"{within}.{name}" if within else name,
        tuple(None if at < 0 else names[at] for at in operator.inputs),
        tuple(names[at] for at in operator.outputs),
        operator.options,
        operator.version,
        shapes_example=shapes_example,
        number=operator.number,
        results=tuple(graph.tensors[at] for at in operator.outputs),
        custom=operator.custom,
        within=within,
    )
