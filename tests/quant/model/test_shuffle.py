"""Transposed convolutions as products: the same numbers, by integers if quantized."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.passes.simplify import simplify

RNG = np.random.default_rng(6)
SHAPE = (2, 4, 5, 3)


def weights(*shape: int) -> Any:
    return md.asarray(RNG.standard_normal(shape, np.float32))


def transposed(
    r: Any = 2, *behind: Any, bias: Any = "b", outputs: Any = (), **options: Any
) -> Graph:
    """A transposed convolution, and operations of one argument behind it."""
    kernel = r if isinstance(r, tuple) else (r, r)
    options = {"stride": kernel, **options}
    nodes = [Node("T", md.conv_transpose2d, ("x", "w", bias), "t", options)]
    for number, operation in enumerate(behind):
        source = nodes[-1].output
        nodes.append(Node(f"n{number}", operation, (source,), f"v{number}"))
    outputs = (*outputs, nodes[-1].output)
    spec = md.TensorSpec(md.Float32Tensor, SHAPE)
    known = {"w": weights(4, 6 // options.get("groups", 1), *kernel), "b": weights(6)}
    return Graph({"x": spec}, tuple(nodes), known, outputs).pruned()


def names(graph: Graph) -> list[str]:
    return [node.operation.__name__ for node in graph.nodes]


FOUND = {
    "plain": (transposed(), ["conv2d", "pixel_shuffle"]),
    "without a bias": (transposed(3, bias=None), ["conv2d", "pixel_shuffle"]),
    "of one pixel": (transposed(1), ["conv2d"]),
    "windows that overlap": (transposed(2, stride=1), ["conv2d"]),
    "windows of other sizes": (
        transposed((3, 4), stride=2),
        ["conv2d", "pixel_shuffle", "getitem"],
    ),
    "cut": (transposed(2, padding=1), ["conv2d", "pixel_shuffle", "getitem"]),
    "longer": (
        transposed(2, output_padding=1),
        ["conv2d", "pixel_shuffle", "getitem"],
    ),
    "in groups": (transposed(2, groups=2), ["conv2d", "pixel_shuffle"]),
    "relu": (transposed(2, md.relu), ["conv2d", "relu", "pixel_shuffle"]),
    "another behind": (transposed(2, md.tanh), ["conv2d", "pixel_shuffle", "tanh"]),
    "a relu beside an output": (
        transposed(2, md.relu, outputs=("t",)),
        ["conv2d", "pixel_shuffle", "relu"],
    ),
}
LEFT = {
    "windows apart": transposed(2, stride=3),
    "a stride of each axis": transposed((2, 3)),
    "dilated": transposed(2, dilation=2),
}


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
def test_what_becomes_a_product(case: Any) -> None:
    before, left = case
    after = simplify(before)
    assert names(after) == left
    x = RNG.standard_normal(SHAPE, np.float32)
    wanted, found = before.run({"x": x}), after.run({"x": x})
    assert list(wanted) == list(found)
    for name, tensor in wanted.items():
        result = np.asarray(found[name])
        np.testing.assert_allclose(result, np.asarray(tensor), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("graph", LEFT.values(), ids=LEFT)
def test_what_stays_as_it_is(graph: Graph) -> None:
    assert names(simplify(graph)) == ["conv_transpose2d"]


@pytest.mark.parametrize(
    "behind", [(), (md.relu,), (md.sigmoid,)], ids=["nothing", "relu", "sigmoid"]
)
def test_quantized_it_runs_by_integers(
    behind: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    model = Model(simplify(transposed(2, *behind)))
    x = RNG.standard_normal(SHAPE, np.float32)
    small = model.quantize(model.calibrate([x]))
    plan = small.plan()
    assert not plan.float_nodes
    layer = next(n for n in plan.nodes if n.node == "T")
    assert (layer.kernel, layer.macs) == ("gemm_u8s8u8", 2 * 5 * 3 * 4 * 24)
    found, wanted = np.asarray(small(x)), np.asarray(model(x))
    assert np.abs(found - wanted).max() < 0.03 * np.ptp(wanted)
    small.save(tmp_path / "q.onnx")
    assert np.array_equal(np.asarray(load(tmp_path / "q.onnx")(x)), found)
    theirs = onnxruntime_of(tmp_path / "q.onnx", {"x": x})[0]
    assert np.abs(theirs - found).max() <= 1.01 * np.ptp(wanted) / 255


def test_an_image_that_is_resized_and_joined_stays_codes(tmp_path: Path) -> None:
    places = md.asarray(np.repeat(np.arange(5), 2))
    nodes = (
        Node("C", md.conv2d, ("x", "w", None), "c"),
        Node("T", md.take, ("c", "i"), "t", {"axis": 2}),
        Node("B", md.take, ("t", "i"), "u", {"axis": 2}),
        Node("J", md.concat, ("t", "t", "t"), "j", {"axis": 1}),
        Node("D", md.conv2d, ("j", "v", None), "y"),
        Node("E", md.relu, ("u",), "z"),
    )
    spec = md.TensorSpec(md.Float32Tensor, SHAPE)
    known = {"w": weights(6, 4, 1, 1), "v": weights(2, 18, 1, 1), "i": places}
    model = Model(Graph({"x": spec}, nodes, known, ("y", "z")))
    x = RNG.standard_normal(SHAPE, np.float32)
    small = model.quantize(model.calibrate([x]))
    kernels = {n.node: n.kernel for n in small.plan().nodes}
    assert (kernels["T"], kernels["B"]) == ("take_u8", "take_u8")
    assert kernels["J"] == "concat_u8"
    found, wanted = small(x), model(x)
    for ours, exact in zip(found, wanted, strict=True):
        far = np.abs(np.asarray(ours) - np.asarray(exact)).max()
        assert far < 0.03 * np.ptp(np.asarray(exact))
    small.save(tmp_path / "q.onnx")
    again = load(tmp_path / "q.onnx")
    assert {n.node: n.kernel for n in again.plan().nodes} == kernels
    for one, other in zip(again(x), found, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))
