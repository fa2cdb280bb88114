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


def inner_names(g: Reading, op: Call, graph: FileGraph) -> list[str]:
    """Return a name for each tensor of a graph that an operator calls.

    Its inputs are the inputs of the operator after the first.
    """
    made = []
    for tensor in graph.tensors:
        name = g.builder.fresh(f"{op.outputs[0]}.{tensor.name}")
        g.builder.keep(name)
        g.tensors[name] = tensor
        made.append(name)
    for at, index in enumerate(graph.inputs, start=1):
        made[index] = op.operand(at)
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
