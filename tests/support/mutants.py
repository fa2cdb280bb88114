"""Damaged ONNX models: bytes changed anywhere, or one part of the model replaced."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
INTS = [0, 1, -1, 2, 3, -2, 5, 7, 9, -9, 100, 2**15, 2**31, -(2**31), 2**62, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.7, 1e30, 1e-30, 1e9, np.inf, -np.inf, np.nan]
TEXTS = [b"", b"foo", b"nearest", b"linear", b"SAME_UPPER", b"VALID", b"CRD", b"\xff"]


@cache
def node_cases() -> list[Path]:
    """The folders of ONNX's own node tests."""
    data = Path(onnx.__file__).parent / "backend/test/data/node"
    return sorted(path.parent for path in data.glob("*/model.onnx"))


@cache
def inputs_of(folder: Path) -> list[Any]:
    """The tensors of the first data set of a case."""
    paths = sorted(folder.glob("test_data_set_0/input_*.pb"))
    paths.sort(key=lambda p: int(p.stem.partition("_")[2]))
    return [onnx.TensorProto.FromString(p.read_bytes()) for p in paths]


def base(rng: random.Random) -> tuple[bytes, dict[str, Array]]:
    """A valid model, and arrays for its inputs; some of them are made constants."""
    folder = rng.choice(node_cases())
    model = onnx.load(folder / "model.onnx")
    arrays: dict[str, Array] = {}
    fixed = rng.random() < 0.7
    pairs = list(zip(model.graph.input, inputs_of(folder), strict=False))
    for number, (value, tensor) in enumerate(pairs):
        if number and fixed and value.type.HasField("tensor_type"):
            tensor = onnx.TensorProto.FromString(tensor.SerializeToString())
            tensor.name = value.name
            model.graph.initializer.append(tensor)
            model.graph.input.remove(value)
        elif value.type.HasField("tensor_type"):
            arrays[value.name] = numpy_helper.to_array(tensor)
    return model.SerializeToString(), arrays


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
