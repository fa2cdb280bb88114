"""Parts of a concat whose ranges are unlike: grids of their own, and float results."""

from typing import Any

import numpy as np
from onnx import helper

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.onnx.read import read_graph
from mdtensor.quant.model.passes.simplify import simplify

IMAGE = md.TensorSpec(md.Float32Tensor, (1, 3, 8, 8))
RANDOM = np.random.default_rng(5)
SAMPLES = [RANDOM.standard_normal(IMAGE.shape, np.float32) for _ in range(3)]


def weights(*shape: int) -> Any:
    return md.asarray(RANDOM.standard_normal(shape, np.float32))


def part(*channels: int | None) -> dict[str, Any]:
    return {"key": (slice(None), slice(*channels))}


#: Boxes up to 100 and scores up to 1, from one sigmoid, as in a detector.
DETECTOR = [
    Node("head", md.conv2d, ("x", "w", None), "h"),
    Node("gate", md.sigmoid, ("h",), "s"),
    Node("near", md.getitem, ("s",), "a", part(0, 2)),
    Node("far", md.mul, ("a", "hundred"), "boxes"),
    Node("scores", md.getitem, ("s",), "b", part(2, None)),
    Node("join", md.concat, ("boxes", "b"), "y", {"axis": 1}),
]
CONSTANTS = {"w": weights(6, 3, 1, 1), "hundred": md.asarray(np.float32([100.0]))}


def quantized(nodes: list[Node], **more: Any) -> tuple[Model, Model]:
    graph = Graph({"x": IMAGE}, tuple(nodes), CONSTANTS | more, (nodes[-1].output,))
    model = Model(simplify(graph))
    return model, model.quantize(model.calibrate(SAMPLES))


def names(model: Model) -> list[str]:
    return [node.operation.__name__ for node in model.graph.nodes]


def test_scores_next_to_boxes_keep_their_digits() -> None:
    model, small = quantized(DETECTOR)
    for x in SAMPLES:
        error = np.abs(np.asarray(model(x)) - np.asarray(small(x)))
        assert error[:, 2:].max() < 0.02
        assert error[:, :2].max() < 2.0
    assert "'b' would have 3 of 256 codes" in small.graph.notes["join"]


def test_a_part_is_rounded_for_the_concat_alone() -> None:
    last = Node("last", md.conv2d, ("y", "v", None), "z")
    model, small = quantized([*DETECTOR, last], v=weights(4, 6, 1, 1))
    specs, (made,) = (
        small.graph.specs(),
        [n for n in small.graph.nodes if n.name == "gate"],
    )
    assert float(specs[made.output].qparams.scale) < 0.005
    assert names(small).count("requantize") == 1
    assert "join" not in small.graph.notes
    (joined,) = [n for n in small.graph.nodes if n.operation is md.concat]
    assert 0.3 < float(specs[joined.output].qparams.scale) < 0.5
    for x in SAMPLES:
        wanted, found = np.asarray(model(x)), np.asarray(small(x))
        assert np.abs(wanted - found).max() < 0.02 * np.abs(wanted).max()


def test_parts_that_only_the_concat_reads_are_rounded_once() -> None:
    nodes = [
        Node("large", md.conv2d, ("x", "w", None), "h"),
        Node("small", md.conv2d, ("x", "u", None), "s"),
        Node("join", md.concat, ("h", "s"), "y", {"axis": 1}),
        Node("last", md.conv2d, ("y", "v", None), "z"),
    ]
    tiny = md.asarray(np.asarray(CONSTANTS["w"]) / np.float32(50))
    _, small = quantized(nodes, u=tiny, v=weights(4, 12, 1, 1))
    assert "requantize" not in names(small)


def test_a_file_with_a_grid_for_each_part(make_model: Any) -> None:
    """The codes are those of rounding part by part, and all nodes run in integers."""
    scales = {"x": 0.05, "r": 0.02, "t": 0.01, "y": 0.03}
    nodes = [helper.make_node("Relu", ["x.dq"], ["r"])]
    nodes += [helper.make_node("Sigmoid", ["r.dq"], ["t"])]
    parts = ["x.dq", "t.dq", "r.dq", "k.dq"]
    nodes += [helper.make_node("Concat", parts, ["y"], axis=1)]
    pairs = {}
    for name in scales:
        grid = [f"{name}.s", f"{name}.z"]
        pairs[name] = [
            helper.make_node("QuantizeLinear", [name, *grid], [f"{name}.q"]),
            helper.make_node("DequantizeLinear", [f"{name}.q", *grid], [f"{name}.dq"]),
        ]
    stored = helper.make_node("DequantizeLinear", ["k", "t.s", "t.z"], ["k.dq"])
    ordered = [
        stored,
        *pairs["x"],
        nodes[0],
        *pairs["r"],
        nodes[1],
        *pairs["t"],
        nodes[2],
    ]
    constants = {f"{name}.s": np.float32(scale) for name, scale in scales.items()}
    constants |= {f"{name}.z": np.uint8(100) for name in scales}
    constants["k"] = RANDOM.integers(0, 256, (2, 1, 4)).astype(np.uint8)
    path = make_model(
        [*ordered, *pairs["y"]], {"x": (2, 3, 4)}, constants, outputs=("y.dq",)
    )
    x = RANDOM.standard_normal((2, 3, 4), np.float32)
    model = load(path)
    assert names(model).count("requantize") == 3
    assert names(model).count("dequantize") == 1
    (wanted,) = read_graph(path).run({"x": x}).values()
    assert np.array_equal(np.asarray(model(x)), np.asarray(wanted))


def test_a_zero_bias_that_layers_share(make_model: Any) -> None:
    """Its scale fits one layer only, and both run in integers."""
    grids = {"x": (0.05, 8), "a": (0.02, 8), "b": (0.03, 8)}
    constants: dict[str, Any] = {}
    for name, (scale, zero) in grids.items():
        constants |= {f"{name}.s": np.float32(scale), f"{name}.z": np.uint8(zero)}
    codes = RANDOM.integers(-127, 128, (4, 4)).astype(np.int8)
    constants |= {"w": codes, "w.s": np.float32(0.01), "w.z": np.int8(0)}
    constants |= {"k": np.zeros(4, np.int32), "k.s": np.float32(0.05 * 0.01)}
    constants |= {"k.z": np.int32(0)}
    nodes = [
        helper.make_node("DequantizeLinear", [f"{c}", f"{c}.s", f"{c}.z"], [f"{c}.dq"])
        for c in "wk"
    ]
    for name, source in (("x", ""), ("a", "x.dq"), ("b", "a.dq")):
        grid = [f"{name}.s", f"{name}.z"]
        if source:
            nodes.append(helper.make_node("Gemm", [source, "w.dq", "k.dq"], [name]))
        nodes.append(helper.make_node("QuantizeLinear", [name, *grid], [f"{name}.q"]))
        pair = [f"{name}.q", *grid]
        nodes.append(helper.make_node("DequantizeLinear", pair, [f"{name}.dq"]))
    path = make_model(nodes, {"x": (2, 4)}, constants, outputs=("b.dq",))
    model = load(path)
    assert names(model) == ["quantize", "linear", "linear", "dequantize"]
    x = RANDOM.standard_normal((2, 4), np.float32)
    (wanted,) = read_graph(path).run({"x": x}).values()
    assert np.array_equal(np.asarray(model(x)), np.asarray(wanted))
