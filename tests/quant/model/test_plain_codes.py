"""Codes of 16 bits with a zero point, computed scales, negative scales: as in ORT."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from onnx import TensorProto, helper, numpy_helper

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant import load

RNG = np.random.default_rng(115)
WIDE = {np.int16: TensorProto.INT16, np.uint16: TensorProto.UINT16}
X = RNG.standard_normal((2, 3, 40), np.float32) * 3


def node(kind: str, inputs: str, output: str, **options: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], output, **options)


PAIR = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d")]
RELU = node("Relu", "d", "y")


def rounded(x: Any, scale: Any, zero: Any) -> Any:
    """The formula of the standard; `zero` has the type of the codes."""
    limits = np.iinfo(np.asarray(zero).dtype)
    whole = np.rint(x / scale).astype(np.int64) + zero.astype(np.int64)
    return np.clip(whole, limits.min, limits.max)


def constants(dtype: Any, scale: float = 0.0001) -> dict[str, Any]:
    return {"s": np.float32(scale), "z": dtype(RNG.integers(1, 30000))}


@pytest.mark.parametrize("scale", [0.0001, 0.37, 1e-5])
@pytest.mark.parametrize("dtype", WIDE)
def test_a_pair_is_elementwise_steps(
    dtype: Any, scale: float, make_model: Any, onnxruntime_of: Any
) -> None:
    """No integer is made between the two, and the numbers are ONNX Runtime's."""
    known = constants(dtype, scale)
    path = make_model([*PAIR, RELU], {"x": X.shape}, known, opset=21)
    model = load(path)
    assert {spec.dtype for spec in model.graph.specs().values()} == {md.float32}
    wanted = (rounded(X, known["s"], known["z"]) - np.int64(known["z"])) * known["s"]
    np.testing.assert_array_equal(model(X), np.maximum(wanted, 0).astype(np.float32))
    np.testing.assert_array_equal(model(X), onnxruntime_of(path, {"x": X})[0])


@pytest.mark.parametrize("dtype", WIDE)
def test_codes_that_leave_the_model_are_integers(dtype: Any, make_model: Any) -> None:
    """They are moved as they are, and their type is that of the file."""
    nodes = [PAIR[0], node("Transpose", "q", "y", perm=[2, 0, 1])]
    known = constants(dtype)
    path = make_model(nodes, {"x": X.shape}, known, opset=21)
    found = np.asarray(load(path)(X))
    assert found.dtype == dtype
    wanted = rounded(X, known["s"], known["z"]).transpose(2, 0, 1)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", WIDE)
def test_moved_codes_and_another_grid(
    dtype: Any, make_model: Any, onnxruntime_of: Any
) -> None:
    """A DequantizeLinear may read codes that were moved, or on a grid of its own."""
    known = constants(dtype) | {"t": np.float32(0.5), "v": dtype(9)}
    for middle in ("s z", "t v"):
        nodes = [
            PAIR[0],
            node("Transpose", "q", "m", perm=[2, 0, 1]),
            node("DequantizeLinear", f"m {middle}", "d"),
            node("DequantizeLinear", f"q {middle}", "e"),
            node("Transpose", "e", "f", perm=[2, 0, 1]),
            node("Sub", "d f", "n"),
            node("Add", "d n", "y"),
        ]
        path = make_model(nodes, {"x": X.shape}, known, opset=21)
        wanted = onnxruntime_of(path, {"x": X})[0]
        np.testing.assert_array_equal(load(path)(X), wanted)


@pytest.mark.parametrize("dtype", WIDE)
def test_a_grid_for_each_channel(
    dtype: Any, make_model: Any, onnxruntime_of: Any
) -> None:
    known = {"s": np.float32([0.001, 0.02, 0.3]), "z": dtype([3, 200, 30000])}
    nodes = [
        node("QuantizeLinear", "x s z", "q", axis=1),
        node("DequantizeLinear", "q s z", "d", axis=1),
        RELU,
    ]
    path = make_model(nodes, {"x": X.shape}, known, opset=21)
    np.testing.assert_array_equal(load(path)(X), onnxruntime_of(path, {"x": X})[0])


