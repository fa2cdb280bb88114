"""float16 and bfloat16: their scales in files, and networks of them quantized."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant import MinMaxObserver, QParams, dequantize, qint8, quantize, quint8
from mdtensor.quant.model.load import load

RNG = np.random.default_rng(26)
KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NARROW = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
NUMBERS = {"float32": 1, "float16": 10, "bfloat16": 16}


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], output, **attributes)


def model(
    nodes: Any, x: Any, constants: Any, opset: int = 23, output: Any = None
) -> Any:
    number = helper.np_dtype_to_tensor_dtype
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", number(x.dtype), x.shape)],
        [value("y", number(np.dtype(output or x.dtype)), None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


PAIR = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]


@NARROW
@pytest.mark.parametrize("scale", [0.05, 1e-3, 100])
def test_scales_of_narrow_floats(kind: Any, scale: float) -> None:
    """The quotient is exact, and the number of a code is rounded to the type once."""
    x = (RNG.standard_normal((3, 50)) * 60 * scale).astype(kind)
    step = np.asarray(scale, kind)
    found = load(model(PAIR, x, {"s": step, "z": np.int8(1)}, 21))(x)
    grid = QParams(float(step), 1, dtype=qint8)
    wanted = np.asarray(dequantize(quantize(md.asarray(x), grid))).astype(kind)
    assert np.asarray(found).dtype == kind
    assert np.asarray(found).tobytes() == wanted.tobytes()


def test_onnxruntime_gives_the_same_for_float16(
    onnxruntime_of: Any, tmp_path: Path
) -> None:
    x = (RNG.standard_normal((4, 9)) * 3).astype(np.float16)
    constants = {"s": np.float16([0.05, 0.1, 2, 0.004]), "z": np.int8([1, 0, -9, 5])}
    given = [node("QuantizeLinear", "x s z", "q", axis=0)]
    given.append(node("DequantizeLinear", "q s z", "y", axis=0))
    made = model(given, x, constants, 21)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    wanted = onnxruntime_of(tmp_path / "m.onnx", {"x": x})[0]
    np.testing.assert_allclose(np.asarray(load(made)(x)), wanted, atol=1e-3)


@pytest.mark.parametrize("given", NUMBERS)
@pytest.mark.parametrize("wanted", NUMBERS)
def test_the_attribute_names_the_type_of_the_numbers(given: str, wanted: str) -> None:
    x = RNG.standard_normal((2, 6)).astype(md.dtype(given).storage)
    last = node("DequantizeLinear", "q s z", "y", output_dtype=NUMBERS[wanted])
    storage = md.dtype(wanted).storage
    constants = {"s": np.asarray(0.03, x.dtype), "z": np.int8(0)}
    made = model([PAIR[0], last], x, constants, output=storage)
    loaded = load(made)
    assert loaded(x).dtype is md.dtype(wanted)
    expected = np.rint(x.astype(float) / float(constants["s"])) * float(constants["s"])
    np.testing.assert_allclose(np.asarray(loaded(x)).astype(float), expected, rtol=1e-2)


def test_other_types_of_scales_are_refused() -> None:
    x = np.ones((2, 2))
    with pytest.raises(ModelError, match="'x' of double, which operator set 21"):
        load(model(PAIR, x, {"s": np.float64(1), "z": np.int8(0)}, 21))
    last = node("DequantizeLinear", "q s z", "y", output_dtype=11)
    with pytest.raises(ModelError, match="output_dtype=11"):
        load(
            model([PAIR[0], last], x.astype("f"), {"s": np.float32(1), "z": np.int8(0)})
        )


def network(kind: Any) -> Any:
    """Convolutions, a division, a pool, a product of matrices and a softmax."""
    shapes = {"w1": (8, 4, 3, 3), "b1": 8, "w2": (8, 8, 1, 1), "v": (8, 5), "b": 5}
    constants = {n: RNG.normal(0, 0.3, s).astype(kind) for n, s in shapes.items()}
    constants["six"] = np.asarray(6, kind)
    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1] * 4),
        node("Relu", "c1", "r"),
        node("Conv", "r w2", "c2"),
        node("Div", "c2 six", "d"),
        node("GlobalAveragePool", "d", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f v b", "l"),
        node("Softmax", "l", "y"),
    ]
    x = RNG.standard_normal((2, 4, 8, 8)).astype(kind)
    return model(nodes, x, constants, 22), x


INSIDE = {"c1", "c2", "d", "g", "l"}


@NARROW
def test_a_network_is_quantized(kind: Any, tmp_path: Path) -> None:
    made, x = network(kind)
    loaded = load(made)
    small = loaded.quantize(loaded.calibrate([x], MinMaxObserver))
    plan = {n.node: n.arithmetic for n in small.plan().nodes}
    assert {plan[name] for name in INSIDE} == {"integer"}
    assert small.graph.notes == {"y": "probabilities stay float"}
    assert small(x).dtype is loaded(x).dtype
    wanted, found = (np.asarray(m(x)).astype(float) for m in (loaded, small))
    assert np.abs(found - wanted).max() < 0.02
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert np.asarray(again(x)).tobytes() == np.asarray(small(x)).tobytes()
    assert {n.node: n.arithmetic for n in again.plan().nodes}["c1"] == "integer"


def test_onnxruntime_runs_what_is_written(onnxruntime_of: Any, tmp_path: Path) -> None:
    made, x = network(np.float16)
    loaded = load(made)
    small = loaded.quantize(loaded.calibrate([x], MinMaxObserver))
    small.save(tmp_path / "small.onnx")
    theirs = onnxruntime_of(tmp_path / "small.onnx", {"x": x})[0]
    np.testing.assert_allclose(np.asarray(small(x)), theirs, atol=5e-3)


@NARROW
def test_a_file_of_another_tool_is_integer_inside(kind: Any) -> None:
    """Dequantized numbers of the type, weights too, and products of both forms."""
    x = RNG.standard_normal((3, 8)).astype(kind)
    w1, w2 = RNG.integers(-127, 128, (2, 8, 8)).astype(np.int8)
    steps = {"s": 0.02, "ws": 0.01, "hs": 0.1, "ys": 1.5}
    constants = {name: np.asarray(step, kind) for name, step in steps.items()}
    constants |= {"w1": w1, "w2": w2, "z": np.int8(0)}
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w1 ws", "v1"),
        node("MatMul", "xd v1", "m"),
        node("QuantizeLinear", "m hs z", "mq"),
        node("DequantizeLinear", "mq hs z", "md"),
        node("DequantizeLinear", "w2 ws", "v2"),
        node("Gemm", "md v2", "h"),
        node("QuantizeLinear", "h ys z", "hq"),
        node("DequantizeLinear", "hq ys z", "y"),
    ]
    loaded = load(model(nodes, x, constants, 22))
    names = [n.operation.__name__ for n in loaded.graph.nodes]
    assert names == ["quantize", "linear", "linear", "dequantize", "astype"]
    grids = {n: float(constants[n]) for n in steps}
    value = np.clip(np.rint(x.astype(float) / grids["s"]), -128, 127) * grids["s"]
    for w, step in ((w1, grids["hs"]), (w2, grids["ys"])):
        product = value @ (w * grids["ws"])
        value = np.clip(np.rint(product / step), -128, 127) * step
    # Adding 0 turns -0 into 0, which codes do not tell apart.
    wanted = (value + 0.0).astype(np.float32).astype(kind)
    assert np.asarray(loaded(x)).tobytes() == wanted.tobytes()


def test_constants_keep_their_grid() -> None:
    """An added constant is quantized, and its numbers have the type of the network."""
    x = RNG.standard_normal((2, 6)).astype(np.float16)
    c = {"c": RNG.standard_normal(6).astype(np.float16)}
    loaded = load(model([node("Add", "x c", "a"), node("Sigmoid", "a", "y")], x, c, 22))
    small = loaded.quantize(loaded.calibrate([x], MinMaxObserver))
    assert {
        spec.qparams.dtype for spec in small.graph.specs().values() if spec.qparams
    } == {quint8}
    np.testing.assert_allclose(np.asarray(small(x)), np.asarray(loaded(x)), atol=0.02)
