"""Operator declarations of the format: attributes, types and definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.elements import CODES
from mdtensor.quant.model.onnx.files import onnx_package


def schema(op: Operator) -> Any:
    """Return the declaration of an operator in the package onnx, or None."""
    return _schema(op.proto.op_type, op.opset, op.proto.domain)


# A file has thousands of nodes of some 30 operators; each search takes 20 us.
@cache
def _schema(kind: str, opset: int, domain: str) -> Any:
    onnx = onnx_package()
    try:
        return onnx.defs.get_schema(kind, opset, domain)
    except onnx.defs.SchemaError:
        return None


#: Texts that attributes may have, where no reader checks them.
TEXTS = {
    ("NegativeLogLikelihoodLoss", "reduction"): ("mean", "sum", "none"),
    ("SoftmaxCrossEntropyLoss", "reduction"): ("mean", "sum", "none"),
    ("CausalConvWithState", "activation"): ("none", "silu", "swish"),
    ("ai.onnx.ml.Normalizer", "norm"): ("MAX", "L1", "L2"),
    ("ai.onnx.ml.TreeEnsembleRegressor", "aggregate_function"): (
        *("AVERAGE", "SUM", "MIN", "MAX"),
    ),
    **{
        (f"ai.onnx.ml.{kind}", "post_transform"): (
            *("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"),
        )
        for kind in (
            *("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"),
            *("TreeEnsembleClassifier", "TreeEnsembleRegressor"),
        )
    },
    **{
        (f"ai.onnx.ml.{kind}", "kernel_type"): ("LINEAR", "POLY", "RBF", "SIGMOID")
        for kind in ("SVMClassifier", "SVMRegressor")
    },
}


#: Attributes that are 0 or 1; of another number, readers make one or the other.
FLAGS = frozenset(
    (
        *("align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box"),
        *("count_include_pad", "detect_negative", "detect_positive", "exclude_outside"),
        *("exclusive", "fmod", "input_forget", "interleaved", "inverse"),
        *("is_case_sensitive", "is_causal", "is_test", "keepdims", "largest", "layout"),
        *("linear_before_reset", "multi_class", "new_axis", "noop_with_empty_axes"),
        *("one_class", "onesided", "output_sequence", "periodic", "reverse"),
        *("saturate", "select_last_index", "sorted", "spatial", "storage_order"),
        *("training_mode", "transA", "transB", "upper", "zeros"),
    )
)


def check_node(op: Operator) -> None:
    """Raise for attributes, inputs or outputs that the operator set does not define.

    After this check, readers can rely on it that each attribute has the declared type
    and occurs once, and that no required attribute is absent.

    Args:
        op: the operator; only its `proto` is read, so the attributes may be absent.

    Raises:
        ModelError: the node is not as declared; the error names it.
    """
    declared, given = schema(op), op.proto.attribute
    check_names(op, [a.name for a in given])
    for attribute in given:
        _check_attribute(op, attribute, declared)
    if not declared:
        return
    present = {a.name for a in given}
    for name, attribute in declared.attributes.items():
        if attribute.required and name not in present:
            raise op.error(f"does not have the attribute {name!r}", "Export it again")
    _check_count(op, len(op.inputs), declared.min_input, declared.max_input, "inputs")
    _check_count(
        op, len(op.outputs), declared.min_output, declared.max_output, "outputs"
    )
    single = onnx_package().defs.OpSchema.FormalParameterOption.Single
    for formal, name in zip(declared.inputs, op.inputs, strict=False):
        if formal.option == single and name is None:
            raise op.error(f"does not have its input {formal.name!r}", "Name it")


def check_names(op: Operator, names: Sequence[str]) -> None:
    """Raise for an attribute that the operator set does not define, or one given twice.

    Raises:
        ModelError: an attribute is unknown or given twice; the error names the node.
    """
    declared = schema(op)
    known = declared.attributes if declared else names
    for name in names:
        if name not in known:
            raise op.error(
                f"has an attribute {name!r}, which operator set {op.opset} does not "
                "define",
                f"Its attributes are {', '.join(sorted(known)) or 'none'}",
            )
        if names.count(name) > 1:
            raise op.error(f"has the attribute {name!r} twice", "Keep one of them")


def _check_attribute(op: Operator, given: Any, declared: Any) -> None:
    """Require the declared type of an attribute, and a value of its own."""
    if given.ref_attr_name:
        raise op.error(
            f"reads its attribute {given.name!r} from {given.ref_attr_name!r} of a "
            "function, but is not in one",
            "Give the attribute a value",
        )
    kinds = onnx_package().AttributeProto.AttributeType
    found = kinds.Name(given.type)
    wanted = declared.attributes[given.name].type.name if declared else found
    if found != wanted or not given.type:
        raise op.error(
            f"has an attribute {given.name!r} of type {found}",
            f"Use type {wanted}" if given.type else "Give it a type",
        )
    if given.name in FLAGS and declared and given.i not in (0, 1):
        raise op.error(f"has {given.name}={given.i}", "Use 0 or 1")
    texts = TEXTS.get((op.kind, given.name))
    text = given.s.decode(errors="replace")
    if texts is not None and text not in texts:
        raise op.error(f"has {given.name}={text!r}", f"Use {' or '.join(texts)}")


def _check_count(op: Operator, count: int, low: int, high: int, what: str) -> None:
    """Raise for more or fewer inputs or outputs than the operator has."""
    if not low <= count <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        raise op.error(f"has {count} {what}, expected {wanted}", "Export it again")


def check_types(g: Builder, op: Operator) -> None:
    """Raise for inputs of types that the operator set does not allow.

    Raises:
        ModelError: an input has another type than those declared, or two inputs have
            different types where the format requires one, as `T` of Add; the error
            names them and the node.
    """
    declared = schema(op)
    formal = list(declared.inputs) if declared else []
    first: dict[str, str] = {}
    for index, name in enumerate(op.inputs):
        # Only the last formal parameter may be variadic; it covers all further inputs.
        parameter = formal[min(index, len(formal) - 1)] if formal else None
        if not name or parameter is None or name in g.lists:
            continue
        _check_type(g, op, name, parameter.types)
        if not parameter.is_homogeneous:
            continue
        other = first.setdefault(parameter.type_str, name)
        if g.code(other) != g.code(name):
            raise op.error(
                f"reads {other!r} of {_type(g, other)} and {name!r} of "
                f"{_type(g, name)}, which must be of one type",
                "Add a Cast before it",
            )


def _check_type(g: Builder, op: Operator, name: str, allowed: set[str]) -> None:
    """Require one of the declared types; codes are of a type that files do not know."""
    if g.specs[name].dtype not in CODES:
        _require_type(op, f"reads {name!r} of", _type(g, name), allowed)


def check_target(op: Operator, code: int) -> None:
    """Raise for a type of the result that the operator set does not allow.

    Raises:
        ModelError: the type is not declared; the error names it and the node.
    """
    found = _type_name(code)
    _require_type(op, "has a result of", found, schema(op).outputs[0].types)


def _require_type(op: Operator, what: str, found: str, allowed: set[str]) -> None:
    if f"tensor({found})" not in allowed:
        listed = ", ".join(sorted(t[7:-1] for t in allowed if t.startswith("tensor(")))
        raise op.error(
            f"{what} {found}, which operator set {op.opset} does not allow",
            f"Use one of {listed}" if listed else "Give it a sequence",
        )


def _type(g: Builder, name: str) -> str:
    """Return the name of a value's element type in the file format."""
    return _type_name(g.code(name))


