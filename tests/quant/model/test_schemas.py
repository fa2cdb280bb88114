"""Nodes against their declarations: invalid ones name node, attribute and numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from mdtensor.errors import ModelError
from mdtensor.quant import onnx_backend
from mdtensor.quant.model.load import load

SHAPE = (1, 3, 4, 4)
X = np.arange(48, dtype=np.float32).reshape(SHAPE)
INTS = np.int64


def model(
    kind: str,
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    outputs: tuple[str, ...] = ("y",),
    **attributes: Any,
) -> Any:
    """A model of one node called `here`, with x and constants as inputs."""
    arrays = {n: np.asarray(c) for n, c in (constants or {}).items() if c is not None}
    names = ["x", *(n if n in arrays else "" for n in constants or {})]
    node = helper.make_node(kind, names, outputs, "here", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def changed(proto: Any, change: Callable[[Any], Any]) -> Any:
    change(proto.graph.node[0])
    return proto


def set_reference(node: Any) -> None:
    node.attribute[0].ref_attr_name = "alpha"


def weights(*shape: int) -> Any:
    return np.ones(shape, np.float32)


ONE, TWO = ("y",), ("y", "z")
# ONNX Runtime refuses each of them, for the same reason.
INVALID = {
    "an attribute of another type": (
        model("LeakyRelu", alpha=1),
        "has an attribute 'alpha' of type INT. Use type FLOAT",
    ),
    "a number for a text": (
        model("Pad", {"p": INTS([0] * 8)}, mode=3),
        "has an attribute 'mode' of type INT. Use type STRING",
    ),
    "a float for a flag": (
        model("Trilu", upper=1.5),
        "has an attribute 'upper' of type FLOAT. Use type INT",
    ),
    "a number for a tensor": (
        model("ConstantOfShape", value=1.5),
        "has an attribute 'value' of type FLOAT. Use type TENSOR",
    ),
    "an attribute twice": (
        changed(
            model("Softmax", axis=3),
            lambda n: n.attribute.append(helper.make_attribute("axis", 1)),
        ),
        "has the attribute 'axis' twice",
    ),
    "no attribute": (model("Cast"), "does not have the attribute 'to'"),
    "a reference outside a function": (
        changed(model("Softmax", axis=1), set_reference),
        "reads its attribute 'axis' from 'alpha' of a function",
    ),
    "too few inputs": (model("Add"), "has 1 inputs, expected 2"),
    "too many inputs": (
        model("Relu", {"w": weights(1)}),
        "has 2 inputs, expected 1",
    ),
    "an input left out": (
        model("Clip", {"a": None, "b": None, "c": None}),
        "has 4 inputs, expected 1 to 3",
    ),
    "too many outputs": (model("Relu", outputs=TWO), "has 2 outputs, expected 1"),
    "another text": (
        model(
            "NegativeLogLikelihoodLoss",
            {"t": INTS(np.zeros((1, 4, 4)))},
            reduction="no",
        ),
        "has reduction='no'. Use mean or sum or none",
    ),
    "parts that are fewer": (
        model("Split", {"s": INTS([1, 1])}, outputs=TWO, axis=1),
        "splits an axis of size 3 into parts of 1, 1",
    ),
    "parts that are more": (
        model("Split", {"s": INTS([2, 5])}, outputs=TWO, axis=1),
        "splits an axis of size 3 into parts of 2, 5",
    ),
    "a negative part": (
        model("Split", {"s": INTS([5, -2])}, outputs=TWO, axis=1),
        "splits an axis of size 3 into parts of 5, -2",
    ),
    "parts that are not equal": (
        model("Split", opset=13, outputs=TWO, axis=1),
        "splits an axis of size 3 into 2 equal parts",
    ),
    "parts for other outputs": (
        model("Split", {"s": INTS([1, 1, 1])}, outputs=TWO, axis=1),
        "has 3 numbers as sizes of its outputs, expected 2",
    ),
    "no parts": (
        model("Split", opset=18, axis=1, num_outputs=0),
        "has num_outputs=0. Supported is 1",
    ),
    "billions of parts": (
        model("Split", opset=18, axis=1, num_outputs=2**31),
        "has num_outputs=2147483648. Supported is 1",
    ),
    "axes twice": (
        model("Slice", {"b": INTS([0, 1]), "e": INTS([2, 3]), "a": INTS([1, -3])}),
        "names an axis twice: axes=(1, -3)",
    ),
    "a step of 0": (
        model(
            "Slice",
            {"b": INTS([0]), "e": INTS([2]), "a": INTS([1]), "s": INTS([0])},
        ),
        "has a step of 0",
    ),
    "new axes twice": (
        model("Unsqueeze", {"a": INTS([0, -6])}),
        "names an axis twice: axes=(0, -6)",
    ),
    "a norm of order 3": (
        model("LpNormalization", p=3),
        "has p=3. Supported is 2 or 1",
    ),
    "zero points for one scale": (
        model("QuantizeLinear", {"s": np.float32(1), "z": np.int8([0, 1, 2])}, axis=1),
        "has 1 scales and 3 zero points",
    ),
    "one zero point for scales": (
        model("QuantizeLinear", {"s": weights(3), "z": np.int8(0)}, axis=1),
        "has 3 scales and 1 zero points",
    ),
    "a ratio": (model("Dropout", {"r": np.float32(9)}), "has ratio=9.0"),
    "another window": (
        model("Conv", {"w": weights(2, 3, 2, 2)}, kernel_shape=[3, 3]),
        "has kernel_shape=(3, 3) and weights of shape (2, 3, 2, 2)",
    ),
    "another window, transposed": (
        model("ConvTranspose", {"w": weights(3, 3, 2, 2)}, kernel_shape=[3, 3]),
        "has kernel_shape=(3, 3) and weights of shape (3, 3, 2, 2)",
    ),
    "dilations of three axes": (
        model("Conv", {"w": weights(2, 3, 2, 2)}, dilations=[1, 1, 1]),
        "has 3 numbers as dilations, expected 2",
    ),
    "half the pads": (
        model("MaxPool", kernel_shape=[2, 2], pads=[1, 1]),
        "has 2 numbers as pads, expected 4",
    ),
    "strides of one axis": (
        model("AveragePool", kernel_shape=[2, 2], strides=[1]),
        "has 1 numbers as strides, expected 2",
    ),
    "blocks of 0": (
        model("SpaceToDepth", blocksize=0),
        "has blocksize=0. Use one from",
    ),
    "blocks of 0 back": (
        model("DepthToSpace", blocksize=0),
        "has blocksize=0. Use one",
    ),
    "blocks that do not fit": (
        model("SpaceToDepth", blocksize=3),
        "has images of 4 by 4 and blocksize=3",
    ),
    "an infinite scale": (
        model("Resize", {"r": None, "s": np.float32([1, 1, np.inf, 1])}),
        "has a scale of inf",
    ),
    "a scale of 0": (
        model("Resize", {"r": None, "s": np.float32([1, 1, 0, 1])}),
        "has a scale of 0.0",
    ),
    "scales for fewer axes": (
        model("Resize", {"r": None, "s": np.float32([1, 1])}),
        "has 2 numbers as scales, expected 4",
    ),
    "a negative size": (
        model("Resize", {"r": None, "s": None, "n": INTS([1, 3, -4, 4])}),
        "has a size=-4",
    ),
    "a negative stride": (
        model("LpPool", kernel_shape=[2, 2], strides=[-1, 1]),
        "has strides=-1. Use one from 1",
    ),
    "a dilation of 0": (
        model("MaxPool", kernel_shape=[2, 2], dilations=[0, 1]),
        "has dilations=0. Use one from 1",
    ),
    "a window of 0": (
        model("AveragePool", kernel_shape=[0, 2]),
        "has kernel_shape=0. Use one from 1",
    ),
    "a dilation beyond the image": (
        model("MaxPool", kernel_shape=[2, 2], dilations=[9, 1]),
        "has a window of 10 over 4 elements with pads 0 and 0",
    ),
    "windows of padding alone": (
        model("LpPool", kernel_shape=[2, 2], pads=[9, 0, 0, 0]),
        "has pads 9 and 0 around a window of 2",
    ),
    **{
        f"an output_shape of {sizes}": (
            model("ConvTranspose", {"w": weights(3, 2, 2, 2)}, output_shape=sizes),
            f"has output_shape {sizes}. Give 2 sizes, or 1 and 2 in front of them",
        )
        for sizes in ([5], [2, 5, 5], [1, 3, 5, 5], [2, 2, 5, 5], [1, 1, 2, 5, 5])
    },
    "half the pads, transposed": (
        model("ConvTranspose", {"w": weights(3, 3, 2, 2)}, pads=[1, 1]),
        "has 2 numbers as pads, expected 4",
    ),
    **{
        f"two paddings of {kind}": (
            model(kind, given, pads=[1, 0, 0, 0], auto_pad=name, **options),
            f"has pads=(1, 0, 0, 0) and auto_pad={name}",
        )
        for kind, given, options in (
            ("Conv", {"w": weights(2, 3, 2, 2)}, {}),
            ("ConvTranspose", {"w": weights(3, 3, 2, 2)}, {}),
            ("MaxPool", {}, {"kernel_shape": [2, 2]}),
        )
        for name in ("VALID", "SAME_UPPER")
    },
    "a norm below 1": (model("LpPool", kernel_shape=[2, 2], p=0), "has p=0.0"),
    "an order of storage": (
        model("MaxPool", outputs=TWO, kernel_shape=[2, 2], storage_order=5),
        "has storage_order=5. Use 0 or 1",
    ),
    "a sum that excludes thrice": (
        model("CumSum", {"a": INTS(0)}, exclusive=3),
        "has exclusive=3. Use 0 or 1",
    ),
    "a negative size to expand to": (
        model("Expand", {"s": INTS([1, 3, -1, 4])}),
        "has a size=-1",
    ),
    "repetitions of one axis": (
        model("Tile", {"n": INTS([2])}),
        "has 1 numbers as repetitions, expected 4",
    ),
    "a negative axis in perm": (
        model("Transpose", perm=[0, 1, 2, -1]),
        "has an axis of perm=-1. Use one from 0 to 3",
    ),
    "three values of OneHot": (
        model("OneHot", {"d": INTS(3), "v": weights(3)}),
        "has values of shape (3,)",
    ),
    "a matrix of four axes": (
        model("Gemm", {"w": weights(4, 2)}),
        "has 4 numbers as the shape of 'x', expected 2",
    ),
    "a remainder of floats": (model("Mod", {"y": weights(4)}), "with fmod=0"),
    "a cubic curve without factor": (
        model(
            "Resize",
            {"r": None, "s": np.float32([1, 1, 2, 2])},
            mode="cubic",
            cubic_coeff_a=np.nan,
        ),
        "has cubic_coeff_a=nan",
    ),
    "a cast to complex numbers": (
        model("Cast", to=TensorProto.COMPLEX64),
        "has a result of complex64, which operator set 17 does not allow",
    ),
    "weights of integers": (
        model("PRelu", {"w": np.ones(1, np.int16)}),
        "reads 'w' of int16, which operator set 17 does not allow",
    ),
    "an axis twice in perm": (
        model("Transpose", perm=[0, 1, 1, 2]),
        "names an axis twice: perm=(0, 1, 1, 2)",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_nodes_name_themselves(name: str) -> None:
    """In graphs, and in the backend, which reads by the same functions."""
    proto, words = INVALID[name]
    kind = proto.graph.node[0].op_type
    with pytest.raises(ModelError) as raised:
        load(proto)
    assert str(raised.value).startswith(f"{kind} 'here' ")
    assert words in str(raised.value)
    with pytest.raises(ModelError, match=f"^{kind} 'here' "):
        onnx_backend.run_model(proto, [X])


def test_every_declared_type_is_the_only_one() -> None:
    """For each attribute of Softmax and Pad, each of the eleven other types."""
    kinds = AttributeProto.AttributeType
    for proto in (
        model("Softmax", axis=1),
        model("Pad", {"p": INTS([0] * 8)}, mode="edge"),
    ):
        right = proto.graph.node[0].attribute[0].type
        load(proto)
        for kind in kinds.values():
            proto.graph.node[0].attribute[0].type = kind
            if kind != right:
                with pytest.raises(ModelError, match=f"of type {kinds.Name(kind)}"):
                    load(proto)


TEXT = "ZZ"


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.graph.node[0], "op_type", TEXT),
        lambda m: setattr(m.graph.node[0], "domain", TEXT),
        lambda m: setattr(m.graph.node[0], "name", TEXT),
        lambda m: setattr(m.graph.node[0].attribute[0], "name", TEXT),
        lambda m: m.graph.node[0].output.append(TEXT),
        lambda m: m.graph.node[0].input.append(TEXT),
        lambda m: setattr(m.graph.input[0], "name", TEXT),
        lambda m: setattr(m.graph.output[0], "name", TEXT),
        lambda m: setattr(m.graph.initializer[0], "name", TEXT),
        lambda m: setattr(m.opset_import[0], "domain", TEXT),
        lambda m: setattr(m.metadata_props.add(), "key", TEXT),
        lambda m: setattr(m.metadata_props.add(), "value", TEXT),
    ],
)
def test_names_that_are_not_text(change: Callable[[Any], None]) -> None:
    proto = model("Pad", {"p": INTS([0] * 8)}, mode="edge")
    change(proto)
    damaged = proto.SerializeToString().replace(TEXT.encode(), b"\xff\xfe")
    with pytest.raises(ModelError, match="is not UTF-8"):
        load(onnx.ModelProto.FromString(damaged))
