"""Reading of ONNX files as graphs of operations."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import DataError, ModelError, shown
from mdtensor.graph import Graph
from mdtensor.graph.inputs import Shapes, chosen, shapes_example
from mdtensor.quant.model.budget import Spending
from mdtensor.quant.model.onnx import packed, qdq, qlinear, sizes
from mdtensor.quant.model.onnx.build import (
    Array,
    Builder,
    Operator,
    element_type,
    errors_of,
)
from mdtensor.quant.model.onnx.files import (
    check_model,
    initializer_array,
    inline_functions,
    narrow_in,
    notes_in,
    onnx_package,
    read_model,
    rule_in,
)
from mdtensor.quant.model.onnx.operators import READERS
from mdtensor.quant.model.onnx.operators.table import Reader
from mdtensor.quant.model.onnx.schemas import (
    check_node,
    check_types,
    definition,
    is_defined,
)

#: Older sets differ too much in attributes and broadcasting; newer ones are unknown.
OPSETS = range(7, 29)
DOMAINS = ("", "ai.onnx")


def read_graph(
    path: str | os.PathLike[str] | Any,
    input_shapes: Shapes | None = None,
    spending: Spending | None = None,
) -> Graph:
    """Read the graph in an ONNX file, operator by operator, without simplifying it.

    Args:
        path: the file, or a ModelProto. External data is read only from the folder of
            the file; for a ModelProto, from the current folder.
        input_shapes: shape of each input by name, or of the only input. Sizes of -1
            and inputs without an entry stay as in the file, where they may be dynamic.
        spending: the budget to read within; by default a new one.

    Returns:
        A graph whose values and nodes have the names of the file.

    Raises:
        ModelError: `path` is not a model, or parts of the model are not supported; the
            error names the part.
    """
    model, folder = _open_model(path)
    g = Builder(
        narrow=narrow_in(model),
        spending=spending or Spending(),
        reserved=names_in(model.graph),
    )
    for name, array in initial_arrays(model.graph, folder).items():
        g.spending.add_stored(array.size)
        g.enter(name, array)
    _add_inputs(g, model.graph, input_shapes)
    example = shapes_example(g.inputs)
    for op in operators_of(model, folder):
        read_operator(g, replace(op, shapes_example=example))
    made = g.graph(tuple(output.name for output in model.graph.output))
    return replace(made, rounding=rule_in(model), notes=notes_in(model))


def names_in(proto: Any) -> frozenset[str]:
    """Return the names of all values of a graph in a file."""
    entered = {value.name for value in (*proto.input, *proto.initializer)}
    return frozenset(entered.union(*(node.output for node in proto.node)))


def _open_model(given: Any) -> tuple[Any, Path]:
    """Return a ModelProto and the folder of its external data."""
    if isinstance(given, (str, os.PathLike)):
        return inline_functions(read_model(given)), Path(given).parent
    if not isinstance(given, onnx_package().ModelProto):
        problem = f"{shown(given)} is neither a path nor an onnx.ModelProto"
        raise ModelError(problem, "Give load('model.onnx')")
    check_model(given, "the ModelProto")
    return inline_functions(given), Path()


def operators_of(model: Any, folder: Path) -> list[Operator]:
    """Return the nodes of a file; external tensors are read from `folder`.

    Raises:
        ModelError: the operator set is not supported.
    """
    opset, nodes = _opset(model), enumerate(model.graph.node)
    return [operator(node, opset, folder, number) for number, node in nodes]


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


def _add_inputs(g: Builder, proto: Any, shapes: Shapes | None) -> None:
    """Add the inputs of a model, with the shapes that the caller gives."""
    # Files before format version 4 list constants as inputs, too.
    known = {i.name: i.type for i in proto.input if i.name not in g.constants}
    specs = {name: _input_spec(name, kind) for name, kind in known.items()}
    try:
        wanted = chosen(specs, shapes)
    except DataError as error:
        raise ModelError(error.problem, error.fix) from None
    for name, spec in specs.items():
        g.input(name, spec.with_shape(wanted[name]))


def _input_spec(name: str, proto: Any) -> TensorSpec:
    """Return the spec of an input in a file."""
    where = f"input {name!r}"
    if not proto.HasField("tensor_type"):
        raise ModelError(f"{where} is not a tensor", "Use tensors as inputs")
    dtype = element_type(proto.tensor_type.elem_type, where)
    if not proto.tensor_type.HasField("shape"):
        raise ModelError(f"{where} does not have a rank", "Export it with a shape")
    # A size may be a number, a name or absent; all but a positive number are dynamic.
    dims = proto.tensor_type.shape.dim
    fixed = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in dims)
    return TensorSpec(md.leaf(dtype), tuple(n if n > 0 else -1 for n in fixed))


def operator(node: Any, opset: int, folder: Path, number: int = 0) -> Operator:
    """Convert a node of a file to an `Operator`."""
    name = node.name or next(filter(None, node.output), f"number {number}")
    kind = node.op_type
    if node.domain not in DOMAINS:
        kind = f"{node.domain}.{kind}"
    inputs = tuple(i or None for i in node.input)
    op = Operator(kind, name, inputs, tuple(node.output), {}, opset, node)
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


#: How graphs read each operator.
GRAPH_READERS: Mapping[str, Reader] = {
    **READERS,
    **qdq.READERS,
    **qlinear.READERS,
    **packed.READERS,
    "Shape": sizes.shape,
}


def read_operator(g: Builder, op: Operator) -> None:
    """Add the calls that one operator of the file stands for.

    Raises:
        ModelError: the operator is not supported, or does not fit its inputs.
    """
    with errors_of(op):
        # Operators without a reader, such as Attention, are read by their definition.
        if op.kind not in GRAPH_READERS and is_defined(op):
            for node, opset in definition(g, op):
                read_operator(g, operator(node, opset, Path()))
            return
        reader = reader_of(op, GRAPH_READERS)
        g.check(op)
        check_types(g, op)
        if op.kind not in qlinear.READERS:
            qdq.check_codes(g, op)
        # Integers that are known now, such as shapes, never become nodes.
        if not sizes.evaluate(g, op):
            reader(g, op)


def reader_of(op: Operator, readers: Mapping[str, Reader]) -> Reader:
    """Return the function that reads the operator.

    Raises:
        ModelError: such a function does not exist.
    """
    if op.kind not in readers:
        near = difflib.get_close_matches(op.kind, readers, n=1, cutoff=0.85)
        known = f"The nearest that is supported is {near[0]!r}" if near else ""
        raise ModelError(
            f"operator {op.kind!r} of node {op.name!r}, operator set {op.opset}, is "
            "not supported",
            known or "docs/reference/onnx.md lists the supported operators",
        )
    return readers[op.kind]
