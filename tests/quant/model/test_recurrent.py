"""LSTM, GRU, RNN and ReverseSequence against ONNX Runtime, read and written again."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant import load, onnx_backend
from mdtensor.quant.model.onnx.operators.recurrent import FUNCTIONS

T, N, IN, K = 5, 3, 4, 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
LENGTHS = np.array([5, 2, 3], np.int32)
#: Options, one by one: which inputs are given, and attributes.
PLAIN: dict[str, Any] = {}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((kind, given, {}) for kind in GATES for given in ("", "b", "bl", "bh", "blh")),
    *((kind, "blh", {"direction": "reverse"}) for kind in GATES),
    *((kind, "bh", {"direction": "bidirectional"}) for kind in GATES),
    *((kind, "bl", {"direction": "bidirectional"}) for kind in GATES),
    *((kind, "b", {"clip": 0.3}) for kind in GATES),
    *((kind, "b", {"layout": 1}) for kind in GATES),
    *((kind, "bh", {"layout": 1}) for kind in GATES),
    ("GRU", "bh", {"linear_before_reset": 1}),
    ("GRU", "bl", {"linear_before_reset": 1, "direction": "bidirectional"}),
    ("GRU", "", {"linear_before_reset": 1}),
    ("LSTM", "bhp", {}),
    ("LSTM", "blhp", {"direction": "bidirectional"}),
    ("LSTM", "bp", {"clip": 0.3}),
    ("LSTM", "bp", {"input_forget": 1}),
]


def arrays(kind: str, given: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The weights and the inputs of a layer, by name."""
    d, rows = 1 + (attributes.get("direction") == "bidirectional"), GATES[kind] * K
    shapes = {"w": (d, rows, IN), "r": (d, rows, K), "b": (d, 2 * rows)}
    shapes |= {"h": (d, N, K), "c": (d, N, K), "p": (d, 3 * K)}
    wanted = "wr" + given + ("c" if "h" in given and kind == "LSTM" else "")
    # A generator of its own, so that a case does not depend on those before it.
    rng = np.random.default_rng(2)
    made: dict[str, Any] = {
        name: rng.uniform(-1, 1, shape).astype(np.float32)
        for name, shape in shapes.items()
        if name in wanted
    }
    if attributes.get("layout"):
        made |= {n: made[n].swapaxes(0, 1) for n in "hc" if n in made}
    return made | ({"l": LENGTHS} if "l" in given else {})


def layer(
    make_model: Any, kind: str, given: str, attributes: dict[str, Any], count: int = 0
) -> Path:
    constants = arrays(kind, given, attributes)
    order = "xwrblhcp" if kind == "LSTM" else "xwrblh"
    names = [n if n == "x" or n in constants else "" for n in order]
    while not names[-1]:
        names.pop()
    outputs = ["y", "last", "cell"][: count or (3 if kind == "LSTM" else 2)]
    node = helper.make_node(kind, names, outputs, "layer", hidden_size=K, **attributes)
    shape = (N, T, IN) if attributes.get("layout") else (T, N, IN)
    path: Path = make_model([node], {"x": shape}, constants, tuple(outputs))
    return path


def close(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)


def case_id(case: Any) -> str:
    kind, given, attributes = case
    return "-".join([kind, given, *(f"{k}={v}" for k, v in attributes.items())])


def has_reference(case: Any) -> bool:
    """Whether the package's own implementation covers a case."""
    _, given, attributes = case
    simple = set(attributes) <= {"layout", "linear_before_reset"}
    return simple and "l" not in given


