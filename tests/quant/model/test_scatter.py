"""Scatter operators with known indices, against ONNX Runtime and the reference."""

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from mdtensor.errors import ModelError
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
