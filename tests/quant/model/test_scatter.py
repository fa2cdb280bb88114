"""Scatter operators, against ONNX Runtime, the reference, and loops."""

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from mdtensor.errors import MdtensorError, ModelError
from mdtensor.quant import load

RNG = np.random.default_rng(6)
X = RNG.standard_normal((3, 4, 2), np.float32)


def check(
    make_model: Any, run: Any, kind: str, index: Any, shape: Any, **attributes: Any
) -> None:
    node = helper.make_node(kind, ["x", "i", "u"], ["y"], **attributes)
    inputs = {"x": X.shape, "u": shape}
    path = make_model([node], inputs, {"i": np.asarray(index)}, opset=16)
    feeds = {"x": X, "u": RNG.standard_normal(shape, np.float32)}
    found = load(path).graph.run(feeds)["y"].tolist()
    assert found == run(path, feeds)[0].tolist()
    assert found == ReferenceEvaluator(str(path)).run(None, feeds)[0].tolist()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements(axis: int, make_model: Any, onnxruntime_of: Any) -> None:
    index = np.stack([RNG.permutation(2) - 1 for _ in range(6)]).reshape(2, 3, 2)
    index = index if axis < 0 else np.broadcast_to(np.arange(2), (2, 3, 2)).copy()
    if axis == 0:
        index[:] = np.array([2, -3])[:, None, None]
    if axis == 1:
        index[:] = np.array([3, -4, 1])[None, :, None]
    check(make_model, onnxruntime_of, "ScatterElements", index, (2, 3, 2), axis=axis)


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        ([[2], [0]], (2, 4, 2)),
        ([[2, -1], [0, 1]], (2, 2)),
        ([[[0, 1, 1], [2, 3, 0]]], (1, 2)),
    ],
)
def test_slices(index: Any, shape: Any, make_model: Any, onnxruntime_of: Any) -> None:
    check(make_model, onnxruntime_of, "ScatterND", index, shape)


@pytest.mark.parametrize(
    ("kind", "index", "shape", "wanted"),
    [
        ("ScatterND", [[3]], (1, 4, 2), "has index 3 for a value of size 3"),
        ("ScatterND", [[1]], (1, 4), r"has updates of shape \(1, 4\)"),
        ("ScatterND", [[0] * 4], (1,), "for a value of rank 3"),
        ("ScatterElements", [[[3]]], (1, 1, 1), "has index 3"),
        ("ScatterElements", [[[0]]], (1, 1, 2), r"has updates of shape \(1, 1, 2\)"),
    ],
)
def test_indices_that_do_not_fit(
    kind: str, index: Any, shape: Any, wanted: str, make_model: Any
) -> None:
    node = helper.make_node(kind, ["x", "i", "u"], ["y"])
    inputs = {"x": X.shape, "u": shape}
    path = make_model([node], inputs, {"i": np.array(index)}, opset=16)
    with pytest.raises(ModelError, match=wanted):
        load(path)


def test_gather_elements_of_a_dynamic_size(
    make_model: Any, onnxruntime_of: Any
) -> None:
    """The last row stays: -1 stands for any size."""
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    inputs = {"x": ("n", 4), "i": (7, ("n", 2))}
    path = make_model([node], inputs, opset=16)
    feeds = {"x": X[:, :, 0], "i": np.array([[3, 0], [1, 1], [2, -1]])}
    found = load(path)(feeds).tolist()
    assert found == onnxruntime_of(path, feeds)[0].tolist()


#: kind, its attributes, the shapes of x, of the indices and of the updates.
COMPUTED: list[tuple[str, dict[str, int], Any, Any, Any]] = [
    ("ScatterElements", {"axis": 0}, (5,), (7,), (7,)),
    ("ScatterElements", {"axis": 1}, (3, 6, 2), (3, 4, 2), (3, 4, 2)),
    ("ScatterElements", {"axis": -1}, (3, 6), (3, 9), (3, 9)),
    ("ScatterND", {}, (5,), (7, 1), (7,)),
    ("ScatterND", {}, (4, 3, 2), (2, 3, 1), (2, 3, 3, 2)),
    ("ScatterND", {}, (4, 3, 2), (6, 2), (6, 2)),
    ("ScatterND", {}, (4, 3, 2), (1, 8, 3), (1, 8)),
]


@pytest.mark.parametrize(("kind", "attributes", "shape", "index", "new"), COMPUTED)
def test_computed_indices(
    kind: str, attributes: Any, shape: Any, index: Any, new: Any, make_model: Any
) -> None:
    """Each element is the last update for its place, counted in a plain loop."""
    node = helper.make_node(kind, ["x", "i", "u"], ["y"], **attributes)
    inputs = {"x": shape, "i": (7, index), "u": new}
    network = load(make_model([node], inputs, opset=16))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, u = (rng.standard_normal(size, np.float32) for size in (shape, new))
        if kind == "ScatterND":
            limits = np.array(shape[: index[-1]])
        else:
            limits = np.array(shape[attributes["axis"]])
        places = rng.integers(-limits, limits, index)
        wanted = x.copy()
        for at in np.ndindex(index[:-1] if kind == "ScatterND" else index):
            place: Any = tuple(places[at]) if kind == "ScatterND" else list(at)
            if kind == "ScatterElements":
                place[attributes["axis"]] = places[at]
            wanted[tuple(place)] = u[at]
        feeds = {"x": x, "i": places, "u": u}
        assert network(feeds).tolist() == wanted.tolist()
        feeds["i"] = np.where(np.arange(places.size).reshape(index) == 0, 99, places)
        with pytest.raises(MdtensorError, match="outside an axis"):
            network(feeds)


def test_computed_indices_that_do_not_cover_the_other_axes(make_model: Any) -> None:
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)
    inputs = {"x": (3, 6), "i": (7, (2, 6)), "u": (2, 6)}
    with pytest.raises(ModelError, match=r"shape \(2, 6\) for \(3, 6\)"):
        load(make_model([node], inputs, opset=16))
