"""QLinear operators: what ONNX Runtime's tool writes, against ONNX Runtime itself."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings, strategies as st
from onnx import helper, numpy_helper
from onnxruntime import quantization
from support.onnx_model import MICROSOFT, node, run

from mdtensor.cli import demo_data
from mdtensor.errors import MdtensorError, ModelError
from mdtensor.quant import load

F32, SHAPE = np.float32, (1, 3, 12, 12)
TYPES = {"uint8": quantization.QuantType.QUInt8, "int8": quantization.QuantType.QInt8}


class Samples(quantization.CalibrationDataReader):
    def __init__(self, arrays: list[Any]) -> None:
        self.left = list(arrays)

    def get_next(self) -> Any:
        return {"x": self.left.pop()} if self.left else None


def proto(nodes: Any, constants: Any, inputs: Any, outputs: Any, opset: int = 13):
    """A model: inputs as arrays of their type and shape, outputs as types."""
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(n, kind(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [
            helper.make_tensor_value_info(n, kind(np.dtype(t)), None)
            for n, t in outputs.items()
        ],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def network(rng: Any) -> Any:
    """A float network of operators that ONNX Runtime rounds by rule."""
    shapes = {"w1": (8, 3, 3, 3), "b1": 8, "w2": (8, 1, 3, 3), "b2": 8}
    shapes |= {"w3": (10, 16), "b3": 10, "w4": (10, 12)}
    constants = {k: rng.normal(0, 0.3, s).astype(F32) for k, s in shapes.items()}
    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1] * 4),
        node("Relu", "c1", "r1"),
        node("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p1 w2 b2", "c2", pads=[1] * 4, group=8),
        node("Add", "c2 p1", "a1"),
        node("Sigmoid", "a1", "s1"),
        node("Mul", "s1 a1", "m1"),
        node("LeakyRelu", "m1", "l1", alpha=0.1),
        node("Concat", "l1 p1", "j1", axis=1),
        node("AveragePool", "j1", "v1", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", "v1", "g1"),
        node("Flatten", "g1", "f1"),
        node("Gemm", "f1 w3 b3", "h1", transB=1),
        node("MatMul", "h1 w4", "y"),
    ]
    x = np.zeros(SHAPE, F32)
    return proto(nodes, constants, {"x": x}, {"y": F32, "v1": F32})


def quantized(model: Any, samples: Any, path: Path, **options: Any) -> Path:
    """The model as the tool writes it, of QLinear operators."""
    quantization.quantize_static(
        model,
        path,
        Samples(samples),
        quant_format=quantization.QuantFormat.QOperator,
        **options,
    )
    return path


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )


def operations(model: Any) -> list[str]:
    return [n.operation.__name__ for n in model.graph.nodes]


#: Types of activations and of weights.
MIXES = [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")]


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize(("kind", "weights"), MIXES)
def test_a_network_of_the_tool_gives_the_bytes_of_onnxruntime(
    kind: str, weights: str, per_channel: bool, rng: Any, tmp_path: Path
) -> None:
    """Weights of 7 bits, so that ONNX Runtime's sums of pairs do not saturate."""
    samples = rng.normal(0, 1, (8, *SHAPE)).astype(F32)
    path = quantized(
        network(rng),
        samples,
        tmp_path / "q.onnx",
        per_channel=per_channel,
        activation_type=TYPES[kind],
        weight_type=TYPES[weights],
        reduce_range=True,
    )
    model, theirs = load(path), session(path)
    found = operations(model)
    assert found[0] == "quantize"
    assert found.count("quantize") == 1
    nodes = model.plan().nodes
    assert not any(n.arithmetic == "float" for n in nodes)
    assert not any(n.why for n in nodes if n.operation in ("conv2d", "linear"))
    model.save(tmp_path / "saved.onnx")
    again, ruled = load(tmp_path / "saved.onnx"), model.rounded("ort_cpu")
    for x in rng.normal(0, 1, (10, *SHAPE)).astype(F32):
        for ours, wanted in zip(ruled(x), theirs.run(None, {"x": x}), strict=True):
            assert np.asarray(ours).tobytes() == wanted.tobytes()
        for ours, kept in zip(model(x), again(x), strict=True):
            assert np.asarray(ours).tobytes() == np.asarray(kept).tobytes()


