"""Convolutions rewritten as `conv2d`: the same function, on compiled kernels."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.passes import convolutions
from mdtensor.quant.model.passes.simplify import simplify

IMAGE = md.TensorSpec(md.Float32Tensor, (2, 4, 5, 6))
SIGNAL = md.TensorSpec(md.Float32Tensor, (2, 4, 20))


def numbers(seed: int, *shape: int) -> Any:
    return md.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))


def chain(spec: md.TensorSpec, nodes: list[Node], **constants: Any) -> Graph:
    return Graph({"x": spec}, tuple(nodes), constants, (nodes[-1].output,))


def names(graph: Graph) -> list[str]:
    return [node.operation.__name__ for node in graph.nodes]


def check_same(before: Graph, after: Graph) -> None:
    feeds = {"x": np.asarray(numbers(3, *before.inputs["x"].shape))}
    (wanted,), (found,) = (g.run(feeds).values() for g in (before, after))
    assert type(wanted) is type(found)
    np.testing.assert_allclose(
        np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-5
    )


sizes = st.integers(0, 2)


@given(
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.integers(1, 3),
    padding=st.tuples(sizes, sizes, sizes, sizes),
    more=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    groups=st.sampled_from([1, 2]),
    has_bias=st.booleans(),
    relu=st.booleans(),
)
@settings(max_examples=60)
def test_transposed_convolutions(
    kernel: tuple[int, int],
    stride: int,
    padding: tuple[int, ...],
    more: tuple[int, int],
    groups: int,
    has_bias: bool,
    relu: bool,
) -> None:
    assume(max(more) < stride)
    for size, k, edges, added in zip((5, 6), kernel, (0, 1), more, strict=True):
        cut = padding[edges] + padding[edges + 2]
        assume((size - 1) * stride + k + added - cut > 0)
    options = {"stride": stride, "padding": padding, "output_padding": more}
    inputs = ("x", "w", "b" if has_bias else None)
    given = {"groups": groups, **options}
    nodes = [Node("c", md.conv_transpose2d, inputs, "y", given)]
    if relu:
        nodes.append(Node("r", md.relu, ("y",), "z"))
    constants = {"w": numbers(1, 4, 3, *kernel)}
    if has_bias:
        constants["b"] = numbers(2, 3 * groups)
    graph = chain(IMAGE, nodes, **constants)
    found = convolutions.replace_conv_transposes(graph)
    check_same(graph, found)
    if found is not graph and "conv2d" in names(found):
        taps = [-(-k // stride) * stride for k in kernel]
        assert taps[0] * taps[1] <= 2 * kernel[0] * kernel[1]
        assert names(found)[: 1 + relu] == ["conv2d", "relu"][: 1 + relu]


def test_transposed_convolutions_that_stay() -> None:
    for options in ({"dilation": 2}, {"stride": (2, 1)}, {"stride": 3}):
        node = Node("c", md.conv_transpose2d, ("x", "w", None), "y", options)
        graph = chain(IMAGE, [node], w=numbers(1, 4, 3, 2, 2))
        after = convolutions.replace_conv_transposes(graph)
        assert names(after) == ["conv_transpose2d"], options


def conv1d(x: str, y: str, **options: Any) -> Node:
    return Node(y, md.conv1d, (x, "w", "b"), y, options)


def test_signals_are_images_of_height_1() -> None:
    nodes = [
        conv1d("x", "1", padding=(1, 2), dilation=2),
        Node("r", md.relu, ("1",), "2"),
        conv1d("2", "3", stride=2, groups=1),
        Node("h", md.hardswish, ("3",), "4"),
    ]
    graph = chain(SIGNAL, nodes, w=numbers(1, 4, 4, 3), b=numbers(2, 4))
    found = simplify(graph)
    check_same(graph, found)
    layers = ["conv2d", "relu", "conv2d", "hardswish"]
    assert names(found) == ["expand_dims", *layers, "squeeze"]
    # The name in the file stays the name of the layer.
    assert [n.name for n in found.nodes if n.operation is md.conv2d] == ["1", "3"]


@pytest.mark.parametrize("axis", [2, -2, (2,)])
@pytest.mark.parametrize("shape", [(1, 4, 1), (4, 1), (1, 1, 1), ()])
def test_constants_behind_signals(axis: Any, shape: Any) -> None:
    """TensorFlow's converter adds the bias to the signal, and turns the result."""
    layer = Node("c", md.conv2d, ("1", "w", None), "2", {"padding": (0, 1, 0, 1)})
    nodes = [
        Node("i", md.expand_dims, ("x",), "1", {"axis": axis}),
        layer,
        Node("s", md.squeeze, ("2",), "3", {"axis": axis}),
        Node("m", md.mul, ("3", "factor"), "4"),
        Node("a", md.add, ("4", "bias"), "5"),
        Node("r", md.relu, ("5",), "6"),
        Node("t", md.permute_dims, ("6",), "7", {"axes": (0, 2, 1)}),
    ]
    constants = {"bias": numbers(2, *shape), "factor": numbers(3, *shape)}
    graph = chain(SIGNAL, nodes, w=numbers(1, 4, 4, 1, 3), **constants)
    found = simplify(graph)
    check_same(graph, found)
    wanted = ["expand_dims", "conv2d", "relu", "permute_dims", "squeeze"]
    assert names(found) == wanted


