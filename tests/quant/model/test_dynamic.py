"""Dynamic quantization: grids of each call, against ONNX Runtime and the reference."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import QuantType, quantize_dynamic

from mdtensor.errors import ModelError
from mdtensor.quant import load, onnx_backend

RNG = np.random.default_rng(4)
STATE = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Draw the same numbers in whatever order the tests run."""
    RNG.bit_generator.state = STATE


DYNAMIC = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])


def dynamic_model() -> Any:
    """A model that returns the codes and the grid of any vector."""
    value = helper.make_tensor_value_info
    kinds = {"y": TensorProto.UINT8, "scale": TensorProto.FLOAT}
    kinds["zero"] = TensorProto.UINT8
    outputs = [value(name, kind, None) for name, kind in kinds.items()]
    inputs = [value("x", TensorProto.FLOAT, ("n",))]
    graph = helper.make_graph([DYNAMIC], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=6))
def test_grids_of_each_call(values: list[float]) -> None:
    x, model = np.float32(values), dynamic_model()
    found = load(model).graph.run({"x": x})
    wanted = onnx_backend.run_model(model, [x])
    for name, want in zip(("y", "scale", "zero"), wanted, strict=True):
        assert np.asarray(found[name]).tolist() == want.tolist()
        assert np.asarray(found[name]).dtype == want.dtype


def test_grids_as_others_compute(tmp_path: Any, onnxruntime_of: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(dynamic_model().SerializeToString())
    model = load(path)
    for x in (RNG.standard_normal(12, np.float32), np.zeros(3, np.float32)):
        found = model.graph.run({"x": x})
        for name, want in zip(found, onnxruntime_of(path, {"x": x}), strict=True):
            assert np.asarray(found[name]).tolist() == want.tolist()


def whole(code: int, shape: tuple[int, ...]) -> np.ndarray:
    info = np.iinfo(helper.tensor_dtype_to_np_dtype(code))
    return RNG.integers(info.min, info.max + 1, shape).astype(info.dtype)


CODES = (TensorProto.UINT8, TensorProto.INT8)


def agrees(path: Any, feeds: Any) -> None:
    """The sums are those of int64, as the reference computes them."""
    model = load(path)
    wanted = ReferenceEvaluator(str(path)).run(None, feeds)[0]
    found = np.asarray(model.graph.run(feeds)["y"])
    assert found.dtype == wanted.dtype == np.int32
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("left", CODES)
@pytest.mark.parametrize("right", CODES)
@pytest.mark.parametrize("zeros", ["", "a", "b", "ab", "rows"])
@pytest.mark.parametrize("terms", [5, 700])
def test_products(
    left: int, right: int, zeros: str, terms: int, make_model: Any
) -> None:
    """700 products of codes exceed the integers of float32."""
    constants = {"b": whole(right, (terms, 3))}
    if "a" in zeros:
        constants["za"] = whole(left, ())
    if "b" in zeros:
        constants["zb"] = whole(right, ())
    if zeros == "rows":
        constants |= {"za": whole(left, (4,)), "zb": whole(right, (3,))}
    names = ["a", "b", *("za" if "za" in constants else "",)]
    names += ["zb"] if "zb" in constants else []
    while not names[-1]:
        names.pop()
    node = helper.make_node("MatMulInteger", names, ["y"])
    path = make_model([node], {"a": (left, (4, terms))}, constants)
    a = whole(left, (4, terms))
    za, zb = (constants.get(n, np.array(0)).astype(np.int64) for n in ("za", "zb"))
    za = za[:, None] if za.ndim else za
    wanted = (a.astype(np.int64) - za) @ (constants["b"].astype(np.int64) - zb)
    found = np.asarray(load(path).graph.run({"a": a})["y"])
    assert found.dtype == np.int32
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("terms", [258, 259, 700])
def test_the_largest_sums(terms: int, make_model: Any) -> None:
    """258 products of 255 are the last sum of integers of float32; odd ones show it.

    Weights of three axes are computed in floats.
    """
    b = np.full((1, terms, 2), 255, np.uint8)
    b[0, 0, 1] = 254
    nodes = [helper.make_node("MatMulInteger", ["a", "b"], ["y"])]
    path = make_model(nodes, {"a": (TensorProto.UINT8, (1, terms))}, {"b": b})
    model, a = load(path), np.full((1, terms), 255, np.uint8)
    wanted = (a.astype(np.int64) @ b.astype(np.int64)).tolist()
    assert np.asarray(model(a)).tolist() == wanted
    wide = {spec.dtype.name for spec in model.graph.specs().values()}
    assert ("float64" in wide) == (255 * 255 * terms > 2**24)


@pytest.mark.parametrize("right", CODES)
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 2, 1]])
def test_convolutions(right: int, pads: list[int], make_model: Any) -> None:
    left = TensorProto.UINT8
    constants = {"w": whole(right, (4, 3, 2, 3)), "zx": whole(left, ())}
    constants["zw"] = whole(right, ())
    node = helper.make_node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], pads=pads)
    path = make_model([node], {"x": (left, (2, 3, 5, 6))}, constants)
    agrees(path, {"x": whole(left, (2, 3, 5, 6))})


