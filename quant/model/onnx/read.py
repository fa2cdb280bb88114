"""Reading of ONNX files as graphs of operations."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import DataError, ModelError, shown
from mdtensor.graph import Graph
from mdtensor.graph.inputs import (
    Shapes,
    chosen,
    constant_inputs,
    shapes_example,
)
from mdtensor.quant.model.budget import Spending
from mdtensor.quant.model.decision_error import DecisionError
from mdtensor.quant.model.onnx import dynamic, packed, qdq, qlinear, sizes
from mdtensor.quant.model.onnx.build import (
    Builder,
    Operator,
    element_type,
    errors_of,
)
from mdtensor.quant.model.onnx.files import (
    check_model,
    narrow_in,
    notes_in,
    onnx_package,
    read_model,
    rule_in,
)
from mdtensor.quant.model.onnx.functions import inline_functions
from mdtensor.quant.model.onnx.nodes import (
    DOMAINS,
    defined,
    initial_arrays,
    names_in,
    operators_of,
)
from mdtensor.quant.model.onnx.operators import READERS
from mdtensor.quant.model.onnx.operators.table import Reader
from mdtensor.quant.model.onnx.outputs import choose_outputs
from mdtensor.quant.model.onnx.schemas import (
    check_types,
    is_defined,
)
from mdtensor.quant.model.size_error import SizeError, has_open_size


# A file may hold codes anywhere, so it is read in quant (decision 0098).
def read_graph(
    path: str | os.PathLike[str] | Any,
    input_shapes: Shapes | None = None,
    spending: Spending | None = None,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    decided: Mapping[str, Any] | None = None,
) -> Graph:
    """Read the graph in an ONNX file, operator by operator, without simplifying it.

    Args:
        path: the file, or a ModelProto. External data is read only from the folder of
            the file; for a ModelProto, from the current folder.
        input_shapes: shape of each input by name, or of the only input. Sizes of -1
            and inputs without an entry stay as in the file, where they may be dynamic.
        spending: the budget to read within; by default a new one.
        constants: inputs that become constants, by name.
        outputs: the values to compute; by default the outputs of the file.
        decided: arrays that a call has computed before, by the name of the value.

    Returns:
        A graph whose values and nodes have the names of the file.

    Raises:
        ModelError: `path` is not a model, or parts of the model are not supported; the
            error names the part.
    """
    model, folder = _open_model(path)
    if outputs is not None:
        model = choose_outputs(model, outputs)
    g = Builder(
        narrow=narrow_in(model),
        decided=decided or {},
        spending=spending or Spending(),
        reserved=names_in(model.graph),
        read=read_operator,
    )
    for name, array in initial_arrays(model.graph, folder).items():
        g.spending.add_stored(array.size)
        g.enter(name, array)
    _add_inputs(g, model.graph, input_shapes, constants)
    example = shapes_example(g.inputs)
    names = tuple(output.name for output in model.graph.output)
    operators = operators_of(model, folder)
    try:
        for op in operators:
            read_operator(g, replace(op, shapes_example=example))
        made = g.graph(names)
    except SizeError as error:
        # An operator that nothing can read is an error now, not at the first call.
        for op in operators:
            if not is_defined(op):
                reader_of(op, GRAPH_READERS)
        if not has_open_size(g.inputs):
            error = _asked(g, error, rule_in(model))
        raise error.of(g.inputs, names) from None
    return replace(made, rounding=rule_in(model), notes=notes_in(model))


def _asked(g: Builder, error: SizeError, rule: str) -> SizeError:
    """Return an error that asks for what a call can compute, if there is such a value.

    No input has an open size, so the data decides the size that is not known.
    """
    if not isinstance(error, DecisionError):
        value = g.unsized()
        if value is None:
            return error
        error = DecisionError(error.problem, error.fix, value, of_sizes=True)
    error.question = replace(g.graph((error.value,)), rounding=rule)
    return error


def _open_model(given: Any) -> tuple[Any, Path]:
    """Return a ModelProto and the folder of its external data."""
    if isinstance(given, (str, os.PathLike)):
        return inline_functions(read_model(given)), Path(given).parent
    if not isinstance(given, onnx_package().ModelProto):
        problem = f"{shown(given)} is neither a path nor an onnx.ModelProto"
        raise ModelError(problem, "Give load('model.onnx')")
    check_model(given, "the ModelProto")
    return inline_functions(given), Path()


def _add_inputs(
    g: Builder, proto: Any, shapes: Shapes | None, constants: Mapping[str, Any] | None
) -> None:
    """Add the inputs of a model, with the shapes and constants that the caller gives.

    An input that the caller gives is a constant of the graph.
    """
    # Files before format version 4 list constants as inputs, too.
    known = {i.name: i.type for i in proto.input if i.name not in g.constants}
    specs = {name: _input_spec(name, kind) for name, kind in known.items()}
    try:
        fixed = constant_inputs(specs, constants)
        left = {name: spec for name, spec in specs.items() if name not in fixed}
        wanted = chosen(left, shapes)
    except DataError as error:
        raise ModelError(error.problem, error.fix) from None
    for name, array in fixed.items():
        g.spending.add_stored(array.size)
        g.enter(name, array)
    for name, spec in left.items():
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


#: How graphs read each operator.
GRAPH_READERS: Mapping[str, Reader] = {
    **READERS,
    **qdq.READERS,
    **qlinear.READERS,
    **packed.READERS,
    **dynamic.READERS,
    "Shape": sizes.shape,
}


_TEXT = "Text cannot be a tensor: encode it outside, and cut the model behind it"
#: What to do about operators that no model here has, by the start of their name.
REFUSED = {
    **dict.fromkeys(("Regex", "String", "TfIdf", "ai.onnx.ml.CategoryMapper"), _TEXT),
    **dict.fromkeys(("ai.onnx.ml.CastMap", "ai.onnx.ml.DictVectorizer"), _TEXT),
    "ai.onnx.preview.training": "Export the model for inference",
    "com.microsoft.nchwc": "Let ONNX Runtime save the model with ORT_ENABLE_EXTENDED",
}


def read_operator(g: Builder, op: Operator) -> None:
    """Add the calls that one operator of the file stands for.

    Raises:
        ModelError: the operator is not supported, or does not fit its inputs.
    """
    with errors_of(op):
        # Operators without a reader, such as Attention, are read by their definition.
        if op.kind not in GRAPH_READERS and is_defined(op):
            for inner in defined(g, op):
                # The file does not have the inner operator, so the error names `op`.
                if inner.kind not in GRAPH_READERS and not is_defined(inner):
                    raise _unsupported(op, f", because it needs {inner.kind!r}")
                read_operator(g, inner)
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
        why = next((w for start, w in REFUSED.items() if op.kind.startswith(start)), "")
        raise _unsupported(op, fix=why or known)
    return readers[op.kind]


def _unsupported(op: Operator, why: str = "", fix: str = "") -> ModelError:
    # A custom operator does not belong to the operator set of the file.
    is_custom = op.proto.domain not in DOMAINS
    version = "" if is_custom else f", operator set {op.opset},"
    return ModelError(
        f"operator {op.kind!r} of node {op.name!r}{version} is not supported{why}",
        fix or "docs/reference/onnx.md lists the supported operators",
    )