#: An operator of codes; the float one, and the names of its operands; attributes.
SQUARE = {"kernel_shape": [2, 2], "strides": [2, 2]}
BOTH = "a sa za b sb zb sy zy"
FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "QLinearAdd": (BOTH, "Add", {}),
    "QLinearMul": (BOTH, "Mul", {}),
    "QLinearMatMul": (BOTH, "MatMul", {}),
    "QLinearConcat": ("sy zy a sa za b sb zb", "Concat", {"axis": 1}),
    "QLinearSigmoid": ("a sa za sy zy", "Sigmoid", {}),
    "QLinearLeakyRelu": ("a sa za sy zy", "LeakyRelu", {"alpha": 0.1}),
    "QLinearSoftmax": ("a sa za sy zy", "Softmax", {"axis": 3}),
    "QLinearAveragePool": ("a sa za sy zy", "AveragePool", SQUARE),
    "QLinearGlobalAveragePool": ("a sa za sy zy", "GlobalAveragePool", {}),
}
#: What only one side says.
ONLY_CODES = {"QLinearSoftmax": {"opset": 13}}
ONLY_CODES["QLinearGlobalAveragePool"] = {"channels_last": 0}


def entered(*names: str) -> list[Any]:
    return [node("QuantizeLinear", f"{n}f s{n} z{n}", n) for n in names]


def left() -> Any:
    return node("DequantizeLinear", "y sy zy", "yf")


def both_forms(kind: str, constants: Any, operands: str) -> tuple[Any, Any]:
    """One model, of an operator on codes, and as QDQ."""
    inputs, operator, attributes = FORMS[kind]
    domain = "" if kind == "QLinearMatMul" else MICROSOFT
    own = attributes | ONLY_CODES.get(kind, {})
    codes = [*entered(*operands), node(kind, inputs, "y", domain, **own), left()]
    pairs = [node("DequantizeLinear", f"{n} s{n} z{n}", f"{n}r") for n in operands]
    real = node(operator, " ".join(f"{n}r" for n in operands), "yr", **attributes)
    pairs += [real, node("QuantizeLinear", "yr sy zy", "y"), left()]
    feeds = {f"{n}f": np.zeros((1, 4, 6, 6), F32) for n in operands}
    return tuple(
        proto(nodes, constants, feeds, {"yf": F32})
        for nodes in (codes, entered(*operands) + pairs)
    )


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("code", [np.uint8, np.int8])
def test_it_is_the_model_that_qdq_is(kind: str, code: Any, rng: Any) -> None:
    operands = "ab" if "b sb zb" in FORMS[kind][0] else "a"
    middle = 128 if code is np.uint8 else 0
    grids = {"a": (0.031, 3), "b": (0.024, -9), "y": (0.045, -20)}
    constants = {f"s{n}": F32(s) for n, (s, _) in grids.items()}
    constants |= {f"z{n}": code(z + middle) for n, (_, z) in grids.items()}
    ours, pairs = (load(p) for p in both_forms(kind, constants, operands))
    if kind != "QLinearConcat":  # which QDQ has no codes of another grid for
        assert operations(ours) == operations(pairs)
    feeds = [rng.normal(0, 1.5, (1, 4, 6, 6)).astype(F32) for _ in operands]
    found, wanted = (np.asarray(m(*feeds)) for m in (ours, pairs))
    steps = np.abs(found - wanted) / F32(0.045)
    assert steps.max() < (1.01 if kind == "QLinearConcat" else 1e-6)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("count", [1, 5])