def test_convolutions_of_volumes(make_model: Any) -> None:
    left = TensorProto.UINT8
    constants = {"w": whole(left, (4, 3, 2, 2, 3)), "zx": whole(left, ())}
    pads = [1, 0, 1, 0, 1, 1]
    node = helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], pads=pads)
    path = make_model([node], {"x": (left, (2, 3, 4, 5, 6))}, constants)
    agrees(path, {"x": whole(left, (2, 3, 4, 5, 6))})


def test_an_input_with_several_zero_points_is_refused(make_model: Any) -> None:
    left = TensorProto.UINT8
    constants = {"w": whole(left, (4, 3, 2, 3)), "zx": whole(left, (3,))}
    node = helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], "here")
    path = make_model([node], {"x": (left, (2, 3, 5, 6))}, constants)
    with pytest.raises(ModelError, match=r"'here' has zero points of shape \(3,\)"):
        load(path)


@pytest.mark.parametrize("per_channel", [False, True])
def test_files_of_quantize_dynamic(
    per_channel: bool, make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"]),
    ]
    # 7 bits, so that ONNX Runtime's sums of pairs do not saturate on any CPU.
    shapes = {"w1": (16, 8), "w2": (8, 4)}
    constants = {n: RNG.standard_normal(s, np.float32) for n, s in shapes.items()}
    path, small = make_model(nodes, {"x": (3, 16)}, constants), tmp_path / "small.onnx"
    quantize_dynamic(
        path,
        small,
        per_channel=per_channel,
        reduce_range=True,
        weight_type=QuantType.QInt8,
    )
    x = RNG.standard_normal((3, 16), np.float32)
    found = np.asarray(load(small)(x))
    wanted = onnxruntime_of(small, {"x": x})[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def lstm_network(make_model: Any, folder: Any, **options: Any) -> tuple[Any, Any]:
    """A float LSTM in both directions, and what `quantize_dynamic` makes of it."""
    shapes = {"w": (2, 16, 3), "r": (2, 16, 4), "b": (2, 32)}
    constants = {n: RNG.uniform(-1, 1, s).astype(np.float32) for n, s in shapes.items()}
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=4, direction="bidirectional"
    )
    path, small = make_model([node], {"x": (6, 2, 3)}, constants), folder / "s.onnx"
    quantize_dynamic(path, small, **options)
    return path, small


