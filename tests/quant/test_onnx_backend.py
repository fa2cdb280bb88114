"""The suite that the onnx package writes for backends; integers compared exactly."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.each import each

from mdtensor import asarray
from mdtensor.errors import DataError, DeviceError, ModelError
from mdtensor.quant import onnx_backend
from mdtensor.quant.model.onnx.elements import ELEMENTS
from mdtensor.quant.model.onnx.evaluate import nearest
from mdtensor.quant.model.onnx.operators import READERS

DOCS = Path(__file__).parents[2] / "docs"


def _generator():
    path = DOCS / "generate" / "onnx_suite.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


suite = _generator()
QUANTIZED = suite.cases(*suite.QUANTIZATION)


@each("case", QUANTIZED)
def test_quantization(case):
    assert suite.outcome(case) == suite.Outcome("passes")


def test_the_cases_of_quantization_are_all_there():
    assert len(QUANTIZED) == 45


def test_zeros_pass_no_case_of_quantization():
    """What the suite's own tolerance cannot say of itself."""
    for case in QUANTIZED:
        wanted = [suite.as_array(x) for x in case.data_sets[0][1]]
        with pytest.raises(AssertionError):
            suite.compare(wanted, [np.zeros_like(x) for x in wanted], 1e-3, 1e-7)


@pytest.fixture(scope="module")
def found():
    return suite.outcomes()


@pytest.mark.slow
def test_every_case_passes_or_has_a_reason_that_is_true(found):
    for case, outcome in found.values():
        assert bool(list(suite.reasons(case))) == (outcome.kind != "passes"), (
            case.name,
            outcome,
        )
    names = {name for case, _ in found.values() for name in suite.kinds(case)}
    for entry in suite.SKIPPED["operators"]:
        assert set(entry["names"]) <= names
    for entry in suite.SKIPPED["cases"]:
        for pattern in entry["names"]:
            assert any(suite.fnmatchcase(name, pattern) for name in found), pattern


@pytest.mark.slow
def test_the_page_says_what_is_found(found):
    text = suite.PAGE.read_text()
    assert suite.page(text, found) == text


