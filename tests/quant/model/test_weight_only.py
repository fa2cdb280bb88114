"""Weights of 4 bits, and weights as codes beside activations that stay float."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import OptionError
from mdtensor.graph import Graph, Node
from mdtensor.quant import (
    MinMaxObserver,
    QInt4Tensor,
    dequantize,
    patches,
    quantize_weights,
)
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.quantize.algorithms import ALGORITHMS
from mdtensor.quant.model.quantize.calibrate import input_moments

RNG = np.random.default_rng(23)
MIX = RNG.standard_normal((5, 8 * 6 * 6))


def tensor(*shape: int) -> Any:
    return md.asarray(RNG.standard_normal(shape, np.float32))


def images(count: int) -> Any:
    rows = np.random.default_rng(count).standard_normal((count, 5)) @ MIX
    return rows.reshape(count, 8, 6, 6).astype(np.float32)


CONSTANTS = {
    "k": tensor(8, 8, 3, 3),
    "d": tensor(8, 1, 3, 3),
    "g": tensor(6, 4, 2, 1),
    "b": tensor(6),
    "p": tensor(12, 6, 1, 1),
    "l": tensor(10, 12),
}
NODES = (
    Node("K", md.conv2d, ("x", "k", None), "1", {"padding": 1}),
    Node("R", md.relu, ("1",), "2"),
    Node("D", md.conv2d, ("2", "d", None), "3", {"groups": 8, "padding": 1}),
    Node("G", md.conv2d, ("3", "g", "b"), "4", {"groups": 2, "stride": (2, 1)}),
    Node("P", md.conv2d, ("4", "p", None), "5"),
    Node("A", md.global_avg_pool2d, ("5",), "6"),
    Node("F", md.reshape, ("6",), "7", {"shape": (-1, 12)}),
    Node("L", md.linear, ("7", "l", None), "y"),
)
SPEC = md.TensorSpec(md.Float32Tensor, (-1, 8, 6, 6))
MODEL = Model(Graph({"x": SPEC}, NODES, CONSTANTS, ("y",)))
X = images(16)


def planned(model: Model) -> dict[str, Any]:
    return {node.node: node for node in model.plan((1, 8, 6, 6)).nodes}


def off(model: Model) -> float:
    wanted = np.asarray(MODEL(X))
    return float(np.linalg.norm(np.asarray(model(X)) - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_products_of_codes_take_weights_of_4_bits(name: str, tmp_path: Path) -> None:
    """By integers throughout, saved, loaded, and the same."""
    samples = [X] if name == "gptq" else None
    seen = MODEL.calibrate([X], MinMaxObserver)
    small = MODEL.quantize(seen, method=name, weight_dtype="qint4", samples=samples)
    for node in (n for n in NODES if n.operation in (md.conv2d, md.linear)):
        codes = small.graph.constants[f"{node.name}.w"]
        assert type(codes) is QInt4Tensor
        assert codes.qparams.axis == 0
        assert np.abs(np.asarray(codes.codes).astype(int)).max() == 7
        plan = planned(small)[node.name]
        assert (plan.arithmetic, plan.weights) == ("integer", "qint4, axis 0")
    assert small.plan((1, 8, 6, 6)).float_nodes == ()
    assert small.weight_bytes < 0.25 * MODEL.weight_bytes
    assert off(small) < 0.25
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert np.asarray(again(X)).tolist() == np.asarray(small(X)).tolist()
    assert planned(again)["L"].weights == "qint4, axis 0"


def test_activations_stay_float_beside_codes(tmp_path: Path) -> None:
    small = MODEL.quantize_weights(weight_dtype="qint4", block_size=8, keep_float=["P"])
    plan = planned(small)
    assert {name: plan[name].weights for name in "KDGPL"} == {
        "K": "qint4, blocks of 8 on axis 1",
        "D": "float32",
        "G": "qint4, axis 0",
        "P": "float32",
        "L": "qint4, blocks of 8 on axis 1",
    }
    assert {plan[name].kernel for name in "KGL"} == {"gemm_f32u4f32"}
    bits = {"R": 0, "K": 4 * 4 / 3 + 4, "D": 32, "P": 32, "L": 4 + 2 * 32 / 12}
    assert {name: plan[name].bits for name in bits} == pytest.approx(bits)
    assert repr(small).startswith("Model(float, weights qint4, Graph(x: Float32")
    assert plan["K"].why == "its activations are floats"
    assert plan["D"].why == "depthwise weights are dequantized, not packed"
    assert plan["P"].why == "kept float"
    assert plan["K"].macs == 8 * 8 * 9 * 36
    assert small.weight_bytes < 0.5 * MODEL.weight_bytes
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert np.asarray(again(X)).tobytes() == np.asarray(small(X)).tobytes()
    kinds = {name: node.weights for name, node in planned(again).items()}
    assert kinds == {name: node.weights for name, node in plan.items()}


def test_onnxruntime_computes_the_same(tmp_path: Path, onnxruntime_of: Any) -> None:
    small = MODEL.quantize_weights(weight_dtype="quint4", symmetric=False, block_size=6)
    assert planned(small)["P"].weights == "quint4, blocks of 6 on axis 1"
    small.save(tmp_path / "small.onnx")
    theirs = onnxruntime_of(tmp_path / "small.onnx", {"x": X})[0]
    np.testing.assert_allclose(np.asarray(small(X)), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ALGORITHMS)
def test_each_layer_has_the_codes_that_it_has_by_itself(method: str) -> None:
    samples = [X] if method == "gptq" else None
    form: Any = {"method": method, "bits": 5}
    small = MODEL.quantize_weights(samples=samples, **form)
    moments = input_moments(MODEL.graph, [X]) if samples else {}
    for name in "KPL":
        w = CONSTANTS[name.lower()]
        inputs = moments[name][0] if samples else None
        alone = quantize_weights(w, samples=inputs, **form).tensor
        found = small.graph.constants[f"{name}.w"]
        assert found.codes.tolist() == alone.codes.tolist()
        assert found.qparams.scale.tolist() == alone.qparams.scale.tolist()
    assert off(small) < 0.15


def test_the_function_is_that_of_the_dequantized_weights() -> None:
    small = MODEL.quantize_weights()
    numbers = {
        name: dequantize(w) if hasattr(w, "qparams") else w
        for name, w in small.graph.constants.items()
    }
    real = Graph({"x": SPEC}, small.graph.nodes, numbers, ("y",))
    found, wanted = np.asarray(small(X)), np.asarray(Model(real)(X))
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())
    assert off(small) < 0.01


def test_narrow_floats_keep_their_type() -> None:
    w = md.astype(CONSTANTS["l"], md.bfloat16)
    node = Node("L", md.linear, ("x", "w", None), "y")
    spec = md.TensorSpec(md.BFloat16Tensor, (3, 12))
    small = Model(Graph({"x": spec}, (node,), {"w": w}, ("y",))).quantize_weights()
    assert small(md.ones((3, 12), dtype=md.bfloat16)).dtype is md.bfloat16
    wide = md.TensorSpec(md.Float64Tensor, (3, 12))
    w = md.astype(CONSTANTS["l"], md.float64)
    same = Model(Graph({"x": wide}, (node,), {"w": w}, ("y",))).quantize_weights()
    assert same.graph.notes == {"L": "its weights are float64"}


@pytest.mark.parametrize("size", [1, 3e4])
@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16], ids=str)
def test_narrow_floats_are_saved(
    dtype: Any, size: float, onnxruntime_of: Any, tmp_path: Path
) -> None:
    """In a file they are float32 for the product, and rounded once behind it."""
    known = {n: md.astype(CONSTANTS[n], dtype) for n in "kl"}
    known["b"] = md.astype(tensor(10), dtype)
    nodes = (
        Node("K", md.conv2d, ("x", "k", None), "1", {"padding": (1, 3)}),
        Node("R", md.relu, ("1",), "2"),
        Node("L", md.linear, ("2", "l", "b"), "y"),
    )
    spec = md.TensorSpec(md.leaf(dtype), (2, 8, 6, 8))
    small = Model(Graph({"x": spec}, nodes, known, ("y",))).quantize_weights()
    small.save(tmp_path / "h.onnx")
    again = load(tmp_path / "h.onnx")
    image = np.random.default_rng(1).standard_normal((2, 8, 6, 8)) * size
    x = md.astype(md.asarray(image.astype("f4")), dtype, casting="saturate")
    found = small(x)
    assert found.dtype is again(x).dtype is dtype
    assert again(x).buffer.tobytes() == found.buffer.tobytes()
    if dtype is md.float16:
        assert np.isinf(found.buffer).any() == (size > 1)
    if dtype is md.float16 and size == 1:
        theirs = onnxruntime_of(tmp_path / "h.onnx", {"x": x.buffer})[0]
        np.testing.assert_allclose(found.buffer, theirs, rtol=2e-3, atol=2e-2)
    before, after = ({n.node: n for n in m.plan().nodes} for m in (small, again))
    for name in "KL":
        assert before[name].kernel == after[name].kernel == "gemm_f32s8f32"
        assert before[name].weights == after[name].weights == "qint8, axis 0"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "best"}, "method is 'best'. Use one of rtn, mse, hqq, gptq, awq."),
        ({"method": "gptq"}, "method='gptq' needs samples. Pass them as samples."),
        ({"samples": [X]}, "method='rtn' does not need samples. Omit samples."),
        ({"weight_dtype": "qint32"}, "qint32 is not a type of weights. Use"),
        ({"weight_dtype": "int8"}, "int8 is not a type of weights. Use qint8."),
        ({"weight_dtype": "quint4"}, "symmetric weights need signed codes"),
        (
            {"dtype": "qint4"},
            (
                "quantize_weights: no option 'dtype'. There are method, samples, "
                "weight_dtype, bits, block_size, symmetric, keep_float; rtn has no "
                "others."
            ),
        ),
        (
            {"method": "gptq", "samples": [X], "damp": 1},
            "keep_float; gptq has damping, act_order.",
        ),
        ({"method": "gptq", "samples": [X], "damping": -1}, "damping is -1. Use a"),
        ({"bits": 9}, "bits is 9. Use 2 to 8."),
        ({"bits": 4.0}, "bits is 4.0. Use 2 to 8."),
        ({"symmetric": "no"}, "symmetric is 'no'. Use True or False."),
        ({"block_size": 2.5}, "block_size is 2.5. Use an integer of 1 or more."),
        ({"method": "hqq", "steps": 2.5}, "steps is 2.5. Use an integer of 0 or more."),
        (
            {"method": "hqq", "beta": float("inf")},
            "beta is inf. Use a number of 1 or more",
        ),
        (
            {"method": "gptq", "samples": [X], "act_order": 1},
            "act_order is 1. Use True or False.",
        ),
        ({"block_size": 0}, "block_size is 0. Use an integer of 1 or more."),
        (
            {"keep_float": ["Q"]},
            "keep_float: no node is called 'Q'.",
        ),
    ],
)
def test_what_is_wrong_is_said(options: Any, said: str) -> None:
    with pytest.raises(OptionError) as raised:
        MODEL.quantize_weights(**options)
    assert said in str(raised.value)


def test_codes_that_no_product_of_codes_takes() -> None:
    seen = MODEL.calibrate([X], MinMaxObserver)
    with pytest.raises(OptionError) as raised:
        MODEL.quantize(seen, weight_dtype="quint4")
    assert str(raised.value) == ("weight_dtype is quint4. Use qint8 or qint4.")
    with pytest.raises(OptionError, match="is quantized already"):
        MODEL.quantize_weights().quantize_weights()


@pytest.mark.parametrize("method", ["rtn", "gptq"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_blocks_of_a_window_are_of_the_channels_of_each_place(
    size: int, method: str, tmp_path: Path, onnxruntime_of: Any
) -> None:
    """As those of a linear layer that reads what the window sees, channels last."""
    samples = [X] if method == "gptq" else None
    how: Any = {"method": method, "block_size": size}
    small = MODEL.quantize_weights(weight_dtype="qint4", samples=samples, **how)
    plan = planned(small)
    channels = {"K": 8, "G": 4}
    for name, count in channels.items():
        whole = count % size == 0
        told = f"blocks of {size} on axis 1" if whole else "axis 0"
        assert plan[name].weights == f"qint4, {told}"
        assert plan[name].kernel == "gemm_f32u4f32"
    if 8 % size:
        return
    w, codes = np.asarray(CONSTANTS["k"]), small.graph.constants["K.w"]
    assert codes.qparams.scale.shape == (8, 8 // size, 3, 3)
    rows = w.transpose(0, 2, 3, 1).reshape(8, -1)
    seen = patches(X, (3, 3), padding=1)[0].reshape(-1, 8, 9)
    inputs = seen.transpose(0, 2, 1).reshape(-1, 72) if samples else None
    alone = quantize_weights(rows, dtype="qint4", samples=inputs, **how)
    found = np.asarray(codes.codes).transpose(0, 2, 3, 1).reshape(8, -1)
    assert found.tolist() == alone.tensor.codes.tolist()
    wanted = np.asarray(dequantize(alone.tensor))
    numbers = np.asarray(dequantize(codes)).transpose(0, 2, 3, 1).reshape(8, -1)
    assert numbers.tolist() == wanted.tolist()
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert np.asarray(again(X)).tobytes() == np.asarray(small(X)).tobytes()
    theirs = onnxruntime_of(tmp_path / "small.onnx", {"x": X})[0]
    np.testing.assert_allclose(np.asarray(small(X)), theirs, rtol=1e-4, atol=1e-4)
    plain = dequantize(quantize_weights(rows, dtype="qint4", method="mse").tensor)
    errors = (float(np.linalg.norm(np.asarray(x) - rows)) for x in (numbers, plain))
    assert method == "gptq" or next(errors) < 0.9 * next(errors)


def test_weights_of_16_bits_become_numbers(tmp_path: Path) -> None:
    small = MODEL.quantize_weights(weight_dtype="qint16")
    plan = planned(small)["L"]
    assert (plan.weights, plan.kernel) == ("qint16, axis 0", "gemm_f32f32f32")
    assert off(small) < 1e-3
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert np.asarray(again(X)).tobytes() == np.asarray(small(X)).tobytes()
    assert planned(again)["L"].weights == "qint16, axis 0"


def test_weights_of_few_bits_are_stored_in_as_many() -> None:
    small = MODEL.quantize_weights(bits=4)
    assert planned(small)["L"].weights == "qint4, axis 0"
    wanted = MODEL.quantize_weights(weight_dtype="qint4")
    assert small.weight_bytes == wanted.weight_bytes < 0.5 * MODEL.weight_bytes
    assert np.asarray(small(X)).tobytes() == np.asarray(wanted(X)).tobytes()
    wide = MODEL.quantize_weights(weight_dtype="qint8", bits=4)
    np.testing.assert_allclose(wide(X), wanted(X), rtol=1e-5, atol=1e-5)
    assert planned(wide)["L"].weights == "qint8, axis 0"
    for bits, kind in ((2, "qint4"), (5, "qint8"), (8, "qint8")):
        found = planned(MODEL.quantize_weights(bits=bits))["L"].weights
        assert found == f"{kind}, axis 0"
