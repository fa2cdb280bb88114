"""Scales of weights and biases, of any size."""

from typing import Any

import numpy as np
from hypothesis import example, given, strategies as st

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant import MinMaxObserver
from mdtensor.quant.model.onnx.read import read_graph
from mdtensor.quant.model.onnx.write import write_graph
from mdtensor.quant.model.passes.simplify import simplify
from mdtensor.quant.model.quantize.algorithms import WeightAlgorithm
from mdtensor.quant.model.quantize.calibrate import calibrate
from mdtensor.quant.model.quantize.quantize import quantize_graph
from mdtensor.quant.model.quantize.weights import floor_of

RNG = np.random.default_rng(9)
X, W, B = (
    RNG.standard_normal(shape, np.float32)
    for shape in ((1, 3, 6, 6), (4, 3, 3, 3), (4,))
)
IMAGE = md.TensorSpec(md.Float32Tensor, X.shape)
CONV = Node("c", md.conv2d, ("x", "w", "b"), "c", {"padding": 1})


def layer(w: Any, b: Any) -> Graph:
    constants = {"w": md.asarray(np.float32(w)), "b": md.asarray(np.float32(b))}
    return Graph({"x": IMAGE}, (CONV,), constants, ("c",))


def quantized(made: Graph, x: Any) -> Graph:
    return quantize_graph(made, calibrate(made, [x], MinMaxObserver))


def test_scales_cover_the_weights_and_are_at_least_the_floor() -> None:
    w = md.asarray(np.array([[1.0, -127.0], [0.0, 0.0], [0.5, 0.25]], np.float32))
    node = Node("l", md.linear, ("x", "w", None), "y")
    nearest = WeightAlgorithm()
    scale = nearest.codes(node, w).qparams.scale
    assert scale[:2].tolist() == [1.0, 1.0]  # nothing but zeros: any scale
    assert scale[2] >= 0.5 / 127
    assert float(nearest.codes(node, w, None).qparams.scale) == 1.0
    floor = np.full(3, 2.0)
    assert nearest.codes(node, w, 0, floor).qparams.scale.tolist() == [2.0] * 3


def test_weights_without_elements_have_no_floor() -> None:
    assert floor_of(md.zeros((2, 0)), None, 0.1) == 0
    assert floor_of(md.zeros((0, 3)), None, 0.1) == 0


def test_a_bias_far_above_its_weights_still_fits() -> None:
    made = layer(W * 1e-12, B)
    found = quantized(made, X)
    assert np.abs(np.asarray(found.constants["c.b"].codes)).max() <= 2**30
    result = np.asarray(found.run({"x": X})["c"])
    wanted = np.broadcast_to(B[:, None, None], (4, 6, 6))
    np.testing.assert_allclose(result[0], wanted, atol=0.02)


@given(
    x=st.integers(-34, 30),
    w=st.lists(st.integers(-44, 20), min_size=4, max_size=4),
    b=st.integers(-44, 30),
)
@example(x=-18, w=[-18] * 4, b=-36)
@example(x=-30, w=[0] * 4, b=30)
@example(x=0, w=[-30, -40, 0, 1], b=0)
def test_scales_of_any_size_are_saved_and_run(
    x: int, w: list[int], b: int, tmp_path_factory: Any
) -> None:
    if max(x + max(w), b) > 36:
        return
    made = layer(W * 10.0 ** np.array(w).reshape(4, 1, 1, 1), B * 10.0**b)
    feeds = {"x": (X * 10.0**x).astype(np.float32)}
    found = quantized(made, feeds["x"])
    path = tmp_path_factory.mktemp("scales") / "model.onnx"
    write_graph(found, path)
    again = simplify(read_graph(path))
    real, own, saved = (np.asarray(g.run(feeds)["c"]) for g in (made, found, again))
    assert np.abs(own - saved).max() <= 0.01 * np.abs(own).max()
    if np.abs(real).max() > 1e-34 and x > -34:
        assert np.abs(own - real).max() <= 0.05 * np.abs(real).max()


def test_a_layer_without_a_scale_for_its_bias_stays_float() -> None:
    made = layer(W, B * 1e30)
    found = quantized(made, X * np.float32(1e-30))
    assert found.notes == {"c": "the scale of its bias does not fit float32"}
    assert found.run({"x": X})["c"].tolist() == made.run({"x": X})["c"].tolist()