def check_plan(model: Any, x: Any, found: Any) -> None:
    """Check that the layers of a model are compiled steps, with the same results."""
    plan = model.plan()
    for name, other in plan({"x": x}).items():
        close(other, found[name])
    # A backward sequence with lengths is gathered by a call.
    called = {node.operation for node in plan.nodes if node.isa == "numpy"}
    assert called <= {"take_along_axis"}


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_as_others_compute(
    case: Any, make_model: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    path = layer(make_model, *case)
    shape = (N, T, IN) if case[2].get("layout") else (T, N, IN)
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    model = load(path)
    found = model.graph.run({"x": x})
    wanted = []
    # ONNX Runtime does not have layout 1.
    if not case[2].get("layout"):
        wanted.append(onnxruntime_of(path, {"x": x}))
    if has_reference(case):
        wanted.append(ReferenceEvaluator(str(path)).run(None, {"x": x}))
    assert wanted
    for outputs in wanted:
        for name, want in zip(found, outputs, strict=True):
            close(found[name], want)
    others = onnx_backend.run_model(onnx.load(path), [x])
    for name, other in zip(found, others, strict=True):
        assert np.asarray(found[name]).tolist() == other.tolist()
    check_plan(model, x, found)
    again = tmp_path / "again.onnx"
    model.save(again)
    for name, other in zip(found, onnxruntime_of(again, {"x": x}), strict=True):
        close(found[name], other)
    for name, other in load(again).graph.run({"x": x}).items():
        assert np.asarray(found[name]).tolist() == np.asarray(other).tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", GATES)
def test_functions(
    kind: str, name: str, make_model: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
    names = [name, "Tanh", name][:count]
    attributes: dict[str, Any] = {"activations": names}
    _, *factors = FUNCTIONS[name]
    for at, attribute in enumerate(("activation_alpha", "activation_beta")):
        if factors[at] is not None:
            attributes[attribute] = [0.75, 0.5][: names.count(name)]
    path = layer(make_model, kind, "b", attributes)
    x = np.random.default_rng(1).standard_normal((T, N, IN), np.float32)
    wanted = onnxruntime_of(path, {"x": x})[0]
    model = load(path)
    close(model.graph.run({"x": x})["y"], wanted)
    close(model.plan()({"x": x})["y"], wanted)
    model.save(again := tmp_path / "again.onnx")
    close(onnxruntime_of(again, {"x": x})[0], wanted)


def test_default_factors(make_model: Any, onnxruntime_of: Any) -> None:
    """Those of the operators, as ONNX says; ONNX Runtime has 0 for ThresholdedRelu."""
    for name in ("LeakyRelu", "HardSigmoid", "Elu"):
        path = layer(make_model, "RNN", "b", {"activations": [name]})
        x = np.random.default_rng(1).standard_normal((T, N, IN), np.float32)
        close(load(path).graph.run({"x": x})["y"], onnxruntime_of(path, {"x": x})[0])


def test_sizes_may_be_dynamic(make_model: Any, onnxruntime_of: Any) -> None:
    constants = arrays("LSTM", "b", {"direction": "bidirectional"})
    node = helper.make_node(
        "LSTM", list("xwrb"), ["y"], hidden_size=K, direction="bidirectional"
    )
    path = make_model([node], {"x": ("t", "n", IN)}, constants)
    model = load(path)
    for shape in ((1, 1, IN), (T, N, IN)):
        x = np.random.default_rng(1).standard_normal(shape, np.float32)
        close(model(x), onnxruntime_of(path, {"x": x})[0])


def test_only_the_last_state(make_model: Any, onnxruntime_of: Any) -> None:
    constants = arrays("GRU", "b", {})
    node = helper.make_node("GRU", list("xwrb"), ["", "y"], hidden_size=K)
    path = make_model([node], {"x": (T, N, IN)}, constants)
    x = np.random.default_rng(1).standard_normal((T, N, IN), np.float32)
    close(load(path)(x), onnxruntime_of(path, {"x": x})[0])


def test_lengths_that_are_an_input(make_model: Any, onnxruntime_of: Any) -> None:
    constants = arrays("LSTM", "b", {"direction": "bidirectional"})
    node = helper.make_node(
        "LSTM", list("xwrbl"), ["y"], hidden_size=K, direction="bidirectional"
    )
    inputs = {"x": (T, N, IN), "l": (TensorProto.INT32, (N,))}
    path = make_model([node], inputs, constants)
    x = np.random.default_rng(1).standard_normal((T, N, IN), np.float32)
    for lengths in (LENGTHS, np.array([1, 5, 4], np.int32)):
        feeds = {"x": x, "l": lengths}
        close(load(path).graph.run(feeds)["y"], onnxruntime_of(path, feeds)[0])


def test_a_quantized_network_keeps_small_layers_float(make_model: Any) -> None:
    path = layer(make_model, "LSTM", "b", {}, count=1)
    model = load(path)
    x = np.random.default_rng(1).standard_normal((4, T, N, IN), np.float32)
    small = model.quantize(model.calibrate(list(x)))
    assert "as floats it is faster: it has fewer than 64 units" in str(small.plan())
    assert small(x[0]).tolist() == model(x[0]).tolist()


UNITS = 64


def wide_layer(make_model: Any, kind: str, options: Any = None, more: Any = ()) -> Any:
    """A file with a layer of 64 units; `more` names inputs of lengths."""
    rng, rows = np.random.default_rng(2), GATES[kind] * UNITS
    shapes = {"w": (1, rows, IN), "r": (1, rows, UNITS), "b": (1, 2 * rows)}
    constants = {
        name: rng.uniform(-0.125, 0.125, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    names = ["x", "w", "r", "b", *more]
    node = helper.make_node(kind, names, ["y"], hidden_size=UNITS, **(options or {}))
    inputs = {"x": (T, N, IN), **dict.fromkeys(more, (TensorProto.INT32, (N,)))}
    return make_model([node], inputs, constants)


@pytest.mark.parametrize("way", ["quantize", "quantize_weights"])
@pytest.mark.parametrize("kind", GATES)
def test_weights_get_8_bits(
    kind: str, way: str, make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    """The file has the codes; it reads back with the same bytes, and runs elsewhere."""
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    path = wide_layer(make_model, kind, options)
    model = load(path)
    x = np.random.default_rng(1).standard_normal((2, T, N, IN), np.float32)
    if way == "quantize":
        small = model.quantize(model.calibrate(list(x)))
        assert "rounding its state at each step adds up" in str(small.plan())
    else:
        small = model.quantize_weights()
    kernels = {node.kernel for node in small.plan().nodes}
    assert "gemm_s16s8s32" in kernels
    found, wanted = np.asarray(small(x[0])), np.asarray(model(x[0]))
    assert 0 < np.abs(found - wanted).max() < 0.01 * np.abs(wanted).max()
    saved = tmp_path / "small.onnx"
    small.save(saved)
    assert saved.stat().st_size < 0.4 * path.stat().st_size
    assert np.asarray(load(saved)(x[0])).tobytes() == found.tobytes()
    theirs = onnxruntime_of(saved, {"x": x[0]})[0]
    np.testing.assert_allclose(found, theirs, atol=1e-4)


def test_layers_whose_weights_stay_float(make_model: Any) -> None:
    """The plan says why; ELU and computed lengths have no kernel."""
    x = np.random.default_rng(1).standard_normal((T, N, IN), np.float32)
    elu = load(wide_layer(make_model, "RNN", {"activations": ["Elu"]}))
    small = elu.quantize(elu.calibrate([x]))
    assert "no kernel computes elu" in str(small.plan())
    ragged = load(wide_layer(make_model, "GRU", None, ["lengths"]))
    feeds = {"x": x, "lengths": LENGTHS}
    small = ragged.quantize(ragged.calibrate([feeds]))
    assert "no kernel takes computed lengths" in str(small.plan())
    model = load(wide_layer(make_model, "LSTM"))
    (name,) = [n.name for n in model.graph.nodes if n.operation is md.lstm]
    kept = model.quantize(model.calibrate([x]), keep_float=[name])
    assert kept(x).tolist() == model(x).tolist()


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"activations": ["Tanh", "Tanh"]}, "has 2 numbers as activations"),
        ({"activations": ["Tan"]}, "has the function 'Tan'"),
        ({"direction": "sideways"}, "has direction=sideways"),
    ],
)
def test_what_the_standard_does_not_allow(
    attributes: Any, wanted: str, make_model: Any
) -> None:
    with pytest.raises(ModelError, match=wanted):
        load(layer(make_model, "RNN", "b", attributes))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("hidden_size", 3, "has hidden_size=3 and 'r' of shape"),
        ("direction", "bidirectional", "has direction=bidirectional and 'w' of shape"),
    ],
)
def test_weights_of_other_sizes_than_stated(
    kind: str, name: str, value: Any, wanted: str, make_model: Any
) -> None:
    proto = onnx.load(layer(make_model, kind, "b", {"direction": "forward"}))
    (node,) = proto.graph.node
    (at,) = (i for i, a in enumerate(node.attribute) if a.name == name)
    node.attribute[at].CopyFrom(helper.make_attribute(name, value))
    with pytest.raises(ModelError, match=wanted):
        load(proto)


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_known", [True, False])
def test_reversed_sequences(
    time: int, batch: int, is_known: bool, make_model: Any, onnxruntime_of: Any
) -> None:
    node = helper.make_node(
        "ReverseSequence", ["x", "l"], ["y"], time_axis=time, batch_axis=batch
    )
    shape = (T, N, IN) if time == 0 else (N, T, IN)
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    lengths = LENGTHS.astype(np.int64)
    inputs = {"x": shape} if is_known else {"x": shape, "l": (TensorProto.INT64, (N,))}
    path = make_model([node], inputs, {"l": lengths} if is_known else {})
    feeds = {"x": x} if is_known else {"x": x, "l": lengths}
    found = load(path).graph.run(feeds)["y"]
    assert found.tolist() == onnxruntime_of(path, feeds)[0].tolist()
    reference = ReferenceEvaluator(str(path)).run(None, feeds)[0]
    assert found.tolist() == reference.tolist()


def test_a_layer_is_one_operation(make_model: Any) -> None:
    graph = load(layer(make_model, "GRU", "bh", {}, count=1)).graph
    assert [n.operation for n in graph.nodes].count(md.gru) == 1
