"""Quantized TFLite files run in integers, with the bytes of LiteRT by its rule."""

from typing import Any

import numpy as np
import pytest
from support.each import each
from support.tflite_networks import (
    X,
    Y,
    coded,
    coded_network,
    linear_weights,
    weights,
)

import mdtensor as md
from bench.rivals.tflite_file import Step, Value, model, options_of
from mdtensor.quant import QuantizedTensor, dequantize
from mdtensor.quant.model.model import Model

Array = np.ndarray[Any, Any]
#: Nodes that only convert the inputs, or move elements.
ENDS = {"quantize", "permute_dims", "reshape"}


def codes_for(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def run(network: Model, content: bytes, *codes: Array) -> tuple[Any, ...]:
    """Results of a model for codes, which are given as the numbers they stand for."""
    feeds = {}
    specs = list(network.inputs)
    quantized = [n for n in network.graph.nodes if n.operation.__name__ == "quantize"]
    grids = {n.inputs[0]: n.options["qparams"] for n in quantized}
    for name, given in zip(specs, codes, strict=True):
        grid = grids[name]
        numbers = (given.astype(np.float64) - grid.zero) * float(grid.scale)
        feeds[name] = numbers.astype(np.float32)
    found = network.graph.run(feeds)
    return tuple(found[name] for name in network.outputs)


def same_bytes(
    content: bytes, load_bytes: Any, litert: Any, *codes: Array, within: int = 1
) -> Model:
    """Compare with the reference kernels: all bytes by their rule, nearly without."""
    network = load_bytes(content)
    theirs = litert(content)(*codes)
    for ours, other in zip(run(network, content, *codes), theirs, strict=True):
        assert isinstance(ours, QuantizedTensor)
        given = np.asarray(ours.codes).astype(int), other.astype(int)
        assert given[0].shape == given[1].shape
        assert np.abs(given[0] - given[1]).max() <= within
    ruled = network.rounded("tflite_ref")
    for ours, other in zip(run(ruled, content, *codes), theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(ours.codes), other)
    kinds = {node.operation.__name__ for node in network.graph.nodes}
    assert "dequantize" not in kinds
    return network


@each("number", [0, 1, 3])
@each("padding", [0, 1])
@each("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_convolutions(
    number: int, padding: int, kind: str, load_bytes: Any, litert: Any
) -> None:
    rng = np.random.default_rng(number)
    if kind == "CONV_2D":
        w, b = weights((6, 3, 3, 4), 0, rng)
        name, more = "Conv2D", {}
    else:
        w, b = weights((1, 3, 3, 4), 3, rng)
        name, more = "DepthwiseConv2D", {"DepthMultiplier": 1}
    values = [coded((1, 7, 6, 4), X), w, b, coded((), Y)]
    options = options_of(
        name,
        Padding=padding,
        StrideH=2,
        StrideW=2,
        FusedActivationFunction=number,
        **more,
    )
    content = model(values, [Step(kind, [0, 1, 2], 3, options)], [0], [3])
    same_bytes(content, load_bytes, litert, codes_for((1, 7, 6, 4), "int8"))


@each("number", [0, 2, 3])
@each("has_bias", [False, True])
def test_linear_layers(
    number: int, has_bias: bool, load_bytes: Any, litert: Any
) -> None:
    rng = np.random.default_rng(2)
    values = [coded((3, 12), X), *linear_weights((5, 12), 0.004, rng, X[0])]
    values.append(coded((), Y))
    options = options_of("FullyConnected", FusedActivationFunction=number)
    inputs = [0, 1, 2 if has_bias else -1]
    content = model(values, [Step("FULLY_CONNECTED", inputs, 3, options, 4)], [0], [3])
    same_bytes(content, load_bytes, litert, codes_for((3, 12), "int8"))


@each("dtype", ["int8", "uint8"])
@each("kind, name", [("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul")])
@each("number", [0, 1])
def test_two_operands(
    dtype: str, kind: str, name: str, number: int, load_bytes: Any, litert: Any
) -> None:
    shape = (1, 5, 6, 3)
    grids = (X, (0.02, 3), Y)
    values = [coded(shape, g, dtype) for g in grids[:2]] + [coded((), Y, dtype)]
    options = options_of(name, FusedActivationFunction=number)
    content = model(values, [Step(kind, [0, 1], 2, options, 2)], [0, 1], [2])
    codes = [codes_for(shape, dtype, seed) for seed in (1, 2)]
    same_bytes(content, load_bytes, litert, *codes)


CURVES = {
    "LOGISTIC": (1 / 256, -128),
    "TANH": (1 / 128, 0),
    "SOFTMAX": (1 / 256, -128),
    "HARD_SWISH": Y,
}


@each("kind", CURVES)
@each("dtype", ["int8", "uint8"])
def test_curves(kind: str, dtype: str, load_bytes: Any, litert: Any) -> None:
    shape = (3, 20)
    values = [coded(shape, X, dtype), coded((), CURVES[kind], dtype)]
    options = options_of("Softmax", Beta=1.0) if kind == "SOFTMAX" else None
    version = 1 if dtype == "uint8" or kind == "HARD_SWISH" else 2
    content = model(values, [Step(kind, [0], 1, options, version)], [0], [1])
    same_bytes(content, load_bytes, litert, codes_for(shape, dtype))


#: kind, options, constants after the operand: codes keep their grid.
MOVES: list[tuple[str, Any, list[Array], int]] = [
    (
        "MAX_POOL_2D",
        options_of("Pool2D", FilterHeight=2, FilterWidth=3, StrideH=2, StrideW=1),
        [],
        2,
    ),
    (
        "AVERAGE_POOL_2D",
        options_of("Pool2D", FilterHeight=2, FilterWidth=3, StrideH=2, StrideW=1),
        [],
        2,
    ),
    ("PAD", None, [np.int32([[0, 0], [1, 2], [0, 1], [0, 0]])], 2),
    ("RESHAPE", options_of("Reshape"), [np.int32([4, -1])], 1),
    ("TRANSPOSE", None, [np.int32([0, 3, 1, 2])], 2),
    (
        "RESIZE_NEAREST_NEIGHBOR",
        options_of("ResizeNearestNeighbor"),
        [np.int32([7, 5])],
        2,
    ),
    (
        "STRIDED_SLICE",
        options_of("StridedSlice"),
        [np.int32([0, 1, 0, 0]), np.int32([1, 4, 6, 3]), np.int32([1, 2, 2, 1])],
        2,
    ),
    (
        "STRIDED_SLICE",
        options_of("StridedSlice", NewAxisMask=1, EllipsisMask=2),
        [np.int32([0, 0, 1]), np.int32([0, 0, 3]), np.int32([1, 1, 1])],
        2,
    ),
    (
        "GATHER",
        options_of("Gather", Axis=2, BatchDims=1),
        [np.int32([[5, 0, 5]])],
        2,
    ),
    ("REDUCE_MAX", options_of("Reducer", KeepDims=True), [np.int32([1])], 2),
    ("DEPTH_TO_SPACE", options_of("DepthToSpace", BlockSize=2), [], 1),
]


@each("kind, options, constants, version", MOVES)
@each("dtype", ["int8", "uint8"])
def test_moves(
    kind: str,
    options: Any,
    constants: list[Array],
    version: int,
    dtype: str,
    load_bytes: Any,
    litert: Any,
) -> None:
    shape = (1, 4, 6, 4)
    values = [coded(shape, X, dtype)]
    values += [Value(c.shape, dtype=c.dtype.name, data=c) for c in constants]
    values.append(coded((), X, dtype))
    last = len(values) - 1
    version = 1 if dtype == "uint8" else version
    steps = [Step(kind, range(last), last, options, version)]
    content = model(values, steps, [0], [last])
    same_bytes(content, load_bytes, litert, codes_for(shape, dtype))


@each("keeps", [False, True])
def test_means_of_images(keeps: bool, load_bytes: Any, litert: Any) -> None:
    shape = (2, 5, 6, 3)
    axes = Value((2,), dtype="int32", data=np.int32([1, 2]))
    values = [coded(shape, X), axes, coded((), Y)]
    options = options_of("Reducer", KeepDims=keeps)
    content = model(values, [Step("MEAN", [0, 1], 2, options, 2)], [0], [2])
    same_bytes(content, load_bytes, litert, codes_for(shape, "int8"))


def test_concat(load_bytes: Any, litert: Any) -> None:
    values = [coded((1, 3, 4, 2), X), coded((1, 3, 4, 5), X), coded((), X)]
    options = options_of("Concatenation", Axis=3)
    content = model(values, [Step("CONCATENATION", [0, 1], 2, options, 2)], [0, 1], [2])
    codes = codes_for((1, 3, 4, 2), "int8"), codes_for((1, 3, 4, 5), "int8", 1)
    same_bytes(content, load_bytes, litert, *codes)


@each("first, second", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
def test_other_grids(first: str, second: str, load_bytes: Any, litert: Any) -> None:
    values = [coded((2, 40), X, first), coded((), Y, second)]
    content = model(values, [Step("QUANTIZE", [0], 1)], [0], [1])
    same_bytes(content, load_bytes, litert, codes_for((2, 40), first))


def test_a_network_runs_in_integers(load_bytes: Any, litert: Any) -> None:
    content = coded_network(np.random.default_rng(4))
    codes = codes_for((1, 16, 16, 3), "int8")
    loaded = same_bytes(content, load_bytes, litert, codes, within=2)
    plan = loaded.plan()
    assert {node.operation for node in plan.float_nodes} <= ENDS
    assert loaded.is_quantized
    name = next(iter(loaded.inputs))
    x = (codes.astype(np.float32) - X[1]) * np.float32(X[0])
    planned = loaded(x)
    (called,) = loaded.graph.run({name: x}).values()
    assert planned.codes.tolist() == called.codes.tolist()


def test_weights_of_codes_with_float_activations(load_bytes: Any, litert: Any) -> None:
    """LiteRT rounds the activations of such layers to 8 bits; here they stay floats."""
    rng = np.random.default_rng(5)
    w = rng.integers(-127, 128, (5, 64)).astype(np.int8)
    values = [
        Value((3, 64), dtype="float32"),
        Value(w.shape, 0.01, 0, data=w),
        Value((5,), dtype="float32", data=rng.normal(size=5).astype(np.float32)),
        Value((), dtype="float32"),
    ]
    options = options_of("FullyConnected")
    content = model(values, [Step("FULLY_CONNECTED", [0, 1, 2], 3, options)], [0], [3])
    x = rng.normal(size=(3, 64)).astype(np.float32)
    loaded = load_bytes(content)
    ours = np.asarray(loaded(x))
    exact = x.astype(np.float64) @ (w * np.float64(np.float32(0.01))).T + values[2].data
    np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-5)
    (theirs,) = litert(content)(x)
    assert np.abs(ours - theirs).max() < 0.02 * np.abs(theirs).max()
    assert loaded.is_quantized


def test_weights_of_4_bits(load_bytes: Any) -> None:
    rng = np.random.default_rng(6)
    w = rng.integers(-7, 8, (4, 5))
    halves = (w.reshape(-1) & 15).astype(np.uint8)
    packed = halves[::2] | (halves[1::2] << 4)
    values = [
        Value((2, 5), dtype="float32"),
        Value(w.shape, 0.25, 0, dtype="int4", data=packed),
        Value((), dtype="float32"),
    ]
    options = options_of("FullyConnected")
    content = model(values, [Step("FULLY_CONNECTED", [0, 1, -1], 2, options)], [0], [2])
    x = rng.integers(-8, 8, (2, 5)).astype(np.float32)
    assert np.asarray(load_bytes(content)(x)).tolist() == (x @ (w * 0.25).T).tolist()


def test_codes_of_16_bits(load_bytes: Any, litert: Any) -> None:
    rng = np.random.default_rng(7)
    w = rng.integers(-127, 128, (5, 12)).astype(np.int8)
    b = rng.integers(-(10**6), 10**6, 5).astype(np.int64)
    x_scale, y_scale = 0.0005, 0.002
    sums = float(np.float32(x_scale) * np.float32(0.01))
    values = [
        Value((3, 12), x_scale, 0, dtype="int16"),
        Value(w.shape, 0.01, 0, data=w),
        Value((5,), sums, 0, dtype="int64", data=b),
        Value((), y_scale, 0, dtype="int16"),
    ]
    options = options_of("FullyConnected")
    content = model(
        values, [Step("FULLY_CONNECTED", [0, 1, 2], 3, options, 7)], [0], [3]
    )
    codes = rng.integers(-32768, 32768, (3, 12)).astype(np.int16)
    (theirs,) = litert(content)(codes)
    network = load_bytes(content)
    (ours,) = run(network, content, codes)
    assert np.abs(np.asarray(ours.codes).astype(int) - theirs).max() <= 1
    assert "dequantize" not in {n.operation.__name__ for n in network.graph.nodes}


def test_inputs_and_results_on_grids(load_bytes: Any) -> None:
    """An input of codes takes numbers, a result of codes states its grid."""
    values = [coded((1, 4), X), coded((1, 4), X)]
    network = load_bytes(model(values, [Step("RELU", [0], 1, version=2)], [0], [1]))
    assert [str(spec) for spec in network.inputs.values()] == ["Float32Tensor[1,4]"]
    result = network(np.float32([[-1, 0, 0.5, 100]]))
    assert float(result.qparams.scale) == X[0]
    assert dequantize(result).tolist()[0][:3] == [0, 0, 0.5]


def test_a_bias_that_leaves_int32(load_bytes: Any) -> None:
    values = [
        Value((1, 2), 0.1, 0, dtype="int16"),
        Value((1, 2), 0.1, 0, data=np.int8([[1, 2]])),
        Value((1,), 0.01, 0, dtype="int64", data=np.int64([2**40])),
        Value((), 0.1, 0, dtype="int16"),
    ]
    content = model(values, [Step("FULLY_CONNECTED", [0, 1, 2], 3)], [0], [3])
    with pytest.raises(
        md.errors.ModelError, match="node 0 has a bias that leaves int32"
    ):
        load_bytes(content)
