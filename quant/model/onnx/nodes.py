"""Nodes of a file as operators: the operator set, the order, the attributes."""

from __future__ import annotations

from collections.abc import Mapping
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
#: Operators of estimators; set 5 replaced the two older operators of trees by one.
ML, ML_OPSETS = "ai.onnx.ml", range(1, 6)


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
    opsets, numbered = _opsets(model), enumerate(model.graph.node)
    made = [operator(node, opsets, folder, number) for number, node in numbered]
    return [made[place] for place in sort_nodes(model.graph)]


def _opsets(model: Any) -> dict[str, int]:
    """Return the versions of the operator sets by domain, "" for the standard one."""
    found: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain in DOMAINS else entry.domain
        found.setdefault(domain, int(entry.version))
    # A file may import only the set of another domain.
    if ML not in found or "" in found:
        _check_opset("the operator set", found.get("", "none"), OPSETS)
    if ML in found:
        _check_opset(f"the operator set of {ML}", found[ML], ML_OPSETS)
    return found


def _check_opset(what: str, version: object, known: range) -> None:
    if version not in known:
        raise ModelError(
            f"{what} is {version}",
            f"Export the model for an operator set from {known[0]} to {known[-1]}",
        )


def initial_arrays(proto: Any, folder: Path) -> dict[str, Array]:
    """Return the constants of a graph in a file, by name."""
    if proto.sparse_initializer:
        name = proto.sparse_initializer[0].values.name
        raise ModelError(f"tensor {name!r} is sparse", "Export it as a dense tensor")
    return {t.name: initializer_array(t, folder) for t in proto.initializer}


def operator(
    node: Any, opsets: Mapping[str, int], folder: Path, number: int = 0
) -> Operator:
    """Convert a node of a file to an `Operator`.

    Args:
        node: a NodeProto.
        opsets: versions of the operator sets by domain.
        folder: the folder of external data.
        number: the position of the node, for the errors of a node without names.
    """
    name = node.name or next(filter(None, node.output), f"number {number}")
    kind = node.op_type
    if node.domain not in DOMAINS:
        kind = f"{node.domain}.{kind}"
    inputs = tuple(i or None for i in node.input)
    outputs = tuple(node.output)
    # Domains other than these two do not have declarations that depend on a version.
    opset = opsets.get(ML if node.domain == ML else "", 0)
    op = Operator(
        kind, name, inputs, outputs, {}, opset, node, folder=folder, opsets=opsets
    )
    if not opset:
        domain = node.domain or "the standard operators"
        raise op.error(
            f"is of {domain}, and the file does not name their operator set",
            "Export the model again",
        )
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
    opsets = {**op.opsets, "": found.opset}
    made = (operator(node, opsets, op.folder) for node in found.nodes)
    example = op.shapes_example
    return [replace(one, scope=found.scope, shapes_example=example) for one in made]
