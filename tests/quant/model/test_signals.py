"""Convolutions of signals in QDQ files: they run on codes, as images of height 1."""

from typing import Any

import numpy as np
from onnx import helper

from mdtensor.quant.model.load import load
from mdtensor.quant.model.onnx.read import read_graph

SCALES = {"x": 0.03, "r": 0.05, "y": 0.2}


def grid_nodes(name: str) -> list[Any]:
    grid = [f"{name}.s", f"{name}.z"]
    return [
        helper.make_node("QuantizeLinear", [name, *grid], [f"{name}.q"]),
        helper.make_node("DequantizeLinear", [f"{name}.q", *grid], [f"{name}.dq"]),
    ]


def test_a_file_of_another_tool(make_model: Any) -> None:
    random = np.random.default_rng(3)
    constants: dict[str, Any] = {}
    stored = []
    for name, scale in SCALES.items():
        constants |= {f"{name}.s": np.float32(scale), f"{name}.z": np.uint8(90)}
    for name, count in (("v", 6), ("w", 4)):
        constants[name] = random.integers(-127, 128, (6, count, 3)).astype(np.int8)
        constants |= {f"{name}.s": np.full(6, 0.004, np.float32)}
        constants |= {f"{name}.z": np.zeros(6, np.int8)}
        grid = [name, f"{name}.s", f"{name}.z"]
        stored.append(
            helper.make_node("DequantizeLinear", grid, [f"{name}.dq"], axis=0)
        )
    nodes = [
        *stored,
        *grid_nodes("x"),
        helper.make_node("Conv", ["x.dq", "w.dq"], ["c"], pads=[1, 2], strides=[2]),
        helper.make_node("Relu", ["c"], ["r"]),
        *grid_nodes("r"),
        helper.make_node("Conv", ["r.dq", "v.dq"], ["y"], dilations=[2]),
        *grid_nodes("y"),
    ]
    path = make_model(nodes, {"x": (2, 4, 21)}, constants, outputs=("y.dq",))
    model = load(path)
    kinds = [node.operation.__name__ for node in model.graph.nodes]
    specs = model.graph.specs()
    assert kinds.count("conv2d") == 2 and kinds.count("quantize") == 1
    assert kinds.count("expand_dims") == kinds.count("squeeze") == 1
    for node in model.graph.nodes:
        if node.operation.__name__ == "conv2d":
            assert specs[node.output].qparams is not None
    x = random.standard_normal((2, 4, 21), np.float32)
    (wanted,) = read_graph(path).run({"x": x}).values()
    found = np.asarray(model(x))
    # Sums in float32 may fall on the other side of a tie.
    assert np.abs(found - np.asarray(wanted)).max() < 0.201
    assert (found != np.asarray(wanted)).mean() < 0.01
