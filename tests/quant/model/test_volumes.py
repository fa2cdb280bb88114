"""Convolutions over three axes: any batch, in integers, and written again."""

from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from mdtensor.quant.model.load import load


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_any_batch_and_integers(
    make_model: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node(
            "Conv", ["x", "a", "b"], ["h"], pads=[1] * 6, strides=[1, 2, 2]
        ),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "c"], ["y"], group=4, dilations=[2, 1, 1]),
    ]
    constants = {"a": numbers(0, 8, 2, 3, 3, 3), "b": numbers(1, 8)}
    constants["c"] = numbers(2, 4, 2, 2, 1, 2)
    path = make_model(nodes, {"x": ("n", 2, 5, 8, 8)}, constants)
    model = load(path)
    samples = [numbers(seed, n, 2, 5, 8, 8) for seed, n in enumerate((1, 3, 2), 4)]
    for x in samples:
        (wanted,) = onnxruntime_of(path, {"x": x})
        np.testing.assert_allclose(np.asarray(model(x)), wanted, rtol=1e-5, atol=1e-4)
    small = model.quantize(model.calibrate(samples))
    floats = {node.operation.__name__ for node in small.graph.nodes}
    assert "conv2d" in floats and not {"conv1d"} & floats
    before, after = np.asarray(model(samples[0])), np.asarray(small(samples[0]))
    assert np.abs(before - after).max() < 0.03 * np.abs(before).max()
    file = tmp_path / "small.onnx"
    small.save(file)
    assert np.array_equal(np.asarray(load(file)(samples[0])), after)
