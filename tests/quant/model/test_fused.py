"""Operators that ONNX Runtime's optimizer writes, against ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support.each import each

from mdtensor.errors import ModelError
from mdtensor.quant import load

RNG = np.random.default_rng(4)
MS = "com.microsoft"


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


ROWS, IMAGE = normal(2, 5, 12), normal(1, 2, 7, 6)
TOKENS = RNG.integers(0, 9, (2, 5)).astype(np.int32)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
HEADS = {"num_heads": 3}
SKIP = (ROWS, normal(2, 5, 12), normal(12), normal(12), normal(12))
EMBED = (TOKENS, TOKENS % 2, normal(9, 12), normal(8, 12), normal(2, 12))
EMBED += (normal(12), normal(12))
QKV = (ROWS, normal(12, 36), normal(36))
#: Kind, inputs (None where one is omitted), attributes, the number of outputs.
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], int]] = [
    *(
        ("FusedConv", (IMAGE, normal(3, 2, 3, 3), normal(3)), options, 1)
        for options in (
            {"activation": "Relu", "pads": [1, 1, 1, 1]},
            {"activation": "LeakyRelu", "activation_params": [0.25]},
            {"activation": "Clip", "activation_params": [-0.5, 1.0]},
            {"activation": "HardSigmoid", "activation_params": [0.25, 0.5]},
        )
    ),
    (
        "FusedConv",
        (IMAGE, normal(3, 2, 3, 3), normal(3), normal(1, 3, 5, 4)),
        {"activation": "Relu"},
        1,
    ),
    (
        "FusedGemm",
        (normal(3, 4), normal(5, 4), normal(5)),
        {"activation": "LeakyRelu", "activation_alpha": 0.5, "transB": 1},
        1,
    ),
    ("FusedMatMul", (normal(2, 3, 4), normal(2, 5, 4)), {"transB": 1, "alpha": 0.5}, 1),
    ("FusedMatMul", (normal(2, 4, 3), normal(2, 4, 5)), {"transA": 1}, 1),
    ("Gelu", (ROWS,), {}, 1),
    ("BiasGelu", (ROWS, normal(12)), {}, 1),
    ("FastGelu", (ROWS, normal(12)), {}, 1),
    ("FastGelu", (ROWS,), {}, 1),
    ("QuickGelu", (ROWS,), {"alpha": 1.5}, 1),
    ("SkipLayerNormalization", SKIP[:3], {"epsilon": 0.01}, 1),
    ("SkipLayerNormalization", SKIP, {}, 4),
    ("SkipSimplifiedLayerNormalization", SKIP[:4], {}, 4),
    ("EmbedLayerNormalization", EMBED, {"epsilon": 0.01}, 2),
    ("EmbedLayerNormalization", (*EMBED, MASK), {}, 2),
    ("Attention", QKV, HEADS, 1),
    ("Attention", (*QKV, MASK), HEADS, 1),
    ("Attention", (*QKV, MASK), {**HEADS, "unidirectional": 1}, 1),
    ("Attention", (*QKV, None, None, normal(2, 3, 5, 5)), HEADS, 1),
    ("MultiHeadAttention", (ROWS, *SKIP[:2]), HEADS, 1),
    (
        "MultiHeadAttention",
        (ROWS, normal(2, 7, 12), normal(2, 7, 12), normal(36)),
        {**HEADS, "scale": 0.5},
        1,
    ),
]


def model_of(kind: str, inputs: Any, attributes: Any, count: int) -> Any:
    names = [f"in{at}" if x is not None else "" for at, x in enumerate(inputs)]
    # The outputs between the first and the last one are for training.
    ends = {0, count - 1} if count == 4 else {*range(count)}
    outputs = [f"out{at}" if at in ends else "" for at in range(count)]
    node = helper.make_node(kind, names, outputs, domain=MS, **attributes)
    given = {name: x for name, x in zip(names, inputs, strict=True) if name}
    code = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(n, code(x.dtype), x.shape)
            for n, x in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs if name],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8)
    for at, value in enumerate(model.graph.output):
        is_count = kind == "EmbedLayerNormalization" and at
        value.type.tensor_type.elem_type = (
            TensorProto.INT32 if is_count else TensorProto.FLOAT
        )
    return model, given


@each("kind, inputs, attributes, count", CASES)
def test_against_onnxruntime(
    kind: str, inputs: Any, attributes: Any, count: int
) -> None:
    model, feeds = model_of(kind, inputs, attributes, count)
    found = load(model)(**feeds)
    found = found if isinstance(found, tuple) else (found,)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for ours, theirs in zip(found, session.run(None, feeds), strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(np.asarray(ours) - theirs).max() < 2e-5


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "wanted"),
    [
        ("FusedConv", (IMAGE, normal(3, 2, 3, 3)), {"activation": "Erf"}, "=Erf"),
        ("Attention", (*QKV, MASK[:, :4]), HEADS, r"mask of shape \(2, 4\)"),
        ("Attention", QKV, {"num_heads": 0}, "num_heads=0"),
        ("Attention", QKV, HEADS | {"qkv_hidden_sizes": [12, 12, 99]}, "12, 12, 99"),
        ("Attention", QKV, HEADS | {"qkv_hidden_sizes": [12, 24]}, "expected 3"),
        ("QuickGelu", (IMAGE, IMAGE), {}, "2 inputs, expected 1"),
        ("BiasGelu", (IMAGE,), {}, "1 inputs, expected 2"),
        ("MultiHeadAttention", (normal(2, 5, 3, 3, 4),), HEADS, "packs q, k and v"),
    ],
)
def test_what_is_refused(kind: str, inputs: Any, attributes: Any, wanted: str) -> None:
    with pytest.raises(ModelError, match=wanted):
        load(model_of(kind, inputs, attributes, 1)[0])


@pytest.mark.parametrize(
    ("kind", "domain", "wanted"),
    [
        ("RandomNormalLike", "", "numbers as an input"),
        ("ReorderInput", "com.microsoft.nchwc", "ORT_ENABLE_EXTENDED"),
        ("StringNormalizer", "", "Text cannot be a tensor"),
        ("Sigmoids", "", "The nearest that is supported is 'Sigmoid'"),
    ],
)
def test_an_error_says_what_to_do(kind: str, domain: str, wanted: str) -> None:
    node = helper.make_node(kind, ["x"], ["y"], domain=domain)
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", 1, [2])], [value("y", 1, [2])])
    versions = [helper.make_opsetid(name, 17) for name in {"", domain}]
    with pytest.raises(ModelError, match=wanted):
        load(helper.make_model(graph, opset_imports=versions))
