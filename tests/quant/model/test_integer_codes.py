"""Integers that a DequantizeLinear reads: tables of embeddings, inputs, sums."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant import dequantize, load, quantize

RNG = np.random.default_rng(108)
KINDS = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


def whole(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def node(kind: str, inputs: list[str], output: str, **options: Any) -> Any:
    return helper.make_node(kind, inputs, [output], output, **options)


def dequantized(values: str) -> Any:
    return node("DequantizeLinear", [values, "scale", "zero"], "real", axis=1)


@pytest.fixture
def agrees(onnxruntime_of: Any) -> Any:
    """`agrees(path, feeds)`: the numbers are ONNX Runtime's; it returns the model."""

    def compare(path: Any, feeds: Any) -> Any:
        model = load(path)
        found = np.asarray(model.graph.run(feeds)["y"])
        assert found.tolist() == onnxruntime_of(path, feeds)[0].tolist()
        return model

    return compare


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("moves", [False, True])
def test_rows_of_a_table(dtype: Any, moves: bool, make_model: Any, agrees: Any) -> None:
    """The table stays codes, and what moves its rows moves codes."""
    constants = {"table": whole(dtype, (9, 6)), "zero": dtype(7)}
    constants |= {"scale": np.float32(0.013), "shape": np.array([2, 3, 5])}
    nodes = [node("Gather", ["table", "at"], "rows", axis=0)]
    if moves:
        nodes.append(node("Transpose", ["rows"], "turned", perm=[1, 0]))
        nodes.append(node("Reshape", ["turned", "shape"], "moved"))
    nodes.append(dequantized(nodes[-1].output[0]))
    nodes.append(node("Relu", ["real"], "y"))
    path = make_model(nodes, {"at": (TensorProto.INT64, (5,))}, constants)
    model = agrees(path, {"at": np.array([0, 8, -1, 3, 3])})
    assert model.is_quantized
    operations = [one.operation for one in model.graph.nodes]
    assert quantize not in operations
    assert operations[-2:] == [dequantize, md.relu]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integers_of_the_caller(dtype: Any, make_model: Any, agrees: Any) -> None:
    constants = {"scale": np.float32(0.37), "zero": dtype(100)}
    nodes = [dequantized("x"), node("Relu", ["real"], "y")]
    path = make_model(nodes, {"x": (KINDS[dtype], (2, 4))}, constants)
    agrees(path, {"x": whole(dtype, (2, 4)) // dtype(2)})


def test_integers_of_32_bits_are_rounded_once(make_model: Any) -> None:
    constants = {"scale": np.float32(0.37), "zero": np.int32(0)}
    nodes = [dequantized("x"), node("Relu", ["real"], "y")]
    path = make_model(nodes, {"x": (TensorProto.INT32, (64,))}, constants)
    x = whole(np.int32, (64,))
    wanted = np.maximum(x * np.float64(constants["scale"]), 0).astype(np.float32)
    assert np.asarray(load(path)(x)).tolist() == wanted.tolist()


def test_every_code_of_the_caller(make_model: Any, agrees: Any) -> None:
    """Numbers on a grid have their codes, whatever the scale."""
    for scale in RNG.uniform(1e-6, 1e4, 20).astype(np.float32):
        constants = {"scale": scale, "zero": np.uint8(3)}
        nodes = [dequantized("x"), node("Relu", ["real"], "y")]
        path = make_model(nodes, {"x": (TensorProto.UINT8, (256,))}, constants)
        agrees(path, {"x": np.arange(256, dtype=np.uint8)})


def test_a_grid_for_each_column(make_model: Any, agrees: Any) -> None:
    scale = RNG.uniform(0.01, 1, 4).astype(np.float32)
    constants = {"scale": scale, "zero": whole(np.uint8, (4,))}
    nodes = [dequantized("x"), node("Relu", ["real"], "y")]
    path = make_model(nodes, {"x": (TensorProto.UINT8, (3, 4))}, constants)
    agrees(path, {"x": whole(np.uint8, (3, 4))})


def test_computed_integers(make_model: Any, agrees: Any) -> None:
    """What does more than to move codes is no table."""
    constants = {"scale": np.float32(0.5), "zero": np.int32(0)}
    constants |= {"w": whole(np.int8, (4, 3))}
    nodes = [node("MatMulInteger", ["x", "w"], "sums"), dequantized("sums")]
    nodes.append(node("Relu", ["real"], "y"))
    path = make_model(nodes, {"x": (TensorProto.UINT8, (2, 4))}, constants)
    agrees(path, {"x": whole(np.uint8, (2, 4))})


def test_integers_without_codes_are_refused(make_model: Any) -> None:
    constants = {"scale": np.float32(0.5)}
    nodes = [node("DequantizeLinear", ["x", "scale"], "y")]
    path = make_model(nodes, {"x": (TensorProto.INT64, (2,))}, constants)
    with pytest.raises(ModelError, match="int64"):
        load(path)


def test_an_embedding_of_quantize_dynamic(make_model: Any, tmp_path: Any) -> None:
    constants = {"table": RNG.standard_normal((40, 16), np.float32)}
    nodes = [node("Gather", ["table", "at"], "rows"), node("Relu", ["rows"], "y")]
    path = make_model(nodes, {"at": (TensorProto.INT64, (5,))}, constants)
    small = tmp_path / "small.onnx"
    quantize_dynamic(
        path, small, weight_type=QuantType.QInt8, op_types_to_quantize=["Gather"]
    )
    at = np.array([0, 39, 7, 7, 1])
    found = load(small)(at)
    wanted = np.maximum(constants["table"][at], 0)
    assert np.abs(np.asarray(found) - wanted).max() < 0.02
    tables = [one for one in load(small).graph.constants.values() if one.ndim == 2]
    assert [one.qparams.dtype.bits for one in tables] == [8]
