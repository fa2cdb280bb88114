"""What the format says of an operator: its attributes, inputs that share a type."""

from __future__ import annotations

from typing import Any

from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.files import onnx_package


def schema(op: Operator) -> Any:
    """The package's declaration of an operator; None if it has none."""
    onnx, node = onnx_package(), op.proto
    try:
        return onnx.defs.get_schema(node.op_type, op.opset, node.domain)
    except onnx.defs.SchemaError:
        return None


def check_attributes(op: Operator) -> None:
    """Refuse attributes that the operator set does not know.

    Raises:
        ModelError: there is one; the error names the node.
    """
    declared = schema(op)
    known = declared.attributes if declared else op.attributes
    for name in op.attributes:
        if name not in known:
            raise op.refusal(
                f"has an attribute {name!r}, which operator set {op.opset} does not "
                "know",
                f"Its attributes are {', '.join(sorted(known)) or 'none'}",
            )


def check_types(g: Builder, op: Operator) -> None:
    """Refuse inputs of two types where the format wants one, as `T` of Add.

    Raises:
        ModelError: there are; the error names the node and the inputs.
    """
    declared = schema(op)
    formal = list(declared.inputs) if declared else []
    first: dict[str, str] = {}
    for index, name in enumerate(op.inputs):
        parameter = formal[min(index, len(formal) - 1)] if formal else None
        if not name or parameter is None or not parameter.is_homogeneous:
            continue
        other = first.setdefault(parameter.type_str, name)
        if g.code(other) != g.code(name):
            raise op.refusal(
                f"reads {other!r} of {_type(g, other)} and {name!r} of "
                f"{_type(g, name)}, which must be of one type",
                "Use Cast before it",
            )


def _type(g: Builder, name: str) -> str:
    known: str = onnx_package().TensorProto.DataType.Name(g.code(name))
    return known.lower()
