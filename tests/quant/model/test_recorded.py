"""Models inside compiled functions and lazy blocks: their nodes become calls."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import TensorSpec, quant
from mdtensor.graph.graph import Graph, Node
from mdtensor.quant.model.model import Model


def normal(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return md.from_numpy(rng.normal(size=shape).astype(np.float32))


def raw(x: Any) -> tuple[Any, bytes]:
    found = np.asarray(x)
    return found.shape, found.tobytes()


def images() -> Model:
    """Return a network of images with two results, the first a mean."""
    constants = {"w": normal(8, 3, 3, 3, seed=1), "b": normal(8, seed=2)}
    nodes = (
        Node("conv", md.conv2d, ("x", "w", "b"), "h", {"padding": 1}),
        Node("relu", md.relu, ("h",), "r", {}),
        Node("mean", md.global_avg_pool2d, ("r",), "m", {}),
        Node("shares", md.softmax, ("m",), "s", {"axis": 1}),
    )
    spec = TensorSpec(md.Float32Tensor, (-1, 3, 9, 9))
    return Model(Graph({"x": spec}, nodes, constants, ("m", "s")))


def test_a_model_is_recorded_with_the_bytes_of_its_plan() -> None:
    model, x = images(), normal(2, 3, 9, 9)
    mean, shares = model(x)

    @md.compile
    def around(x: Any) -> Any:
        mean, shares = model(x * 1.0)
        return mean + 1.0, shares

    for _ in range(3):
        found = around(x)
        assert raw(found[0]) == raw(mean + 1.0)
        assert raw(found[1]) == raw(shares)
    assert len(around.traces) == 1
    assert "conv2d" in str(around.traces[0])
    lazy = model(x.to("lazy"))
    assert raw(md.realize(lazy[0])) == raw(mean)
    assert raw(md.realize(model(x=x.to("lazy"))[1])) == raw(shares)
    assert raw(md.realize(model({"x": x.to("lazy")})[1])) == raw(shares)


def test_a_quantized_model_is_recorded() -> None:
    model = images()
    samples = [normal(1, 3, 9, 9, seed=i) for i in range(4)]
    small = model.quantize(model.calibrate(samples))
    x = samples[0]
    wanted = small(x)
    found = md.compile(small)(x)
    assert [raw(y) for y in found] == [raw(y) for y in wanted]


def test_a_lazy_input_of_another_type_or_shape_is_refused() -> None:
    model = images()
    with pytest.raises(md.DataError, match=r"must be Float32Tensor.*LazyFloat32"):
        model(normal(2, 3, 9, 8).to("lazy"))
    with pytest.raises(md.DataError, match="LazyFloat64Tensor"):
        model(md.zeros((2, 3, 9, 9), dtype=md.float64).to("lazy"))


def test_a_model_of_a_file_is_recorded(tmp_path: Path) -> None:
    images().save(tmp_path / "model.onnx")
    model, x = quant.load(tmp_path / "model.onnx"), normal(2, 3, 9, 9)
    found = md.compile(lambda x: model(x)[1])(x)
    assert raw(found) == raw(model(x)[1])
