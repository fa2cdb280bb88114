"""Models whose graph depends on values that a call computes."""

import copy
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DataError, ModelError
from mdtensor.quant.model import decided

X = np.random.default_rng(7).standard_normal((2, 6), np.float32)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    names = ["" if n == "-" else n for n in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), **attributes)


def inner(nodes: list[Any], inputs: list[Any], outputs: list[Any], **given: Any) -> Any:
    constants = [numpy_helper.from_array(np.asarray(a), n) for n, a in given.items()]
    return helper.make_graph(nodes, "inner", inputs, outputs, constants)


def value(name: str, kind: int = TensorProto.FLOAT, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def check(path: Path, onnxruntime_of: Any, model: Any, *feeds: dict[str, Any]) -> None:
    """Require the results of ONNX Runtime for each of the inputs, in turn."""
    for one in feeds:
        found = model(one)
        found = found if isinstance(found, tuple) else (found,)
        for ours, wanted in zip(found, onnxruntime_of(path, one), strict=True):
            np.testing.assert_allclose(np.asarray(ours), wanted, rtol=1e-5, atol=1e-6)
            assert np.asarray(ours).dtype == wanted.dtype


@pytest.fixture
def branches(make_model: Any) -> Path:
    """y is a sum of x, or a product of its rows, as the largest element decides."""
    total = inner([node("ReduceSum", "x", "t", keepdims=0)], [], [value("t")])
    rows = inner([node("MatMul", "x w", "p")], [], [value("p")], w=np.ones((6, 3), "f"))
    choose = helper.make_node("If", ["c"], ["y"], then_branch=total, else_branch=rows)
    nodes = [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m n", "c")]
    limit = (X.max() - X.min()) / 2
    return make_model([*nodes, choose], {"x": (2, 6)}, {"n": np.float32(limit)})


def test_branches(branches: Path, onnxruntime_of: Any) -> None:
    model = quant.load(branches)
    assert isinstance(model, quant.DecidedModel) and model.outputs == ("y",)
    assert list(model.inputs) == ["x"] and model.states == {}
    check(branches, onnxruntime_of, model, {"x": X}, {"x": -X}, {"x": X})
    assert "2 graphs" in repr(model)


def test_a_quantized_model_decides_in_floats(branches: Path) -> None:
    model = quant.load(branches)
    samples = [X, -X]
    small = model.quantize(model.calibrate(samples))
    for x in samples:
        wanted, found = np.asarray(model(x)), np.asarray(small(x))
        assert found.shape == wanted.shape
        assert abs(found - wanted).max() <= 0.03 * abs(wanted).max()
        assert small.at(x).is_quantized and small.at(x).outputs == ("y",)
    with pytest.raises(md.errors.OptionError, match=r"Use model\.at"):
        model.quantize(model.calibrate(samples), correct_bias=samples)
    with pytest.raises(md.errors.MdtensorError):
        small.rounded("no such rule")


def test_what_needs_one_graph(branches: Path, tmp_path: Path) -> None:
    model, stored = quant.load(branches), tmp_path / "again.onnx"
    for call in (
        lambda: model.graph,
        lambda: model.plan(),
        lambda: model.save(stored),
        lambda: model.weight_bytes,
        lambda: pickle.dumps(model),
        lambda: copy.deepcopy(model),
        lambda: model.to("auto"),
        lambda: quant.compare(model, model, [X]),
    ):
        with pytest.raises(ModelError, match=r"'c' depends .* Use model\.at\(inputs\)"):
            call()
    assert model.to("cpu") is model and not stored.exists()
    model.at(X).save(stored)
    assert np.asarray(quant.load(stored)(X)).tolist() == np.asarray(model(X)).tolist()
    assert model.profile(X, repeat=1).nodes


def test_wrong_inputs(branches: Path) -> None:
    model = quant.load(branches)
    for call in (lambda: model(), lambda: model(X[:1]), lambda: model(z=X)):
        with pytest.raises(DataError):
            call()


def test_a_file_that_changed(branches: Path) -> None:
    model = quant.load(branches)
    branches.write_bytes(branches.read_bytes() + b"\x00")
    with pytest.raises(ModelError, match=r"changed after it was loaded\. Load it"):
        model(X)


@pytest.fixture
def doubling(make_model: Any) -> Path:
    """x doubles until an element reaches the limit; the largest of each turn."""
    nodes = [node("Add", "a a", "b"), node("ReduceMax", "b", "top", keepdims=0)]
    nodes.append(node("Less", "top limit", "again"))
    given = [value("i", 7, []), value("go", 9, []), value("a", 1, [2, 6])]
    found = [value("again", 9, []), value("b", 1, [2, 6]), value("top", 1, [])]
    body = inner(nodes, given, found, limit=np.float32(100))
    turns = helper.make_node("Loop", ["", "start", "x"], ["y", "tops"], body=body)
    return make_model(
        [turns, node("Neg", "y", "z")],
        {"x": (2, 6)},
        {"start": np.array(True)},
        ("z", "tops"),
    )


def test_a_loop_turns_as_often_as_the_data_says(
    doubling: Path, onnxruntime_of: Any, monkeypatch: Any
) -> None:
    model = quant.load(doubling)
    check(doubling, onnxruntime_of, model, {"x": X}, {"x": 60 * X}, {"x": X / 8})
    monkeypatch.setattr(decided, "MOST_DECISIONS", 5)
    with pytest.raises(ModelError, match=r"^5 values .* fixed number of turns"):
        model(np.full((2, 6), 1e-3, np.float32))
    slow = quant.load(doubling, budget=quant.Budget(seconds=1e-9 + 60))
    slow._budget = quant.Budget(seconds=1e-9)
    with pytest.raises(ModelError, match=r"takes more than 1e-09 s, at the value"):
        slow(X)


def test_a_condition_of_one_row(make_model: Any, onnxruntime_of: Any) -> None:
    """The condition has the shape [1], and the branches have other types of results."""
    rows = inner([node("Transpose", "x", "t", perm=[1, 0])], [], [value("t")])
    same = inner([node("Neg", "x", "n")], [], [value("n")])
    choose = helper.make_node("If", ["c"], ["y"], then_branch=rows, else_branch=same)
    path = make_model([choose], {"x": (2, 6), "c": (TensorProto.BOOL, (1,))})
    feeds = [{"x": X, "c": np.array([one])} for one in (True, False, True)]
    check(path, onnxruntime_of, quant.load(path), *feeds)


def test_a_value_is_computed_once(branches: Path) -> None:
    model = quant.load(branches)

    def ask_again(known: Any) -> Any:
        raise model._first

    model._read = ask_again
    with pytest.raises(ModelError, match=r"'c' was computed, and .* constants= of"):
        model(X)


def test_shapes_from_inputs(make_model: Any, onnxruntime_of: Any) -> None:
    nodes = [node("Reshape", "x shape", "r"), node("TopK", "r k", "y places")]
    inputs = {"x": ("n",), "shape": (7, (2,)), "k": (7, (1,))}
    path = make_model(nodes, inputs)
    model = quant.load(path)
    assert isinstance(model, quant.SizedModel)

    def feeds(count: int, shape: list[int], k: int) -> dict[str, Any]:
        return {"x": X.ravel()[:count], "shape": np.array(shape), "k": np.array([k])}

    given = feeds(12, [3, -1], 2), feeds(8, [2, 4], 1), feeds(12, [2, 6], 4)
    check(path, onnxruntime_of, model, *given)
    with pytest.raises(ModelError, match="TopK 'y' has k=9"):
        model(feeds(12, [3, 4], 9))
    assert model.quantize(model.calibrate([*given]))(given[0]).shape == (3, 2)


def test_long_branches_of_a_setting_do_not_both_run(
    make_model: Any, onnxruntime_of: Any
) -> None:
    """A sampling rate decides once; the condition of the data makes both run."""

    def chain(kind: str) -> Any:
        names = ["x", *(f"v{i}" for i in range(20))]
        nodes = [node(kind, a, b) for a, b in pairwise(names)]
        return inner(nodes, [], [ValueInfoProto(name=names[-1])])

    sides = {"then_branch": chain("Neg"), "else_branch": chain("Abs")}
    choose = helper.make_node("If", ["c"], ["y"], **sides)
    setting = [node("Equal", "rate n", "c"), choose]
    path = make_model(setting, {"x": (2, 6), "rate": (7, ())}, {"n": np.array(8000)})
    model = quant.load(path)
    rates = [{"x": X, "rate": np.array(rate)} for rate in (8000, 16000, 8000)]
    check(path, onnxruntime_of, model, *rates)
    assert len(model.at(rates[0]).graph.nodes) <= 20
    data = [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m n", "c")]
    path = make_model([*data, choose], {"x": (2, 6)}, {"n": np.float32(0)})
    assert not isinstance(quant.load(path), quant.DecidedModel)


@pytest.fixture
def routed(make_model: Any) -> Path:
    """y has products of the rows that a first product chooses, and 0 elsewhere.

    Routing in a mixture of experts is written like this: the sizes of what NonZero
    found are in the shape of an Expand.
    """
    draw = np.random.default_rng(5)
    nodes = [
        node("MatMul", "x w", "scores"),
        node("Greater", "scores limit", "chosen"),
        node("NonZero", "chosen", "places"),
        node("Squeeze", "places front", "rows"),
        node("Gather", "x rows", "picked", axis=0),
        node("MatMul", "picked v", "products"),
        node("Shape", "products", "shape"),
        node("Unsqueeze", "rows back", "column"),
        node("Expand", "column shape", "at"),
        node("ConstantOfShape", "size", "zeros"),
        node("ScatterElements", "zeros at products", "y", axis=0, reduction="add"),
    ]
    constants = {
        "w": draw.standard_normal(6, np.float32),
        "v": draw.standard_normal((6, 4), np.float32),
        "limit": np.float32(0.1),
        "front": np.array([0]),
        "back": np.array([1]),
        "size": np.array([8, 4]),
    }
    return make_model(nodes, {"x": (8, 6)}, constants)


def test_sizes_that_the_data_decides(routed: Path, onnxruntime_of: Any) -> None:
    model = quant.load(routed)
    assert isinstance(model, quant.DecidedModel)
    draw = np.random.default_rng(6)
    samples = [draw.standard_normal((8, 6), np.float32) for _ in range(6)]
    zeros = np.zeros((8, 6), np.float32)
    check(routed, onnxruntime_of, model, *({"x": x} for x in [*samples, zeros]))
    # The same sizes have the same graph: the count alone decides, not the places.
    before = repr(model)
    model(samples[-1][::-1])
    assert repr(model) == before


def test_layers_without_rows_in_any_sample_stay_float(routed: Path) -> None:
    model = quant.load(routed)
    zeros, ones = np.zeros((8, 6), np.float32), np.eye(8, 6, dtype=np.float32)
    small = model.quantize(model.calibrate([zeros, zeros]))
    for x in (zeros, ones):
        assert np.asarray(small(x)).tolist() == np.asarray(model(x)).tolist()
    notes = {n.node: n.why for n in small.at(ones).plan().nodes}
    assert "empty in every sample" in str(notes)


def test_a_quantized_model_finds_its_own_sizes(routed: Path) -> None:
    model = quant.load(routed)
    draw = np.random.default_rng(8)
    samples = [draw.standard_normal((8, 6), np.float32) for _ in range(12)]
    small = model.quantize(model.calibrate(samples[:4])).rounded("onnx")
    for x in samples:
        # A score next to the limit may be on its other side, with its whole row.
        apart = abs(np.asarray(small(x)) - np.asarray(model(x))).max(axis=1)
        assert sorted(apart)[-2] < 0.2
