"""Nodes of a file as operators: the operator set, the order, the attributes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mdtensor.errors import ModelError
from mdtensor.quant.model.onnx.build import Array, Builder, Operator, errors_of
from mdtensor.quant.model.onnx.files import initializer_array, onnx_package
from mdtensor.quant.model.onnx.order import sort_nodes
from mdtensor.quant.model.onnx.schemas import check_node, definition

#: Older sets differ too much in attributes and broadcasting; newer ones are unknown.
OPSETS = range(7, 29)
DOMAINS = ("", "ai.onnx")


def names_in(proto: Any) -> frozenset[str]:
    """Return the names of all values of a graph in a file."""
    entered = {value.name for value in (*proto.input, *proto.initializer)}
    return frozenset(entered.union(*(node.output for node in proto.node)))


def operators_of(model: Any, folder: Path) -> list[Operator]:
    """Return the nodes of a file, in an order in which they can run.

    Args:
        model: a ModelProto.
        folder: the folder of its external data.

    Raises:
        ModelError: the operator set is not supported, or nodes need each other's
            results.
    """
    opset, numbered = _opset(model), enumerate(model.graph.node)
    made = [operator(node, opset, folder, number) for number, node in numbered]
    return [made[place] for place in sort_nodes(model.graph)]


def _opset(model: Any) -> int:
    """Return the version of the standard operator set."""
    versions = [o.version for o in model.opset_import if o.domain in DOMAINS]
    if not versions or versions[0] not in OPSETS:
        found = versions[0] if versions else "none"
        raise ModelError(
            f"the operator set is {found}",
            f"Export the model for an operator set from {OPSETS[0]} to {OPSETS[-1]}",
        )
    return int(versions[0])


def initial_arrays(proto: Any, folder: Path) -> dict[str, Array]:
    """Return the constants of a graph in a file, by name."""
    if proto.sparse_initializer:
        name = proto.sparse_initializer[0].values.name
        raise ModelError(f"tensor {name!r} is sparse", "Export it as a dense tensor")
    return {t.name: initializer_array(t, folder) for t in proto.initializer}


def operator(node: Any, opset: int, folder: Path, number: int = 0) -> Operator:
    """Convert a node of a file to an `Operator`."""
    name = node.name or next(filter(None, node.output), f"number {number}")
    kind = node.op_type
    if node.domain not in DOMAINS:
        kind = f"{node.domain}.{kind}"
    inputs = tuple(i or None for i in node.input)
    outputs = tuple(node.output)
    op = Operator(kind, name, inputs, outputs, {}, opset, node, folder=folder)
    with errors_of(op):
        check_node(op)
        attributes = {a.name: _attribute(a, folder) for a in node.attribute}
        return replace(op, attributes=attributes)


def _attribute(proto: Any, folder: Path) -> Any:
    """Convert an attribute to a Python value, a tensor to an array."""
    onnx = onnx_package()
    if proto.type == proto.TENSOR:
        return initializer_array(proto.t, folder)
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if proto.type in (proto.INTS, proto.FLOATS):
        return tuple(value)
    return value


def defined(g: Builder, op: Operator) -> list[Operator]:
    """Return the operators of the definition of an operator, see `is_defined`.

    Raises:
        ModelError: the format does not define the operator for these inputs.
    """
    found = definition(g, op)
    made = (operator(node, found.opset, op.folder) for node in found.nodes)
    example = op.shapes_example
    return [replace(one, scope=found.scope, shapes_example=example) for one in made]