def test_gemm_reads_its_bias_as_products(transposed: int, count: int, rng: Any) -> None:
    """In the bytes of ONNX Runtime; without a grid behind it, it gives numbers."""
    shape = (5, 16) if transposed else (16, 5)
    constants = {
        "sx": F32(0.02),
        "zx": np.uint8(117),
        "sy": F32(0.6),
        "zy": np.uint8(99),
        "w": rng.integers(-63, 64, shape, np.int8),
        "sw": rng.uniform(0.01, 0.02, count).astype(F32),
        "zw": np.zeros(count, np.int8),
        "b": rng.integers(-9000, 9000, 5, np.int32),
    }
    x = rng.normal(0, 1, (7, 16)).astype(F32)
    first = node("QuantizeLinear", "x sx zx", "q")
    given, own = "q sx zx w sw zw b", {"domain": MICROSOFT, "transB": transposed}
    for inputs, last in ((f"{given} sy zy", "y"), (given, "yf")):
        gemm = helper.make_node("QGemm", inputs.split(), [last], **own)
        nodes = [first, gemm] + [left()] * (last == "y")
        ours = load(proto(nodes, constants, {"x": x}, {"yf": F32}))
        path = proto(nodes, constants, {"x": x}, {"yf": F32}).SerializeToString()
        theirs = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
        if last == "y":
            assert operations(ours) == ["quantize", "linear", "dequantize"]
            ours = ours.rounded("ort_cpu")
            assert np.asarray(ours(x)).tobytes() == theirs.tobytes()
        np.testing.assert_allclose(np.asarray(ours(x)), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [{}, {"pads": [2, 1], "strides": [2]}])
def test_a_convolution_over_one_axis_is_one_of_images(window: Any, rng: Any) -> None:
    constants = {
        "sx": F32(0.02),
        "zx": np.uint8(117),
        "sy": F32(0.2),
        "zy": np.uint8(99),
        "w": rng.integers(-63, 64, (8, 3, 3), np.int8),
        "sw": rng.uniform(0.01, 0.02, 8).astype(F32),
        "zw": np.zeros(8, np.int8),
        "b": rng.integers(-900, 900, 8, np.int32),
    }
    x = rng.normal(0, 1, (2, 3, 20)).astype(F32)
    nodes = [node("QuantizeLinear", "x sx zx", "q")]
    nodes += [node("QLinearConv", "q sx zx w sw zw sy zy b", **window), left()]
    model = load(proto(nodes, constants, {"x": x}, {"yf": F32}))
    (kernel,) = [n.kernel for n in model.plan().nodes if n.macs]
    assert kernel in ("gemm_u8s8u8", "windows_u8s8u8")
    theirs = run(nodes[:2], {"x": x}, constants, np.uint8)
    wanted = (theirs.astype(F32) - 99) * F32(0.2)
    assert np.asarray(model.rounded("ort_cpu")(x)).tolist() == wanted.tolist()


#: Operators of codes on one grid, each with its attributes and what else it reads.
MOVES: dict[str, tuple[str, dict[str, Any]]] = {
    "MaxPool": ("a", {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}),
    "Transpose": ("a", {"perm": [0, 2, 3, 1]}),
    "Reshape": ("a shape", {}),
    "Flatten": ("a", {}),
    "Unsqueeze": ("a axes", {}),
    "Slice": ("a axes four", {}),
    "Gather": ("a axes", {"axis": 2}),
    "Resize": ("a - sizes", {"mode": "nearest"}),
    "Identity": ("a", {}),
}


@pytest.mark.parametrize("kind", MOVES)
def test_codes_that_move_keep_their_grid(kind: str, rng: Any) -> None:
    given, attributes = MOVES[kind]
    constants = {"sa": F32(0.5), "za": np.uint8(120), "sy": F32(0.5)}
    constants |= {"zy": np.uint8(120), "shape": np.array([1, 8, -1])}
    constants |= {"axes": np.array([2]), "four": np.array([4])}
    constants |= {"sizes": np.array([1, 1, 2, 2], F32)}
    inputs = [name.replace("-", "") for name in given.split()]
    nodes = [*entered("a"), helper.make_node(kind, inputs, ["y"], **attributes)]
    x = rng.normal(0, 20, (1, 4, 6, 6)).astype(F32)
    model = load(proto([*nodes, left()], constants, {"af": x}, {"yf": F32}))
    theirs = run(nodes, {"af": x}, constants, np.uint8)
    wanted = (theirs.astype(F32) - 120) * F32(0.5)
    assert np.asarray(model(x)).tolist() == wanted.tolist()
    assert operations(model).count("dequantize") == 1