@pytest.mark.parametrize("dtype", WIDE)
def test_constant_codes(dtype: Any, make_model: Any, onnxruntime_of: Any) -> None:
    known = constants(dtype) | {"w": RNG.integers(0, 30000, (40, 5)).astype(dtype)}
    nodes = [node("DequantizeLinear", "w s z", "r"), node("MatMul", "x r", "y")]
    path = make_model(nodes, {"x": X.shape}, known, opset=21)
    model = load(path)
    assert [n.operation for n in model.graph.nodes] == [md.linear]
    wanted = onnxruntime_of(path, {"x": X})[0]
    np.testing.assert_allclose(model(X), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", WIDE)
def test_is_saved_and_planned(dtype: Any, make_model: Any, tmp_path: Any) -> None:
    path = make_model([*PAIR, RELU], {"x": X.shape}, constants(dtype), opset=21)
    model = load(path)
    model.save(tmp_path / "again.onnx")
    np.testing.assert_array_equal(load(tmp_path / "again.onnx")(X), model(X))
    plan = model.plan()
    assert {entry.kernel for entry in plan.nodes} & {"numpy"} == set()


@pytest.mark.parametrize("scale", [0.0, -0.5, np.nan, np.inf, 1e-40])
def test_scales_of_activations_are_normal_numbers(
    scale: float, make_model: Any
) -> None:
    for zero in (np.uint16(3), np.uint8(3)):
        known = {"s": np.float32(scale), "z": zero}
        path = make_model([*PAIR, RELU], {"x": X.shape}, known, opset=21)
        with pytest.raises(ModelError, match=r"scale"):
            load(path)


def test_an_infinite_scale_says_what_to_do(make_model: Any) -> None:
    """ONNX Runtime's tool writes it for a mask of -inf, and gets NaN."""
    known = {"s": np.float32(np.inf), "z": np.uint8(3)}
    path = make_model([*PAIR, RELU], {"x": X.shape}, known, opset=21)
    with pytest.raises(ModelError, match=r"infinite scale.*a finite number such as"):
        load(path)


def test_a_scale_that_nodes_compute(make_model: Any, onnxruntime_of: Any) -> None:
    """quantize_dynamic moves codes between the two operators of one grid."""
    dynamic = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "n")
    nodes = [dynamic, node("Transpose", "q", "m", perm=[2, 0, 1])]
    nodes += [node("DequantizeLinear", "m s z", "d"), RELU]
    path = make_model(nodes, {"x": X.shape})
    np.testing.assert_array_equal(load(path)(X), onnxruntime_of(path, {"x": X})[0])
    nodes[0] = node("Abs", "x", "s")
    nodes[1:3] = [node("DequantizeLinear", "w s", "d")]
    path = make_model(nodes, {"x": X.shape}, {"w": np.ones((40,), np.int8)})
    with pytest.raises(ModelError, match="needs the scale as a constant"):
        load(path)


def in_blocks(make: Any, signs: Any, kind: int, zeros: Any, axis: int) -> Any:
    """A product with codes [32, 6] of type `kind` in blocks of 16 rows or 2 columns."""
    low, high = (-8, 7) if kind == TensorProto.INT4 else (0, 15)
    codes = RNG.integers(low, high, (32, 6), endpoint=True)
    size = 16 if axis == 0 else 2
    scale = (RNG.random(signs.shape) * 0.1 + 0.01).astype(np.float32) * signs
    made = {"s": scale.astype(np.float32)}
    path = make(
        [
            node("DequantizeLinear", "w s z", "r", axis=axis, block_size=size),
            node("MatMul", "x r", "y"),
        ],
        {"x": (3, 32)},
        made,
        opset=21,
    )
    import onnx

    model = onnx.load(path)
    for name, values in (("w", codes), ("z", zeros)):
        raw = helper.make_tensor(name, kind, values.shape, values.ravel())
        model.graph.initializer.append(raw)
    onnx.save(model, path)
    wide = np.repeat(scale.astype(float), size, axis)
    at = np.repeat(zeros, size, axis)
    return path, (codes - at) * wide


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_negative_scales_mirror_the_codes(make_model_of: Any, data: Any) -> None:
    """Weights keep their 4 bits, and stand for the same numbers."""
    kind = data.draw(st.sampled_from([TensorProto.INT4, TensorProto.UINT4]))
    axis = data.draw(st.integers(0, 1))
    shape = (2, 6) if axis == 0 else (32, 3)
    signs = RNG.choice(data.draw(st.sampled_from([[-1], [1, -1], [0, -1, 1]])), shape)
    limits = (-8, 7) if kind == TensorProto.INT4 else (0, 15)
    zeros = RNG.integers(*limits, shape, endpoint=True)
    path, weights = in_blocks(make_model_of, signs, kind, zeros, axis)
    model = load(path)
    names = {str(spec.dtype) for spec in model.graph.specs().values()}
    assert names & {"qint4", "quint4"}
    x = RNG.standard_normal((3, 32), np.float32)
    np.testing.assert_allclose(model(x), x @ weights, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def make_model_of(tmp_path_factory: Any) -> Any:
    """As `make_model`, for many examples of one test."""
    folder = tmp_path_factory.mktemp("blocks")

    def make(nodes: Any, inputs: Any, known: Any, opset: int) -> Any:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes,
            "g",
            [value(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
            [value("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(a, n) for n, a in known.items()],
        )
        versions = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=10)
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make
