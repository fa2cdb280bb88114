"""Gemm with codes as weights beside biases of every kind, against NumPy."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

from mdtensor.quant import load

RNG = np.random.default_rng(29)
X, W = RNG.standard_normal((3, 5), np.float32), RNG.integers(-127, 128, (5, 4))
SCALE = np.float32(2**-6)
BIASES = {
    "none": None,
    "value": RNG.standard_normal(4, np.float32),
    "row": RNG.standard_normal((1, 4), np.float32),
    "full": RNG.standard_normal((3, 4), np.float32),
    "codes": RNG.integers(-200, 200, 4).astype(np.int32),
    "constant": RNG.standard_normal(4, np.float32),
}
TYPES = quantization.QuantType


def gemm(bias: str, constants: dict[str, Any], **attributes: Any) -> Any:
    """A model of one Gemm; weights and bias are dequantized if they are codes."""
    feeds = {"x": X.T if attributes["transA"] else X}
    inputs, nodes, found = ["x", "w"], [], BIASES[bias]
    if bias != "none":
        inputs.append("b")
    if bias in ("codes", "constant"):
        constants["b"] = found
    elif bias != "none":
        feeds["b"] = found
    for name in [n for n, a in constants.items() if a.dtype.kind == "i"]:
        codes = f"{name}.codes"
        constants[codes] = constants.pop(name)
        nodes.append(helper.make_node("DequantizeLinear", [codes, "s"], [name]))
    node = helper.make_node("Gemm", inputs, ["y"], "gemm", **attributes)
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        [*nodes, node],
        "g",
        [helper.make_tensor_value_info(n, kind, a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [
            numpy_helper.from_array(np.ascontiguousarray(a), n)
            for n, a in constants.items()
        ],
    )
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(("turned_x", "turned_w"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_weights_of_codes_beside_any_bias(
    bias: str, turned_x: int, turned_w: int, tmp_path: Path
) -> None:
    w = W.astype(np.int8)
    constants = {"w": w.T if turned_w else w, "s": SCALE}
    model, feeds = gemm(bias, constants, transA=turned_x, transB=turned_w)
    loaded = load(model)
    if bias in ("none", "codes", "constant"):
        kernels = {node.kernel for node in loaded.plan().nodes}
        assert "gemm_f32s8f32" in kernels
    wanted = X.astype(np.float64) @ (W * float(SCALE))
    if bias != "none":
        wanted += BIASES[bias] * (float(SCALE) if bias == "codes" else 1.0)
    np.testing.assert_allclose(loaded(feeds), wanted, rtol=1e-5, atol=1e-5)
    loaded.save(tmp_path / "again.onnx")
    again = load(tmp_path / "again.onnx")(feeds)
    assert np.asarray(again).tobytes() == np.asarray(loaded(feeds)).tobytes()


@pytest.mark.parametrize("bias", ["value", "full"])
def test_float_weights_are_quantized_beside_a_bias_that_is_an_input(bias: str) -> None:
    model, feeds = gemm(bias, {"w": (W * SCALE).astype(np.float32)}, transA=0)
    found = load(model).quantize_weights()(feeds)
    wanted = X.astype(np.float64) @ (W * float(SCALE)) + BIASES[bias]
    np.testing.assert_allclose(found, wanted, atol=0.1)


class Samples(quantization.CalibrationDataReader):
    """The inputs of one calibration, once."""

    def __init__(self, feeds: dict[str, Any]) -> None:
        self.left = [feeds]

    def get_next(self) -> Any:
        return self.left.pop() if self.left else None


FORMS = list(
    itertools.product(
        (quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator),
        (TYPES.QUInt8, TYPES.QInt8),
        (False, True),
    )
)


@pytest.mark.parametrize(("form", "kind", "per_channel"), FORMS)
@pytest.mark.parametrize("bias", ["value", "constant"])
def test_each_form_of_the_tool_with_turned_inputs(
    form: Any, kind: Any, per_channel: bool, bias: str, tmp_path: Path
) -> None:
    """The tool keeps transA, which no integer kernel has."""
    model, feeds = gemm(bias, {"w": (W * SCALE).astype(np.float32)}, transA=1)
    source, path = tmp_path / "float.onnx", tmp_path / "tool.onnx"
    onnx.save(model, source)
    how = {"quant_format": form, "activation_type": kind, "per_channel": per_channel}
    types = {"weight_type": TYPES.QInt8}
    quantization.quantize_static(source, path, Samples(feeds), **how, **types)
    wanted = X.astype(np.float64) @ (W * float(SCALE)) + BIASES[bias]
    np.testing.assert_allclose(load(path)(feeds), wanted, atol=0.15)