def _type_name(code: int) -> str:
    kinds = onnx_package().TensorProto.DataType
    return str(kinds.Name(code)).lower() if code in kinds.values() else f"type {code}"


# Operators that ONNX defines by other operators.
#
# The package onnx contains the definitions of some 50 operators as graphs, for example
# Attention as products, a softmax and masks. An operator that does not have a reader
# here is read as its definition.

Rename = Callable[[str], str]


@dataclass(frozen=True)
class Definition:
    """The nodes that define an operator.

    Args:
        nodes: NodeProtos, with the names of the values of the graph.
        opset: their operator set.
        scope: these names, by the names in the definition, for graphs inside of nodes.
    """

    nodes: list[Any]
    opset: int
    scope: dict[str, str]


def is_defined(op: Operator) -> bool:
    """Return whether the format defines the operator by other operators."""
    declared = None if op.proto.domain else schema(op)
    return bool(declared and declared.all_function_opset_versions)


def definition(g: Builder, op: Operator) -> Definition:
    """Return the nodes that compute the outputs, with their operator set and names.

    Raises:
        ModelError: the format does not define the operator for these inputs.
    """
    g.check(op)
    onnx, declared = onnx_package(), schema(op)
    node = onnx.NodeProto()
    node.CopyFrom(op.proto)
    # The definition reads defaults from the node, so write them there.
    given = {a.name for a in node.attribute}
    for name, attribute in declared.attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)
    function = onnx.FunctionProto()
    function.ParseFromString(_definition_bytes(declared, op, node, _types(g, op)))
    if not function.node:
        raise op.error("is not defined for these inputs", "Check their types")
    # A definition may be written for an older operator set than the file uses.
    opset = next((o.version for o in function.opset_import if not o.domain), op.opset)
    nodes, names = _inline_nodes(g, function, node, op)
    return Definition(nodes, opset, names)