@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_an_lstm_of_codes(
    weights: Any, per_channel: bool, make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    """The states are rounded as in ONNX Runtime, which has 7 bits of weights here."""
    options = {"weight_type": weights, "per_channel": per_channel, "reduce_range": True}
    path, small = lstm_network(make_model, tmp_path, **options)
    model, saved = load(small), tmp_path / "saved.onnx"
    layers = [n for n in model.plan().nodes if n.operation == "dynamic_lstm"]
    has_codes = weights is QuantType.QInt8 or bool(layers)
    assert [n.arithmetic for n in layers] == ["integer"] * (2 if has_codes else 0)
    model.save(saved)
    for shift in (0, -3, 3):
        x = RNG.standard_normal((6, 2, 3), np.float32) + np.float32(shift)
        wanted = onnxruntime_of(small, {"x": x})[0]
        # A float LSTM of dequantized weights is only near.
        near = 1e-5 if has_codes else 0.03
        found = np.asarray(model(x))
        np.testing.assert_allclose(found, wanted, atol=near)
        assert np.asarray(load(saved)(x)).tobytes() == found.tobytes()
        again = onnxruntime_of(saved, {"x": x})[0]
        np.testing.assert_allclose(again, wanted, atol=near)
        # Inputs far from 0 have a coarse grid.
        assert 0 < np.abs(found - np.asarray(load(path)(x))).max() < 0.2


def test_an_lstm_with_wide_weights(
    make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    """Codes that leave 8 bits without a zero point are dequantized."""
    _, small = lstm_network(make_model, tmp_path, weight_type=QuantType.QInt8)
    file = onnx.load(small)
    arrays = {one.name: one for one in file.graph.initializer}
    (node,) = file.graph.node
    codes, zero = (onnx.numpy_helper.to_array(arrays[node.input[at]]) for at in (1, 9))
    assert codes.min() < -100 and not zero.any()
    wide = onnx.numpy_helper.from_array(np.full_like(zero, 40), node.input[9])
    arrays[node.input[9]].CopyFrom(wide)
    onnx.save(file, small)
    x = RNG.standard_normal((6, 2, 3), np.float32)
    model = load(small)
    assert "dynamic_lstm" not in {n.operation for n in model.plan().nodes}
    wanted = onnxruntime_of(small, {"x": x})[0]
    assert np.abs(np.asarray(model(x)) - wanted).max() < 0.1


def dynamic_network(
    make_model: Any, folder: Any, shape: tuple[int, ...], **options: Any
) -> Any:
    """A file of `quantize_dynamic`: two layers, 3-D inputs if `shape` has 3 axes."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w2"], ["y"]),
    ]
    shapes = {"w1": (shape[-1], 24), "b1": (24,), "w2": (24, 5)}
    constants = {n: RNG.standard_normal(s, np.float32) for n, s in shapes.items()}
    path, small = make_model(nodes, {"x": shape}, constants), folder / "small.onnx"
    quantize_dynamic(path, small, **options)
    return small


@pytest.mark.parametrize("shape", [(3, 16), (2, 3, 16), (1, 1, 16)])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
def test_the_bytes_of_onnxruntime(
    shape: Any,
    per_channel: bool,
    weights: Any,
    make_model: Any,
    onnxruntime_of: Any,
    tmp_path: Any,
) -> None:
    """Weights have 7 bits, so that its sums of pairs do not saturate."""
    options = {"per_channel": per_channel, "reduce_range": True}
    small = dynamic_network(make_model, tmp_path, shape, weight_type=weights, **options)
    x = RNG.standard_normal(shape, np.float32)
    model, saved = load(small), tmp_path / "saved.onnx"
    wanted = onnxruntime_of(small, {"x": x})[0]
    model.save(saved)
    for one in (model, load(saved)):
        assert np.asarray(one(x)).tobytes() == wanted.tobytes()
        plan = one.plan()
        products = [n for n in plan.nodes if n.operation == "dynamic_matmul"]
        assert [node.arithmetic for node in products] == ["integer", "integer"]


def test_a_call_with_new_data_and_new_grids(
    make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    small = dynamic_network(
        make_model, tmp_path, (4, 16), reduce_range=True, weight_type=QuantType.QInt8
    )
    model = load(small)
    for shift in (-3, 0, 3):
        x = RNG.standard_normal((4, 16), np.float32) + np.float32(shift)
        wanted = onnxruntime_of(small, {"x": x})[0]
        assert np.asarray(model(x)).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("has_bias", [False, True])
def test_convolutions_of_onnxruntime(
    weights: Any,
    groups: int,
    has_bias: bool,
    make_model: Any,
    onnxruntime_of: Any,
    tmp_path: Any,
) -> None:
    """The results have the bytes of ONNX Runtime; so has the saved file."""
    names = ["x", "w", *(["b"] if has_bias else [])]
    window: dict[str, Any] = {"pads": [1, 0, 2, 1], "strides": [2, 1], "group": groups}
    nodes = [
        helper.make_node("Conv", names, ["a"], **window),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    shapes = {"w": (4, 4 // groups, 3, 2), "b": (4,)}
    constants = {n: RNG.standard_normal(shapes[n], np.float32) for n in names[1:]}
    path, small = make_model(nodes, {"x": (2, 4, 7, 6)}, constants), tmp_path / "s.onnx"
    quantize_dynamic(path, small, weight_type=weights, reduce_range=True)
    model, saved = load(small), tmp_path / "saved.onnx"
    model.save(saved)
    assert [n.operation for n in model.plan().nodes] == ["dynamic_conv2d", "relu"]
    for x in (1, 0, -5):
        data = RNG.standard_normal((2, 4, 7, 6), np.float32) + np.float32(x)
        wanted = onnxruntime_of(small, {"x": data})[0]
        for one in (model, load(saved)):
            assert np.asarray(one(data)).tobytes() == wanted.tobytes()
        assert onnxruntime_of(saved, {"x": data})[0].tobytes() == wanted.tobytes()


def test_values_that_others_read_too(make_model: Any, onnxruntime_of: Any) -> None:
    """A chain whose codes, sums or scales are results is computed in its parts."""
    w = RNG.integers(-60, 60, (6, 3)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["c", "s", "z"]),
        helper.make_node("MatMulInteger", ["c", "w", "z"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "own"], ["factor"]),
        helper.make_node("Mul", ["real", "factor"], ["y"]),
    ]
    known = {"w": w, "own": np.float32([0.5, 0.25, 2.0])}
    kinds = {"c": TensorProto.UINT8, "sums": TensorProto.INT32, "y": TensorProto.FLOAT}
    path = make_model(nodes, {"x": (4, 6)}, known, tuple(kinds))
    file = onnx.load(path)
    for value in file.graph.output:
        value.type.tensor_type.elem_type = kinds[value.name]
    onnx.save(file, path)
    x = RNG.standard_normal((4, 6), np.float32)
    for ours, theirs in zip(load(path)(x), onnxruntime_of(path, {"x": x}), strict=True):
        assert np.asarray(ours).tobytes() == theirs.tobytes()


def test_a_bias_of_another_shape_stays_a_sum(
    make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["c", "s", "z"]),
        helper.make_node("MatMulInteger", ["c", "w", "z"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "own"], ["factor"]),
        helper.make_node("Mul", ["real", "factor"], ["scaled"]),
        helper.make_node("Add", ["scaled", "more"], ["y"]),
    ]
    w, x = RNG.integers(-60, 60, (6, 3)).astype(np.int8), RNG.standard_normal((4, 6))
    for shape in ((4, 1), (1,), (4, 3), (3,), (1, 3)):
        more = RNG.standard_normal(shape).astype(np.float32)
        known = {"w": w, "own": np.float32(0.5), "more": more}
        path = make_model(nodes, {"x": (4, 6)}, known)
        feeds = {"x": x.astype(np.float32)}
        found = np.asarray(load(path)(**feeds))
        assert found.tobytes() == onnxruntime_of(path, feeds)[0].tobytes()


@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_rows_of_a_table_of_codes(
    weights: QuantType,
    per_channel: bool,
    make_model: Any,
    onnxruntime_of: Any,
    tmp_path: Any,
) -> None:
    """Gather takes rows of plain integers, and DequantizeLinear follows."""
    nodes = [
        helper.make_node("Gather", ["table", "words"], ["rows"]),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
    ]
    constants = {
        "table": RNG.standard_normal((10, 16), np.float32),
        "w": RNG.standard_normal((16, 4), np.float32),
    }
    path = make_model(nodes, {"words": (TensorProto.INT64, (2, 3))}, constants)
    small, kinds = tmp_path / "small.onnx", {"weight_type": weights}
    # 7 bits, so that ONNX Runtime's sums of pairs do not saturate on any CPU.
    options = kinds | {"per_channel": per_channel, "reduce_range": True}
    quantize_dynamic(path, small, **options)
    words = np.array([[1, 9, 0], [2, 2, -1]])
    found = np.asarray(load(small)(words))
    assert found.tobytes() == onnxruntime_of(small, {"words": words})[0].tobytes()


@pytest.mark.parametrize("code", [*CODES, TensorProto.INT16, TensorProto.UINT16])
@pytest.mark.parametrize(("count", "axis"), [(1, 0), (3, -2), (4, 1)])
@pytest.mark.parametrize("has_zero", [True, False])
def test_codes_as_inputs(
    code: int,
    count: int,
    axis: int,
    has_zero: bool,
    make_model: Any,
    onnxruntime_of: Any,
) -> None:
    kind = helper.tensor_dtype_to_np_dtype(code)
    limits = np.iinfo(kind)
    scales = RNG.uniform(0.01, 0.3, count).astype(np.float32)
    zeros = RNG.integers(limits.min, limits.max, count).astype(kind)
    constants = {"s": scales if count > 1 else scales[0]}
    if has_zero:
        constants["z"] = zeros if count > 1 else zeros[0]
    node = helper.make_node("DequantizeLinear", ["x", *constants], ["y"], axis=axis)
    path = make_model([node], {"x": (code, (3, 4))}, constants, opset=21)
    x = RNG.integers(limits.min, limits.max, (3, 4), endpoint=True).astype(kind)
    found = np.asarray(load(path)(x))
    assert found.tobytes() == onnxruntime_of(path, {"x": x})[0].tobytes()
