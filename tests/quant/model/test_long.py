"""Files with activations of 16 bits: integers, as exact as those of 8."""

from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import helper

import mdtensor as md
from mdtensor.quant import QParams, load, qint16
from mdtensor.quant.lookup import build

#: Powers of 2, so that float64 holds every sum of products.
STEP, OTHER, WEIGHT, OUT = 2.0**-12, 2.0**-11, 2.0**-7, 0.003
SHAPE = (1, 4, 5, 6)
RNG = np.random.default_rng(0)
KERNEL = RNG.integers(-127, 128, (3, 4, 3, 2)).astype(np.int8)
ROWS = RNG.integers(-127, 128, (6, 5)).astype(np.int8)
BIAS = RNG.integers(-(10**6), 10**6, 3).astype(np.int32)


def function(exactly):
    return np.vectorize(lambda v: exactly(Fraction(float(v))), otypes=[object])


def convolved(a, b):
    bias = md.asarray(BIAS * (STEP * WEIGHT))
    return np.asarray(md.conv2d(md.asarray(a), md.asarray(KERNEL * WEIGHT), bias))


def windowed(a, b):
    n, c, h, w = a.shape
    return a[:, :, : h // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2)


#: By operator: its attributes, what it reads, and what it is of float64 or Fractions.
CASES = {
    "Conv": ({}, "a kernel bias", convolved),
    "MatMul": ({}, "a rows", lambda a, b: a @ (ROWS * WEIGHT)),
    "Add": ({}, "a b", lambda a, b: a + b),
    "Sub": ({}, "a b", lambda a, b: a - b),
    "Mul": ({}, "a b", lambda a, b: a * b),
    "Relu": ({}, "a", lambda a, b: np.maximum(a, 0)),
    "Sigmoid": ({}, "a", lambda a, b: function(build.sigmoid)(a)),
    "Tanh": ({}, "a", lambda a, b: function(build.tanh)(a)),
    "HardSwish": ({}, "a", lambda a, b: function(build.hardswish)(a)),
    "GlobalAveragePool": ({}, "a", lambda a, b: mean(a, (2, 3))),
    "AveragePool": (
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        "a",
        lambda a, b: mean(windowed(a, b), (3, 5))[:, :, :, 0, :, 0],
    ),
}


def mean(a, axis):
    exactly = np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(a)
    count = int(np.prod([a.shape[i] for i in axis]))
    return exactly.sum(axis=axis, keepdims=True) / count


def quantized_file(make_model, kind, domain="", opset=21):
    """x and y of 16 bits, an operator, 16 bits."""
    attributes, reads, _ = CASES[kind]
    constants = {"zero": np.int16(0), "a_s": np.float32(STEP), "b_s": np.float32(OTHER)}
    constants |= {"out_s": np.float32(OUT), "w_s": np.float32(WEIGHT)}
    constants |= {"kernel_q": KERNEL, "rows_q": ROWS, "bias_q": BIAS}
    constants["bias_s"] = np.float32(STEP * WEIGHT)
    nodes, read = [], [name for name in ("a", "b") if name in reads.split()]
    for name in read:
        nodes += pair(f"{name}_x", f"{name}_s", name, domain)
    for name, scale in (("kernel", "w_s"), ("rows", "w_s"), ("bias", "bias_s")):
        nodes.append(
            helper.make_node(
                "DequantizeLinear", [f"{name}_q", scale], [name], domain=domain
            )
        )
    nodes.append(helper.make_node(kind, reads.split(), ["real"], "op", **attributes))
    nodes += pair("real", "out_s", "y", domain)
    path = make_model(nodes, {f"{n}_x": SHAPE for n in read}, constants, opset=opset)
    if domain:
        model = onnx.load(path)
        model.opset_import.append(helper.make_opsetid(domain, 1))
        onnx.save(model, path)
    return path


def pair(source, scale, name, domain):
    codes = f"{name}.codes"
    return [
        helper.make_node(
            "QuantizeLinear", [source, scale, "zero"], [codes], domain=domain
        ),
        helper.make_node(
            "DequantizeLinear", [codes, scale, "zero"], [name], domain=domain
        ),
    ]


@pytest.mark.parametrize("kind", CASES)
def test_an_operator_is_exact(kind, make_model, onnxruntime_of, exact, rng):
    path = quantized_file(make_model, kind)
    net = load(path)
    feeds = {n: rng.normal(size=SHAPE).astype(np.float32) for n in ("a_x", "b_x")}
    codes = [
        np.clip(np.rint(feeds[n] / s), -(2**15), 2**15 - 1) * s
        for n, s in (("a_x", STEP), ("b_x", OTHER))
    ]
    numbers = np.asarray(CASES[kind][2](*[c.astype(np.float64) for c in codes]), object)
    wanted = exact.codes(numbers, QParams(OUT, dtype=qint16))
    given = {name: feeds[name] for name in net.graph.inputs}
    found = np.asarray(net(*given.values()))
    assert np.array_equal(np.rint(found / np.float32(OUT)).astype(int), wanted)
    (theirs,) = onnxruntime_of(path, given)
    assert np.abs(theirs - found).max() <= OUT * 1.001
    kinds = {n.operation: n.arithmetic for n in net.plan().nodes}
    assert {o for o, k in kinds.items() if k == "float"} <= {"quantize", "dequantize"}


def test_what_is_saved_is_read_again(make_model, tmp_path, rng):
    for kind in ("Conv", "MatMul"):
        net = load(quantized_file(make_model, kind))
        net.save(tmp_path / "again.onnx")
        x = rng.normal(size=SHAPE).astype(np.float32)
        again = load(tmp_path / "again.onnx")(x)
        assert np.array_equal(np.asarray(again), np.asarray(net(x)))


def test_before_operator_set_21_codes_are_of_another_domain(make_model, rng):
    x = rng.normal(size=SHAPE).astype(np.float32)
    found = [
        np.asarray(load(quantized_file(make_model, "Conv", domain, opset))(x))
        for domain, opset in (("", 21), ("com.microsoft", 17))
    ]
    assert np.array_equal(*found)


def test_other_rules_are_refused_by_name(make_model):
    net = load(quantized_file(make_model, "Mul"))
    with pytest.raises(md.OptionError, match="it does not have a kernel for qint16"):
        net.rounded("ort_cpu")