def _types(g: Builder, op: Operator) -> list[bytes]:
    """Return the types of the inputs, serialized; the definition may depend on them."""
    return [_type_proto(g, name).SerializeToString() for name in op.inputs]


def _type_proto(g: Builder, name: str | None) -> Any:
    """Return the type of a value; a sequence has the type of its first element."""
    onnx = onnx_package()
    if name is None:
        return onnx.TypeProto()
    if name not in g.lists:
        return onnx.helper.make_tensor_type_proto(g.code(name), g.shape(name))
    first = next(iter(g.lists[name] or ()), None)
    code = onnx.TensorProto.FLOAT if first is None else g.code(first)
    inner = onnx.helper.make_tensor_type_proto(code, None)
    return onnx.helper.make_sequence_type_proto(inner)


def _definition_bytes(
    declared: Any, op: Operator, node: Any, types: Sequence[bytes]
) -> bytes:
    """Return the newest definition up to the file's operator set, serialized."""
    versions = declared.all_function_opset_versions
    version = max((v for v in versions if v <= op.opset), default=min(versions))
    if version in declared.function_opset_versions:
        body: bytes = declared.get_function_with_opset_version(version)
    else:
        body = declared.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
    return body


def _inline_nodes(
    g: Builder, function: Any, node: Any, op: Operator
) -> tuple[list[Any], dict[str, str]]:
    """Return the nodes of a function, with the value names of the call `node`.

    Also return these names, by the names in the function.
    """
    given = list(node.input) + [""] * (len(function.input) - len(node.input))
    names = dict(zip(function.input, given, strict=False))
    pairs = zip(function.output, node.output, strict=False)
    names |= {inner: outer for inner, outer in pairs if outer}
    # Inner values get the first output as prefix: two calls must not share names.
    stem = next(filter(None, op.outputs))
    attributes = {a.name: a for a in node.attribute}

    def rename(name: str) -> str:
        if name and name not in names:
            names[name] = g.fresh(f"{stem}/{name}")
        return names[name] if name else ""

    return [_copy_node(inner, rename, attributes) for inner in function.node], names


def _copy_node(inner: Any, rename: Rename, attributes: dict[str, Any]) -> Any:
    """Copy a node of a definition, with the attributes of the operator it defines."""
    made = type(inner)(op_type=inner.op_type, domain=inner.domain)
    made.name = rename(inner.name or next(iter(inner.output)))
    made.input.extend(map(rename, inner.input))
    made.output.extend(map(rename, inner.output))
    for attribute in inner.attribute:
        source = attributes.get(attribute.ref_attr_name, attribute)
        if attribute.ref_attr_name and source is attribute:
            continue  # the operator does not set this attribute
        made.attribute.add().CopyFrom(source)
        made.attribute[-1].name = attribute.name
    return made
