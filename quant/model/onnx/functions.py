"""Functions that a model file defines: calls of them become the nodes inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdtensor.errors import ModelError
from mdtensor.quant.model.onnx.files import onnx_package


def inline_functions(model: Any) -> Any:
    """Return a ModelProto in which calls of model-local functions are inlined.

    A function of another operator set than the model's is inlined if all its operators
    are the same in both sets.

    Raises:
        ModelError: the functions call each other in a circle, or use another operator
            set than the model.
    """
    if not model.functions:
        return model
    onnx_package()
    from onnx import inliner

    try:
        made = inliner.inline_local_functions(_with_one_set(model))
    # The package raises types of its own, and others than these by the version.
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"the functions of the model cannot be replaced by their nodes: {line}",
            "Export the model without functions",
        ) from None
    return made


def _with_one_set(model: Any) -> Any:
    """Return a model whose functions name its own operator set.

    Raises:
        ModelError: a function uses an operator that differs between the sets.
    """
    wanted = _standard_set(model)
    if all(_standard_set(function) in (wanted, 0) for function in model.functions):
        return model
    made = type(model)()
    made.CopyFrom(model)
    for function in made.functions:
        given = _standard_set(function)
        for node in _nodes_inside(function.node):
            if not node.domain and _since(node, given) != _since(node, wanted):
                raise ModelError(
                    f"the function {function.name!r} uses {node.op_type} of operator "
                    f"set {given}, which differs from that of the model, {wanted}",
                    "Export both for one operator set",
                )
        for entry in function.opset_import:
            entry.version = entry.version if entry.domain else wanted
    return made


def _standard_set(proto: Any) -> int:
    """Return the version of the standard operators of a model or function; 0: none."""
    found = [e.version for e in proto.opset_import if e.domain in ("", "ai.onnx")]
    return found[0] if found else 0


def _since(node: Any, version: int) -> int:
    """Return the operator set that defined the operator last; 0 if none did."""
    defs = onnx_package().defs
    try:
        found: int = defs.get_schema(node.op_type, version, "").since_version
    except defs.SchemaError:
        return 0
    return found


def _nodes_inside(nodes: Any) -> Iterator[Any]:
    """Yield nodes, and those of the graphs inside of them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                yield from _nodes_inside(attribute.g.node)
