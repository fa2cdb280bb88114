"""Quantize/DequantizeLinear: what is read, what becomes one call, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Graph
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QUInt8Tensor
from mdtensor.quant.model.onnx.qdq import fold_grids
from mdtensor.quant.model.onnx.read import read_graph
from mdtensor.quant.model.passes.simplify import simplify

F32 = np.float32
X = np.random.default_rng(2).standard_normal((1, 2, 4, 4), F32)


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], output, **attributes)


def pair(source: str, scale: str = "s", zero: str = "z") -> list[Any]:
    return [
        node("QuantizeLinear", f"{source} {scale} {zero}", f"{source}.q"),
        node("DequantizeLinear", f"{source}.q {scale} {zero}", f"{source}.d"),
    ]


CONSTANTS = {
    "s": F32(0.02),
    "z": np.uint8(120),
    "t": F32(0.05),
    "zero": np.uint8(0),
    "w": np.array([[[[3]], [[-5]]], [[[127]], [[0]]]], np.int8),
    "ws": np.array([0.01, 0.02], F32),
    "wz": np.zeros(2, np.int8),
    "b": np.array([100, -2000], np.int32),
    "bs": np.array([0.01, 0.02], F32) * F32(0.02),
    "bz": np.zeros(2, np.int32),
}
LAYER = [
    *pair("x"),
    node("DequantizeLinear", "w ws wz", "w.d", axis=0),
    node("DequantizeLinear", "b bs bz", "b.d", axis=0),
    node("Conv", "x.d w.d b.d", "c"),
]


def names(graph: Graph) -> list[str]:
    return [n.operation.__name__ for n in graph.nodes]


def check(path: Path, graph: Graph, onnxruntime_of: Any, steps: int = 0) -> None:
    wanted = onnxruntime_of(path, {"x": X})[0]
    found = np.asarray(graph.run({"x": X})["y"])
    assert np.abs(found - wanted).max() <= steps * 0.05 + 1e-6


def test_a_layer_becomes_one_call(make_model: Any, onnxruntime_of: Any) -> None:
    nodes = [*LAYER, *pair("c", "t"), node("Softmax", "c.d", "y", axis=1)]
    path = make_model(nodes, {"x": X.shape}, CONSTANTS, opset=13)
    literal = read_graph(path)
    graph = simplify(literal)
    assert names(graph) == ["quantize", "conv2d", "dequantize", "softmax"]
    kinds = [type(graph.constants[name]) for name in graph.nodes[1].inputs[1:]]
    assert kinds == [QInt8Tensor, QInt32Tensor]
    assert graph.specs()[graph.nodes[1].output].type is QUInt8Tensor
    check(path, literal, onnxruntime_of)
    check(path, graph, onnxruntime_of)


@pytest.mark.parametrize(
    ("zero", "left"), [("zero", ["conv2d"]), ("z", ["conv2d", "relu"])]
)
def test_a_relu_is_absorbed_where_the_grid_ends_at_0(
    zero: str, left: list[str], make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [*LAYER, node("Relu", "c", "r"), *pair("r", "t", zero)]
    nodes.append(node("Neg", "r.d", "y"))
    path = make_model(nodes, {"x": X.shape}, CONSTANTS, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph) == ["quantize", *left, "dequantize", "neg"]
    check(path, graph, onnxruntime_of)


def test_relu6_on_a_wide_grid_stays(make_model: Any, onnxruntime_of: Any) -> None:
    bounds = {"low": F32(0), "six": F32(6)}
    nodes = [*LAYER, node("Clip", "c low six", "r"), *pair("r", "t", "zero")]
    nodes.append(node("Neg", "r.d", "y"))
    path = make_model(nodes, {"x": X.shape}, {**CONSTANTS, **bounds}, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph) == ["quantize", "conv2d", "relu6", "dequantize", "neg"]
    check(path, graph, onnxruntime_of)


@pytest.mark.parametrize("scale", ["s", "t"])
def test_moving_operations_need_the_same_grid(
    scale: str, make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [*pair("x"), node("MaxPool", "x.d", "p", kernel_shape=[2, 2])]
    nodes += [*pair("p", scale), node("Softmax", "p.d", "y")]
    path = make_model(nodes, {"x": X.shape}, CONSTANTS, opset=13)
    graph = simplify(read_graph(path))
    wanted = ["quantize", "max_pool2d", "dequantize", "softmax"]
    if scale == "t":
        wanted = ["quantize", "dequantize", "max_pool2d", *wanted[:1], *wanted[2:]]
    assert names(graph) == wanted
    check(path, graph, onnxruntime_of)


@pytest.mark.parametrize("border", [1.0, 0.03])
def test_what_the_grid_does_not_keep_stays_float(
    border: float, make_model: Any, onnxruntime_of: Any
) -> None:
    widths = {"widths": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "border": F32(border)}
    nodes = [
        *pair("x"),
        node("Neg", "x.d", "n"),
        *pair("n"),
        node("Pad", "n.d widths border", "p"),
        *pair("p"),
        node("Softmax", "p.d", "y"),
    ]
    path = make_model(nodes, {"x": X.shape}, {**CONSTANTS, **widths}, opset=13)
    graph = simplify(read_graph(path))
    specs = graph.specs()
    for name in ("n", "p"):
        source = next(n.inputs[0] for n in graph.nodes if n.output == name)
        assert specs[source].qparams is None
    check(path, graph, onnxruntime_of)


@pytest.mark.parametrize(
    ("operator", "quantized"), [("BatchNormalization", False), ("Softmax", True)]
)
def test_what_has_no_method_stays_between_its_grids(
    make_model: Any, onnxruntime_of: Any, operator: str, quantized: bool
) -> None:
    given = "x.d" if quantized else "x.d one one one one"
    nodes = [
        *pair("x"),
        node(operator, given, "f"),
        *pair("f"),
        node("Neg", "f.d", "y"),
    ]
    constants = {**CONSTANTS, "one": np.ones(X.shape[1], F32)}
    path = make_model(nodes, {"x": X.shape}, constants, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph).count("quantize") == (1 if quantized else 2)
    check(path, graph, onnxruntime_of)


def test_a_float_reader_besides_keeps_both_paths(
    make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [*LAYER, *pair("c", "t"), node("Add", "c c.d", "y")]
    path = make_model(nodes, {"x": X.shape}, CONSTANTS, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph).count("conv2d") == 1
    check(path, graph, onnxruntime_of)


def test_constants_may_be_quantized_in_the_file(
    make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [*pair("x"), *pair("k"), node("Mul", "x.d k.d", "m"), *pair("m")]
    nodes.append(node("Neg", "m.d", "y"))
    constants = {**CONSTANTS, "k": np.array([1.36, -2], F32).reshape(2, 1, 1)}
    path = make_model(nodes, {"x": X.shape}, constants, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph) == ["quantize", "mul", "dequantize", "neg"]
    assert type(graph.constants["k.q"]) is QUInt8Tensor
    check(path, graph, onnxruntime_of)


def test_without_a_zero_point_codes_are_uint8(make_model: Any) -> None:
    nodes = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")]
    path = make_model(nodes, {"x": X.shape}, CONSTANTS, opset=13)
    grid = read_graph(path).nodes[0].options["qparams"]
    assert (grid.zero, grid.dtype) == (0, QUInt8Tensor.dtype)


def test_the_type_of_codes_may_be_an_attribute(make_model: Any) -> None:
    nodes = [node("QuantizeLinear", "x s", "q", output_dtype=3)]
    nodes.append(node("DequantizeLinear", "q s", "y"))
    path = make_model(nodes, {"x": X.shape}, CONSTANTS, opset=21)
    assert read_graph(path).nodes[0].options["qparams"].dtype is QInt8Tensor.dtype


def test_a_product_with_scales_by_column_is_a_linear_layer(
    make_model: Any, onnxruntime_of: Any
) -> None:
    constants = {
        **CONSTANTS,
        "m": np.arange(-6, 6, dtype=np.int8).reshape(4, 3),
        "ms": np.array([0.01, 0.03, 0.02], F32),
    }
    nodes = [
        *pair("x"),
        node("DequantizeLinear", "m ms", "m.d", axis=1),
        node("MatMul", "x.d m.d", "p"),
        *pair("p", "t"),
        node("Neg", "p.d", "y"),
    ]
    path = make_model(nodes, {"x": X.shape}, constants, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph) == ["quantize", "linear", "dequantize", "neg"]
    check(path, graph, onnxruntime_of, steps=1)


@pytest.mark.parametrize(("transposed", "axis"), [(0, 1), (1, 0)])
def test_gemm_takes_dequantized_weights_either_way(
    transposed: int, axis: int, make_model: Any, onnxruntime_of: Any
) -> None:
    shape = (3, 32) if transposed else (32, 3)
    constants = {
        **CONSTANTS,
        "m": np.random.default_rng(0).integers(-127, 128, shape, np.int8),
        "ms": np.array([0.001, 0.003, 0.002], F32),
        "flat": np.array([1, 32]),
    }
    nodes = [
        *pair("x"),
        node("Reshape", "x.d flat", "r"),
        *pair("r"),
        node("DequantizeLinear", "m ms", "m.d", axis=axis),
        node("Gemm", "r.d m.d", "p", transB=transposed),
        *pair("p", "t"),
        node("Neg", "p.d", "y"),
    ]
    path = make_model(nodes, {"x": X.shape}, constants, opset=13)
    graph = simplify(read_graph(path))
    wanted = ["quantize", "reshape", "linear", "dequantize", "neg"]
    assert names(graph) == wanted
    check(path, graph, onnxruntime_of, steps=1)


@pytest.mark.parametrize(("sizes", "left"), [((4, 1, 2), ["reshape"]), ((2, 2, 2), [])])
def test_codes_with_scales_do_not_tear_in_a_reshape(
    make_model: Any, onnxruntime_of: Any, sizes: Any, left: list[str]
) -> None:
    """Which moves to the constant if that keeps the axis of the scales."""
    constants = {
        "m": np.arange(8, dtype=np.int8).reshape(2, 4),
        "ms": np.array([0.5, 0.25], F32),
        "wide": np.array([1, *sizes]),
    }
    nodes = [
        node("DequantizeLinear", "m ms", "m.d", axis=0),
        node("Reshape", "m.d wide", "r"),
        node("Add", "x r", "y"),
    ]
    path = make_model(nodes, {"x": (1, *sizes)}, constants, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph) == ["dequantize", *left, "add"]
    feeds = {"x": np.ones((1, *sizes), F32)}
    assert (np.asarray(graph.run(feeds)["y"]) == onnxruntime_of(path, feeds)[0]).all()


def test_scales_by_channel_of_images_stay_float(
    make_model: Any, onnxruntime_of: Any
) -> None:
    by_channel = {"cs": np.array([0.02, 0.03], F32), "cz": np.array([9, 90], np.uint8)}
    nodes = [
        node("QuantizeLinear", "x cs cz", "q", axis=1),
        node("DequantizeLinear", "q cs cz", "d", axis=1),
        node("Relu", "d", "r"),
        *pair("r"),
        node("Neg", "r.d", "y"),
    ]
    constants = {**CONSTANTS, **by_channel}
    path = make_model(nodes, {"x": X.shape}, constants, opset=13)
    graph = simplify(read_graph(path))
    assert names(graph).count("quantize") == 2
    check(path, graph, onnxruntime_of, steps=1)


REFUSED = [
    (
        [*pair("x")[:1], node("DequantizeLinear", "x.q s zero", "y")],
        "but its codes have the grid",
    ),
    ([node("DequantizeLinear", "i s z", "y", block_size=2)], "has blocks of 'i'"),
    ([node("DequantizeLinear", "i three zeros", "y")], "has 3 scales for an axis of"),
    ([node("QuantizeLinear", "x x z", "y")], "needs the scale as a constant"),
    ([node("QuantizeLinear", "x bad z", "y")], "a scale is"),
    ([node("QuantizeLinear", "x s z", "y", block_size=2)], "with axis=1, block_size=2"),
    ([node("QuantizeLinear", "x half z", "y")], "which must be of one type"),
    (
        [node("Cast", "x", "h", to=11), node("QuantizeLinear", "h double z", "y")],
        "of double, which operator set 21 does not allow. Use one of bfloat16, float",
    ),
]


@pytest.mark.parametrize(("nodes", "words"), REFUSED, ids=lambda x: str(x)[:20])
def test_refuses(nodes: Any, words: str, make_model: Any) -> None:
    constants = {
        **CONSTANTS,
        "bad": F32(-1),
        "half": np.float16(1),
        "double": np.float64(1),
        "three": np.ones(3, F32),
        "zeros": np.zeros(3, np.uint8),
    }
    inputs = {"x": X.shape, "i": (2, X.shape), "j": (6, X.shape)}
    with pytest.raises(ModelError) as caught:
        read_graph(make_model(nodes, inputs, constants, opset=21))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folding_twice_changes_nothing(small_graph: Graph) -> None:
    assert names(fold_grids(small_graph)) == names(small_graph)


def test_the_own_quantization_of_onnxruntime(
    float_graph: Graph, crops: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    """A QDQ file of another tool becomes integer calls, and means the same."""
    import onnx
    from onnxruntime import quantization

    from mdtensor.quant.model.onnx.write import write_graph

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [crop.pixels for crop in crops[0]]

        def get_next(self) -> Any:
            return {"x": self.left.pop()} if self.left else None

    write_graph(float_graph, tmp_path / "f.onnx")
    assert onnx.load(tmp_path / "f.onnx").opset_import[0].version >= 13
    quantization.quantize_static(
        tmp_path / "f.onnx",
        tmp_path / "q.onnx",
        Samples(),
        per_channel=True,
        calibrate_method=quantization.CalibrationMethod.MinMax,
    )
    graph = simplify(read_graph(tmp_path / "q.onnx"))
    found = names(graph)
    assert found.count("conv2d") == 53
    specs = graph.specs()
    layers = [n for n in graph.nodes if n.operation is md.conv2d]
    assert all(specs[n.output].qparams for n in layers)
    feeds = {"x": crops[1][0].pixels}
    wanted = onnxruntime_of(tmp_path / "q.onnx", feeds)[0]
    result = np.asarray(graph.run(feeds)[graph.outputs[0]])
    np.testing.assert_allclose(result, wanted, atol=0.05)