def one_node(kind, inputs, *outputs, opset=21, **attributes):
    """A model of one node; `inputs` by name, float32 unless (type, shape)."""
    node = helper.make_node(kind, list(inputs), outputs or ["y"], "n", **attributes)
    values = [
        helper.make_tensor_value_info(name, code, shape)
        for name, (code, shape) in inputs.items()
    ]
    made = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in node.output
    ]
    graph = helper.make_graph([node], "g", values, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


ROW = (TensorProto.FLOAT, [3])


def test_an_unknown_operator_is_named_with_its_node_and_operator_set():
    with pytest.raises(ModelError) as caught:
        onnx_backend.prepare(one_node("BitCast", {"x": ROW}))
    assert str(caught.value) == (
        "operator 'BitCast' of node 'n', operator set 21, is not supported. "
        "docs/reference/onnx.md lists the supported operators."
    )


def test_an_operator_that_onnx_defines_by_others():
    """Attention, in products, masks and a softmax; against PyTorch's formula."""
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((3, 1, 2, 4, 8)).astype(np.float32)
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(8)
    scores[..., np.triu(np.ones((4, 4), bool), 1)] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = shares / shares.sum(-1, keepdims=True) @ v
    (found,) = onnx_backend.run_node(node, [q, k, v], opset_version=24)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


MIXED = [
    ("Add", (np.float32, np.int64), "'b' of int64", "'a' of float"),
    ("MatMul", (np.float16, np.float64), "'b' of double", "'a' of float16"),
    ("Concat", (np.int32, np.int64), "'b' of int64", "'a' of int32"),
    ("Where", (np.bool_, np.int64, np.float32), "'c' of float", "'b' of int64"),
]


@pytest.mark.parametrize(("kind", "types", "last", "first"), MIXED)
def test_inputs_of_two_types_are_refused(kind, types, last, first):
    names = ["a", "b", "c"][: len(types)]
    options = {"axis": 0} if kind == "Concat" else {}
    node = helper.make_node(kind, names, ["y"], "n", **options)
    with pytest.raises(ModelError) as raised:
        onnx_backend.run_node(node, [np.ones((2, 2), t) for t in types])
    assert str(raised.value) == (
        f"{kind} 'n' reads {first} and {last}, which must be of one type. "
        "Add a Cast before it."
    )


def test_inputs_that_may_differ_are_not():
    node = helper.make_node("Gather", ["a", "b"], ["y"])
    (found,) = onnx_backend.run_node(node, [np.float32([5, 6]), np.array([1])])
    assert found.tolist() == [6]


def test_an_attribute_that_is_unknown_is_refused():
    model = one_node("Relu", {"x": ROW}, foo=3)
    with pytest.raises(ModelError) as raised:
        onnx_backend.prepare(model)
    assert str(raised.value) == (
        "Relu 'n' has an attribute 'foo', which operator set 21 does not define. "
        "Its attributes are none."
    )
    with pytest.raises(ModelError, match="'axes', which operator set 21 does not"):
        onnx_backend.prepare(one_node("Softmax", {"x": ROW}, axes=3))


def test_a_definition_is_asked_for_what_is_there():
    model = one_node("Attention", {"q": ROW, "k": ROW, "v": ROW}, opset=24)
    model.graph.node[0].input[1] = "gone"
    with pytest.raises(ModelError, match="Attention 'n' reads 'gone', which no earl"):
        onnx_backend.run_model(model, [np.float32([1, 2, 3])] * 3)


def test_a_definition_that_needs_what_is_not_there(monkeypatch):
    """The operator inside is named; this one is a random number."""
    for kind in ("Bernoulli", "RandomUniformLike"):
        monkeypatch.delitem(READERS, kind)
    node = helper.make_node("Bernoulli", ["x"], ["y"])
    with pytest.raises(ModelError, match="operator 'RandomUniformLike' of node"):
        onnx_backend.run_node(node, [np.float32([0.5])])


def test_a_backend_says_whether_it_can():
    backend = onnx_backend.Backend
    assert backend.is_compatible(one_node("Relu", {"x": ROW}))
    assert not backend.is_compatible(one_node("BitCast", {"x": ROW}))
    assert backend.supports_device("CPU") and backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")
    with pytest.raises(DeviceError, match="there is no device 'CUDA' for models"):
        backend.prepare(one_node("Relu", {"x": ROW}), "CUDA")


def test_inputs_in_order_or_by_name():
    prepared = onnx_backend.prepare(one_node("Sub", {"a": ROW, "b": ROW}))
    a, b = np.float32([1, 2, 3]), np.float32([1, 1, 1])
    assert prepared.run([a, b]).y.tolist() == [0, 1, 2]
    assert prepared.run({"b": b, "a": a})[0].tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="the model has the inputs 'a', 'b', but got"):
        prepared.run([a])
    with pytest.raises(DataError, match="has the inputs 'a', 'b', but got 'c'"):
        prepared.run({"c": a})
    with pytest.raises(DataError, match="'b' is list, which a tensor cannot store"):
        prepared.run([a, [1, 2]])


def test_run_model_and_run_node_agree():
    x = np.float32([-1, 0, 2])
    node = helper.make_node("Relu", ["x"], ["y"])
    wanted = onnx_backend.run_model(one_node("Relu", {"x": ROW}), [x])
    found = onnx_backend.run_node(node, [x], opset_version=14)
    assert wanted[0].tolist() == found[0].tolist() == [0, 0, 2]


def test_a_constant_among_the_inputs_is_not_asked_for():
    model = one_node("Add", {"x": ROW, "c": ROW})
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.float32([1, 2, 3]), "c")
    )
    found = onnx_backend.run_model(model, [np.float32([1, 1, 1])])
    assert found[0].tolist() == [2, 3, 4]