def test_codes_are_padded_with_a_code(rng: Any) -> None:
    for value in (0, 120, 131):
        constants = {
            "sa": F32(0.5),
            "za": np.uint8(120),
            "pads": np.array([0, 1, 2, 3]),
        }
        constants |= {"value": np.uint8(value), "sy": F32(0.5), "zy": np.uint8(120)}
        nodes = [*entered("a"), node("Pad", "a pads value", "y"), left()]
        x = rng.normal(0, 20, (4, 5)).astype(F32)
        model = load(proto(nodes, constants, {"af": x}, {"yf": F32}))
        theirs = run([nodes[0], nodes[1]], {"af": x}, constants, np.uint8)
        wanted = (theirs.astype(F32) - 120) * F32(0.5)
        assert np.asarray(model(x)).tolist() == wanted.tolist()


def test_pairs_of_grids_become_one_call(rng: Any) -> None:
    """As files have it where codes go from one grid to another."""
    constants = {"sa": F32(0.5), "za": np.uint8(120), "sy": F32(0.7), "zy": np.int8(-9)}
    middle = [node("DequantizeLinear", "a sa za", "r")]
    middle += [node("QuantizeLinear", "r sy zy", "y"), left()]
    x = rng.normal(0, 20, (40, 50)).astype(F32)
    nodes = [*entered("a"), *middle]
    model = load(proto(nodes, constants, {"af": x}, {"yf": F32}))
    assert operations(model) == ["quantize", "requantize", "dequantize"]
    theirs = run(nodes[:3], {"af": x}, constants, np.int8)
    assert (
        np.asarray(model(x)).tolist() == ((theirs.astype(F32) + 9) * F32(0.7)).tolist()
    )


CONV = "x sx zx w sw zw sy zy b"
CONSTANTS = {
    "sx": F32(0.02),
    "zx": np.uint8(117),
    "sy": F32(0.06),
    "zy": np.uint8(99),
    "sw": F32(0.02),
    "zw": np.int8(0),
    "b": np.arange(4, dtype=np.int32),
    "w": np.ones((4, 3, 3, 3), np.int8),
}


def convolution(inputs: str, constants: Any, domain: str = "", kind="QLinearConv"):
    names = [name if name != "-" else "" for name in inputs.split()]
    nodes = [node("QuantizeLinear", "xf sx zx", "x")]
    nodes += [helper.make_node(kind, names, ["y"], "layer", domain=domain), left()]
    return proto(nodes, constants, {"xf": np.zeros(SHAPE, F32)}, {"yf": F32})


def test_the_layer_is_read() -> None:
    assert operations(load(convolution(CONV, CONSTANTS)))[1] == "conv2d"


REFUSED = {
    "no zero point": (
        {},
        "x sx - w sw zw sy zy b",
        "'layer' does not have its input 'x_zero_point'",
    ),
    "none of the result": ({}, "x sx zx w sw zw sy - b", "its input 'y_zero_point'"),
    "three scales": ({"s": [0.1] * 3}, "x s zx w sw zw sy zy", "the scale of 'x' with"),
    "two zero points": (
        {"z": np.zeros(2, np.uint8)},
        "x sx z w sw zw sy zy",
        "the zero point of 'x'",
    ),
    "a channel too few": ({"sw": [0.1] * 3, "zw": [0] * 3}, CONV, "3 scales"),
    "another grid": (
        {"s": 0.03},
        "x s zx w sw zw sy zy b",
        "but its codes have the grid",
    ),
    "a negative scale of values": ({"sx": -0.1}, CONV, "a scale is"),
    "a zero point of another type": ({"z": 0}, "x sx z w sw zw sy zy", "one type"),
    "a float bias": ({"b": [1.0] * 4}, CONV, "'b' of float"),
    "float weights": ({"w": np.ones((4, 3, 3, 3), F32)}, CONV, "'w' of float"),
    "a bias too long": ({"b": np.arange(5, dtype=np.int32)}, CONV, "5"),
    "only codes": ({}, "x", "has 1 inputs, expected 8 to 9"),
}