@pytest.mark.parametrize("shape", [(1, 4, 9), (3, 4, 1)])
def test_other_constants_behind_signals(shape: Any) -> None:
    """One number for each place stays an addition; one that enlarges stays behind."""
    nodes = [conv1d("x", "1"), Node("a", md.add, ("1", "bias"), "2")]
    graph = chain(
        md.TensorSpec(md.Float32Tensor, (1, 4, 9)),
        nodes,
        w=numbers(1, 4, 4, 1),
        b=numbers(2, 4),
        bias=numbers(3, *shape),
    )
    found = simplify(graph)
    check_same(graph, found)
    assert "add" in names(found)


def test_signals_that_are_read_twice_and_outputs() -> None:
    nodes = [
        conv1d("x", "1"),
        Node("r", md.relu, ("1",), "2"),
        Node("s", md.add, ("1", "2"), "3"),
        Node("e", md.expand_dims, ("3",), "4", {"axis": 2}),
    ]
    graph = chain(SIGNAL, nodes, w=numbers(1, 4, 4, 1), b=numbers(2, 4))
    graph = Graph(graph.inputs, graph.nodes, graph.constants, ("2", "4"))
    found = simplify(graph)
    assert found.outputs == graph.outputs
    feeds = {"x": np.asarray(numbers(3, *SIGNAL.shape))}
    wanted, made = graph.run(feeds), found.run(feeds)
    for name in graph.outputs:
        np.testing.assert_allclose(
            np.asarray(made[name]), np.asarray(wanted[name]), atol=1e-5
        )


def test_signals_quantize_to_compiled_steps(tmp_path: Any) -> None:
    nodes = [conv1d("x", "1", padding=(2, 1)), Node("r", md.relu, ("1",), "2")]
    graph = chain(SIGNAL, nodes, w=numbers(1, 8, 4, 4), b=numbers(2, 8))
    model = Model(simplify(graph))
    samples = [np.asarray(numbers(seed, *SIGNAL.shape)) for seed in range(3)]
    small = model.quantize(model.calibrate(samples))
    (layer,) = (n for n in small.plan().nodes if n.operation == "conv2d")
    assert (layer.arithmetic, layer.why) == ("integer", "")
    small.save(tmp_path / "small.onnx")
    loaded = quant.load(tmp_path / "small.onnx")
    for x in samples:
        assert np.array_equal(np.asarray(small(x)), np.asarray(loaded(x)))


@pytest.mark.parametrize("padding", [0, (1, 0), (1, 0, 2, 0)])
def test_pads_fold(padding: Any) -> None:
    widths = ((0, 0), (0, 0), (1, 2), (0, 3))
    nodes = [
        Node("p", md.pad, ("x",), "1", {"pad_width": widths}),
        Node("c", md.conv2d, ("1", "w", None), "y", {"padding": padding}),
    ]
    graph = chain(IMAGE, nodes, w=numbers(1, 3, 4, 3, 2))
    found = convolutions.fold_pads(graph)
    check_same(graph, found)
    assert names(found) == ["conv2d"]


def test_pads_of_signals_fold() -> None:
    pad = Node("p", md.pad, ("x",), "1", {"pad_width": ((0, 0), (0, 0), (3, 1))})
    graph = chain(
        SIGNAL, [pad, conv1d("1", "y")], w=numbers(1, 3, 4, 3), b=numbers(2, 3)
    )
    found = simplify(graph)
    check_same(graph, found)
    assert "pad" not in names(found)


@pytest.mark.parametrize(
    "options",
    [
        {"pad_width": ((0, 0), (0, 0), (1, 1), (0, 0)), "value": 1.0},
        {"pad_width": ((0, 0), (0, 1), (1, 1), (0, 0))},
        {"pad_width": ((1, 0), (0, 0), (1, 1), (0, 0))},
    ],
    ids=["another number", "channels", "images"],
)
def test_pads_that_stay(options: dict[str, Any]) -> None:
    channels = 4 + sum(options["pad_width"][1])
    nodes = [
        Node("p", md.pad, ("x",), "1", options),
        Node("c", md.conv2d, ("1", "w", None), "y"),
    ]
    graph = chain(IMAGE, nodes, w=numbers(1, 3, channels, 3, 2))
    assert convolutions.fold_pads(graph) is graph


def test_pads_of_codes_fold_to_the_same_codes() -> None:
    grid = quant.QParams(0.03, 17, dtype="quint8")
    out = quant.QParams(0.05, 100, dtype="quint8")
    weights = quant.quantize(numbers(1, 3, 4, 3, 2), quant.QParams(0.02, dtype="qint8"))
    spec = md.TensorSpec(quant.QUInt8Tensor, IMAGE.shape, grid)
    nodes = [
        Node("p", md.pad, ("x",), "1", {"pad_width": ((0, 0), (0, 0), (1, 2), (2, 0))}),
        Node("c", md.conv2d, ("1", "w", None), "y", {"out": out}),
    ]
    graph = chain(spec, nodes, w=weights)
    found = convolutions.fold_pads(graph)
    assert names(found) == ["conv2d"]
    x = quant.quantize(numbers(5, *IMAGE.shape), grid)
    (wanted,), (made,) = (g.run({"x": x}).values() for g in (graph, found))
    assert np.array_equal(wanted.codes.buffer, made.codes.buffer)