def over_one_axis(x, w, stride, pads, dilation, groups):
    """Sums of products of integers [n, c, l] and [out, c / groups, k]."""
    x = np.pad(x, ((0, 0), (0, 0), pads))
    per, many, k = w.shape[1], w.shape[0] // groups, w.shape[2]
    places = (x.shape[2] - dilation * (k - 1) - 1) // stride + 1
    y = np.zeros((len(x), len(w), places), np.int64)
    for o, i, j, p in np.ndindex(len(w), per, places, k):
        y[:, o, j] += x[:, o // many * per + i, j * stride + p * dilation] * w[o, i, p]
    return y


PLACES = {"strides": [2], "pads": [1, 2], "dilations": [2], "group": 2}


def test_codes_convolved_over_one_axis(rng):
    x = rng.integers(0, 256, (2, 4, 9)).astype(np.uint8)
    w = rng.integers(-128, 128, (6, 2, 3)).astype(np.int8)
    sums = over_one_axis(x.astype(int) - 7, w.astype(int), 2, (1, 2), 2, 2)
    node = helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], **PLACES)
    (found,) = onnx_backend.run_node(node, [x, w, np.uint8(7)])
    assert found.dtype == np.int32 and found.tolist() == sums.tolist()

    b = rng.integers(-(2**14), 2**14, 6).astype(np.int32)
    scales = np.exp2(rng.integers(-6, -2, 6)).astype(np.float32)
    given = {"x": x, "xs": np.float32(0.5), "xz": np.uint8(7)}
    given |= {"w": w, "ws": scales, "wz": np.zeros(6, np.int8)}
    given |= {"ys": np.float32(64), "yz": np.int8(-3), "b": b}
    node = helper.make_node("QLinearConv", list(given), ["y"], **PLACES)
    (found,) = onnx_backend.run_node(node, list(given.values()))
    real = (sums + b[:, None]) * 0.5 * scales[:, None].astype(np.float64) / 64
    assert found.dtype == np.int8
    assert found.tolist() == np.clip(np.rint(real) - 3, -128, 127).tolist()
    assert len(np.unique(found)) > 20


def test_codes_are_not_convolved_over_three_axes():
    arrays = [np.zeros((1, 1, 2, 2, 2), np.uint8), np.zeros((1, 1, 1, 1, 1), np.uint8)]
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], "n")
    with pytest.raises(ModelError) as caught:
        onnx_backend.run_node(node, arrays)
    assert str(caught.value) == (
        "ConvInteger 'n' slides over 3 axes. Supported are 1 and 2."
    )


def test_dynamic_quantization_of_zeros():
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    found = onnx_backend.run_node(node, [np.zeros(3, np.float32)])
    assert [x.tolist() for x in found] == [[0, 0, 0], 1.0, 0]


def test_too_large_for_float16_is_infinite():
    inputs = np.array([255, 0], np.uint8), np.float16(60000), np.uint8(0)
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
    (found,) = onnx_backend.run_node(node, inputs)
    assert found.dtype == np.float16 and found.tolist() == [np.inf, 0]


def test_a_division_in_float16_is_one():
    """0.35 and 0.1 are other numbers in float16, whose quotient is rounded there."""
    x, scale = np.float16([0.35, 0.25, 0.45]), np.float16(0.1)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    found = onnx_backend.run_node(node, [x, scale, np.int8(0)], opset_version=21)
    assert found[0].tolist() == np.rint(x / scale).astype(int).tolist()


SMALL = [e for e in ELEMENTS.values() if e.is_float and not e.is_scale]


@pytest.mark.parametrize("element", SMALL, ids=str)
def test_the_nearest_small_float(element):
    """Every number of the type, every middle of two, and what is beside them."""
    largest = float(ml_dtypes.finfo(element.dtype).max)
    numbers = np.unique(np.arange(256, dtype=np.uint8).view(element.dtype)[: 2**8])
    known = np.sort(numbers.astype(np.float32)[np.isfinite(numbers.astype(np.float32))])
    middles = (known[1:] + known[:-1]) / 2
    beside = [np.nextafter(middles, np.float32(s)) for s in (-np.inf, np.inf)]
    x = np.concatenate([known, middles, *beside]).astype(np.float32)
    wanted = np.clip(x, -largest, largest).astype(element.dtype).astype(np.float32)
    assert np.asarray(nearest(asarray(x), element)).tolist() == wanted.tolist()
    far = nearest(asarray(np.float32([np.inf, -1e9, np.nan])), element)
    assert np.asarray(far)[:2].tolist() == [largest, -largest]
    assert np.isnan(np.asarray(far)[2])


def test_the_backend_loads_on_first_use():
    code = (
        "import sys; from mdtensor import quant; assert 'onnx' not in sys.modules; "
        "assert 'onnx_backend' in dir(quant); quant.onnx_backend.Backend"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