@pytest.mark.parametrize(("changed", "inputs", "words"), REFUSED.values(), ids=REFUSED)
def test_refuses(changed: Any, inputs: str, words: str) -> None:
    kinds = {float: F32, int: np.int8}
    cast = {n: np.asarray(v) for n, v in changed.items()}
    cast |= {
        n: a.astype(kinds[type(a.flat[0].item())])
        for n, a in cast.items()
        if isinstance(changed[n], int | float | list)
    }
    with pytest.raises(ModelError) as caught:
        load(convolution(inputs, CONSTANTS | cast))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_to_calculate_with_codes() -> None:
    nodes = [*entered("a"), node("Cast", "a", "c", to=1), node("Neg", "c", "yf")]
    constants = {"sa": F32(0.5), "za": np.uint8(120)}
    with pytest.raises(ModelError) as caught:
        load(proto(nodes, constants, {"af": np.zeros(3, F32)}, {"yf": F32}))
    assert str(caught.value) == (
        "Cast 'c' calculates with 'a', codes of a QuantizeLinear, as integers. Put a "
        "DequantizeLinear between them."
    )


def test_refuses_what_onnx_runtime_fuses_for_dynamic_quantization() -> None:
    fused = helper.make_node(
        "DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], "m", domain="com.microsoft"
    )
    constants = {"w": np.zeros((3, 2), np.int8), "s": F32(0.5)}
    with pytest.raises(ModelError) as caught:
        load(proto([fused], constants, {"x": np.zeros((2, 3), F32)}, {"y": F32}))
    assert str(caught.value) == (
        "com.microsoft.DynamicQuantizeMatMul 'm' is written by ONNX Runtime when it "
        "optimizes a dynamically quantized model. Load the file of quantize_dynamic, "
        "before ONNX Runtime optimizes it."
    )


VALUES = st.sampled_from(
    [
        *map(F32, (0.02, -1, np.nan, 0)),
        *(np.int8(0), np.uint8(117), np.int64(3), np.float16(1)),
        *(np.zeros(0, F32), np.ones(3, F32), np.zeros((2, 2), np.uint8)),
    ]
)
KINDS = ["QLinearConv", "QLinearMatMul", *(f"QLinear{k}" for k in ("Add", "Softmax"))]
KINDS += ["QLinearConcat", "QGemm", "QLinearWhere", "QLinearAveragePool"]


@settings(max_examples=150)
@given(st.data())
def test_whatever_is_malformed_is_an_error_of_ours(data: Any) -> None:
    names = [*CONSTANTS, "x", "xf", "-", "nowhere"]
    kind = data.draw(st.sampled_from(KINDS))
    inputs = CONV.split()[: data.draw(st.integers(0, 9))]
    for _ in range(data.draw(st.integers(0, 3))):
        if inputs:
            at = data.draw(st.integers(0, len(inputs) - 1))
            inputs[at] = data.draw(st.sampled_from(names))
    changed = data.draw(st.dictionaries(st.sampled_from([*CONSTANTS]), VALUES))
    domain = "" if kind in KINDS[:2] else MICROSOFT
    model = convolution(" ".join(inputs), CONSTANTS | changed, domain, kind)
    try:
        assert load(model).graph.nodes
    except MdtensorError as error:
        assert "\n" not in str(error)


@pytest.mark.slow
def test_the_demo_as_the_tool_quantizes_it(tmp_path: Path) -> None:
    """The classifier over all crops: what ONNX Runtime decides, nearly its numbers.

    Its roundings in float32 differ from exact ones now and then, by a step in one of
    50 layers.
    """
    load(demo_data.classifier_path(), demo_data.INPUT_SHAPE).save(tmp_path / "f.onnx")
    crops = [crop.pixels for crop in itertools.chain(*demo_data.crops())]
    path = quantized(
        onnx.load(tmp_path / "f.onnx"),
        crops[:40],
        tmp_path / "q.onnx",
        per_channel=True,
        activation_type=TYPES["int8"],
    )
    model, theirs = load(path), session(path)
    found = np.array([np.asarray(model(x))[0] for x in crops])
    wanted = np.array([theirs.run(None, {"x": x})[0][0] for x in crops])
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()
    assert np.mean((found == wanted).all(axis=1)) > 0.9
