"""Damaged ONNX models: bytes changed anywhere, or one part of the model replaced."""

import importlib
import random
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case import node as written
from onnx.backend.test.loader import load_model_tests

from mdtensor import quant

Array = np.ndarray[Any, Any]
INTS = [0, 1, -1, 2, 3, -2, 5, 7, 9, -9, 100, 2**15, 2**31, -(2**31), 2**62, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.7, 1e30, 1e-30, 1e9, np.inf, -np.inf, np.nan]
TEXTS = [b"", b"foo", b"nearest", b"linear", b"SAME_UPPER", b"VALID", b"CRD", b"\xff"]


#: Operators whose cases are made in less than a second.
SOME = ("Conv", "Gather", "Pad", "QuantizeLinear", "ReduceMax", "Resize", "Slice")
SOME += ("Softmax", "Split", "TopK", "Transpose", "Unsqueeze")


@cache
def node_cases(every: bool) -> list[Any]:
    """ONNX's own node tests, all of them or those of `SOME` operators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package, while it makes its data
        if every:
            return list(load_model_tests(kind="node"))
        for name in SOME:
            importlib.import_module(f"{written.__name__}.{name.lower()}")
    return [c for c in written._NodeTestCases if c.model.graph.node[0].op_type in SOME]


def base(rng: random.Random, every: bool = True) -> tuple[bytes, dict[str, Array]]:
    """A valid model, and arrays for its inputs; some of them are made constants."""
    if rng.random() < 0.3:
        return rng.choice(networks()), {"x": images(1)}
    case = rng.choice(node_cases(every))
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    arrays: dict[str, Array] = {}
    fixed = rng.random() < 0.7
    values = list(model.graph.input)
    for number, (value, given) in enumerate(
        zip(values, case.data_sets[0][0], strict=False)
    ):
        if not isinstance(given, (np.ndarray, np.generic)):
            continue
        if number and fixed:
            model.graph.initializer.append(numpy_helper.from_array(given, value.name))
            model.graph.input.remove(value)
        else:
            arrays[value.name] = np.asarray(given)
    return model.SerializeToString(), arrays


def images(seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(1, 3, 8, 8)).astype(np.float32)


@cache
def networks() -> list[bytes]:
    """A network of some common operators: float, of 8 bits, and of 4-bit weights."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["c", "low", "high"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["p", "", "scales"], ["u"], mode="nearest"),
        helper.make_node("Add", ["u", "r"], ["s"]),
        helper.make_node("Shape", ["s"], ["size"]),
        helper.make_node("Gather", ["size", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["s", "shape"], ["f"]),
        helper.make_node("Gemm", ["f", "g", "h"], ["l"], transB=1),
        helper.make_node("Softmax", ["l"], ["y"], axis=-1),
    ]
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "b": rng.normal(size=4).astype(np.float32),
        "low": np.float32(0),
        "high": np.float32(6),
        "scales": np.float32([1, 1, 2, 2]),
        "zero": np.int64([0]),
        "rest": np.int64([-1]),
        "g": rng.normal(size=(5, 256)).astype(np.float32),
        "h": rng.normal(size=5).astype(np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model = quant.load(proto)
    small = model.quantize(model.calibrate([images(2)]))
    found = [proto.SerializeToString()]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        for made in (small, model.quantize_weights(weight_dtype=quant.qint4)):
            made.save(path)
            found.append(path.read_bytes())
    return found


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes, or one to three parts of the model."""
    if rng.random() < 0.35:
        return _mutate_bytes(bytearray(data), rng)
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(SURGERY)(model, rng)
    return model.SerializeToString()


def _mutate_bytes(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.choice([1, 2, 8]))
        elif kind == 3:
            del data[at : at + rng.choice([1, 2, 8])]
        else:
            data[at : at + 4] = data[: rng.choice([1, 4, 9])]
    return bytes(data)


def _node(model: Any, rng: random.Random) -> Any:
    return rng.choice(model.graph.node) if model.graph.node else onnx.NodeProto()


def _attribute_value(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    if not node.attribute:
        return
    a = rng.choice(node.attribute)
    a.i, a.f, a.s = rng.choice(INTS), rng.choice(FLOATS), rng.choice(TEXTS)
    if a.ints:
        a.ints[rng.randrange(len(a.ints))] = rng.choice(INTS)
    if a.floats:
        a.floats[rng.randrange(len(a.floats))] = rng.choice(FLOATS)


def _attribute_length(model: Any, rng: random.Random) -> None:
    for a in _node(model, rng).attribute:
        if a.ints and rng.random() < 0.5:
            a.ints.append(rng.choice(INTS))
        elif a.ints:
            a.ints.pop()


def _attribute_kind(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    if not node.attribute:
        return
    a = rng.choice(node.attribute)
    what = rng.randrange(4)
    if what == 0:
        a.type = rng.randrange(15)
    elif what == 1:
        a.ref_attr_name = rng.choice(["alpha", "x"])
    elif what == 2:
        node.attribute.append(a)
    else:
        node.attribute.remove(a)


def _new_attribute(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    try:
        known = onnx.defs.get_schema(node.op_type, node.domain).attributes
    except onnx.defs.SchemaError:
        return
    if known:
        value: Any = rng.choice([rng.choice(INTS), [rng.choice(INTS)] * 2, "foo", 0.5])
        name = rng.choice(sorted(known))
        node.attribute.append(helper.make_attribute(name, value))


def _inputs(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    names = [*node.input, "", "gone", *(t.name for t in model.graph.initializer)]
    if node.input and rng.random() < 0.7:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif node.input and rng.random() < 0.5:
        node.input.pop()
    else:
        node.input.append(rng.choice(names))


def _outputs(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    if node.output and rng.random() < 0.5:
        node.output.append(rng.choice(["", "more", node.output[0]]))
    elif node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(["", "other", "x"])


def _operator(model: Any, rng: random.Random) -> None:
    kinds = sorted({s.name for s in onnx.defs.get_all_schemas()})
    _node(model, rng).op_type = rng.choice(kinds)


def _opset(model: Any, rng: random.Random) -> None:
    for entry in model.opset_import:
        entry.version = rng.choice([*range(7, 29), 0, 2**40])


def _constant(model: Any, rng: random.Random) -> None:
    """Replace one element of a constant, its shape or its type."""
    if not model.graph.initializer:
        return
    tensor = rng.choice(model.graph.initializer)
    what = rng.randrange(4)
    if what == 0:
        tensor.data_type = rng.randrange(30)
    elif what == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(INTS)
    else:
        _element(tensor, rng)


def _element(tensor: Any, rng: random.Random) -> None:
    try:
        array = np.array(numpy_helper.to_array(tensor))
    except Exception:
        return  # an earlier change damaged it
    if not array.size or array.dtype.kind not in "fiub":
        return
    value = rng.choice(FLOATS if array.dtype.kind == "f" else INTS)
    with np.errstate(all="ignore"):
        array.reshape(-1)[rng.randrange(array.size)] = np.array([value]).astype(
            array.dtype
        )[0]
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _input_shape(model: Any, rng: random.Random) -> None:
    if not model.graph.input:
        return
    kind = rng.choice(model.graph.input).type.tensor_type
    if kind.shape.dim and rng.random() < 0.7:
        kind.shape.dim[rng.randrange(len(kind.shape.dim))].dim_value = rng.choice(INTS)
    else:
        kind.elem_type = rng.randrange(28)


def _copy_node(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    model.graph.node.insert(rng.randrange(len(model.graph.node) + 1), node)


def _metadata(model: Any, rng: random.Random) -> None:
    entry = model.metadata_props.add()
    entry.key = rng.choice(
        ["mdtensor.notes", "mdtensor.rounding", "mdtensor.narrow_range"]
    )
    entry.value = rng.choice(["", "{}", "[" * 9_999, "[1]", '{"a": 1}', "exact"])


SURGERY = [
    *(_attribute_value, _attribute_value, _attribute_length, _attribute_kind),
    *(_new_attribute, _inputs, _outputs, _operator, _opset, _constant, _constant),
    *(_constant, _input_shape, _copy_node, _metadata),
]
