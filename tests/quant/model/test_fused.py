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
#: A query of the first image may read masked keys only, if it may not read later ones.
FIRST_MASKED = np.array([[0, -1, 1, 1, 0], [1, 0, 1, 1, 2]], np.int32)
HEADS = {"num_heads": 3}
SKIP = (ROWS, normal(2, 5, 12), normal(12), normal(12), normal(12))
EMBED = (TOKENS, TOKENS % 2, normal(9, 12), normal(8, 12), normal(2, 12))
EMBED += (normal(12), normal(12))
QKV = (ROWS, normal(12, 36), normal(36))
BYTES = RNG.integers(0, 256, (2, 5, 12)).astype(np.uint8)
CODES = RNG.integers(-60, 61, (12, 36)).astype(np.int8)
SCALES = (np.float32([0.01]), np.float32([0.002]))
ZEROS = (np.uint8([100]), np.int8([3]))
#: Cosines and sines of 16 places, for heads of 16 numbers.
TURNS = tuple(f(RNG.random((16, 8), np.float32) * 3) for f in (np.cos, np.sin))
PLACES = RNG.integers(0, 16, (2, 5))
BATCHES = {"transBatchA": 1, "transBatchB": 1}
GROUPS = {"num_heads": 4, "kv_num_heads": 2}


def tokens(batch: int, length: int, past: int, last: list[int]) -> Any:
    """Queries, keys, values, caches, the last place of each row, and their number."""
    new = [normal(batch, length, heads * 16) for heads in (4, 2, 2)]
    cache = [normal(batch, 2, past, 16) if past else None for _ in range(2)]
    return (*new, *cache, np.int32(last), np.int32([past + length]))


#: Four tokens behind six; one behind six and one behind four; two rows of a prompt.
MANY, ONE, FIRST = (
    tokens(1, 4, 6, [9]),
    tokens(2, 1, 6, [6, 4]),
    tokens(2, 4, 0, [3, 2]),
)
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
    *(
        ("FusedMatMul", (normal(*left), normal(*right)), options, 1)
        for left, right, options in (
            ((3, 2, 6, 4), (2, 6, 4, 5), {"transBatchA": 1}),
            ((2, 6, 3, 4), (4, 2, 6, 5), {"transBatchB": 1}),
            ((4, 2, 3), (5, 2, 4), {"transA": 1, "transB": 1} | BATCHES),
        )
    ),
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
    ("Attention", (*QKV, FIRST_MASKED), {**HEADS, "unidirectional": 1}, 1),
    ("Attention", QKV, {**HEADS, "unidirectional": 1, "mask_filter_value": -2.0}, 1),
    ("Attention", (*QKV, None, None, normal(2, 3, 5, 5)), HEADS, 1),
    *(
        (
            "MultiHeadAttention",
            (ROWS, normal(2, keys, 12), normal(2, keys, 12)),
            {**HEADS, "unidirectional": 1},
            1,
        )
        for keys in (3, 5, 7)
    ),
    ("MultiHeadAttention", (ROWS, *SKIP[:2]), HEADS, 1),
    (
        "MultiHeadAttention",
        (ROWS, normal(2, 7, 12), normal(2, 7, 12), normal(36)),
        {**HEADS, "scale": 0.5},
        1,
    ),
    ("QAttention", (BYTES, CODES, normal(36), *SCALES, MASK, *ZEROS), HEADS, 1),
    (
        "QAttention",
        (BYTES, CODES, normal(36), *SCALES, None, *ZEROS),
        {**HEADS, "unidirectional": 1},
        1,
    ),
    *(
        ("RotaryEmbedding", (x, places, *TURNS), options, 1)
        for x in (normal(2, 5, 48), normal(2, 3, 5, 16))
        for places in (PLACES, np.array([3]))
        for options in ({}, {"interleaved": 1})
    ),
    (
        "RotaryEmbedding",
        (normal(2, 5, 54), PLACES, *TURNS),
        {"num_heads": 3, "rotary_embedding_dim": 16},
        1,
    ),
    *(
        ("GroupQueryAttention", (*given, *TURNS), {**GROUPS, **options}, 3)
        for given in (MANY, ONE, FIRST)
        for options in (
            {"do_rotary": 1},
            {"do_rotary": 1, "rotary_interleaved": 1, "scale": 0.25},
            {"local_window_size": 3},
        )
    ),
    ("GroupQueryAttention", (normal(1, 4, 128), None, None, *MANY[3:]), GROUPS, 3),
    *(
        (
            "GroupQueryAttention",
            (*given, *TURNS, None, bias, *more),
            {**GROUPS, **options},
            3,
        )
        for given, bias in (
            (MANY, normal(1, 1, 4, 10)),
            (ONE, normal(2, 4, 1, 7)),
            (FIRST, normal(1, 4, 4, 4)),
        )
        for more in ((), (normal(4),))
        for options in (
            {"softcap": 1.5, "local_window_size": 4},
            {"smooth_softmax": 1, "do_rotary": 1},
        )
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
    for at, pair in enumerate(zip(found, session.run(None, feeds), strict=True)):
        ours, theirs = pair
        assert ours.shape == theirs.shape
        error = np.abs(np.asarray(ours) - theirs)
        if kind == "GroupQueryAttention":
            error = error_of_tokens(error, feeds, at)
        assert error.max() < 2e-5


def error_of_tokens(error: Any, feeds: Any, at: int) -> Any:
    """Set the error to 0 behind the last token of each row, where nothing is defined.

    The last token is a place in the cache, and the result has the new ones only.
    """
    axis = 2 if at else 1
    size, total = error.shape[axis], int(feeds["in6"][0])
    shape = [1] * error.ndim
    shape[axis] = size
    # The new tokens of a prompt start at 0; behind a cache they end with the last one.
    steps = np.arange(size) if at or size == total else np.full(size, -1)
    last = feeds["in5"].reshape(-1, *[1] * (error.ndim - 1))
    return np.where(steps.reshape(shape) <= last, error, 0)


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
        ("RotaryEmbedding", (normal(2, 5, 4), PLACES, *TURNS), {}, "heads=0"),
        (
            "GroupQueryAttention",
            (*MANY, *TURNS, None, None, None, normal(1)),
            GROUPS,
            "input 12",
        ),
        (
            "GroupQueryAttention",
            (*MANY, *TURNS, None, normal(1, 3, 4, 10)),
            GROUPS,
            r"bias of shape \(1, 3, 4, 10\). Give it \(n, 1 or 4,",
        ),
        (
            "GroupQueryAttention",
            MANY,
            {"num_heads": 4, "kv_num_heads": 3},
            "kv_num_heads=3",
        ),
    ],
)
def test_what_is_refused(kind: str, inputs: Any, attributes: Any, wanted: str) -> None:
    with pytest.raises(ModelError, match=wanted):
        load(model_of(kind, inputs, attributes, 1)[0])


@pytest.mark.parametrize(
    ("kind", "domain", "wanted"),
    [
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
