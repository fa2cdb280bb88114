"""Files that are written: valid, small, and the same graph when read again."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant import QParams, QUInt8Tensor, quantize, quint8, requantize
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.onnx.read import read_graph
from mdtensor.quant.model.onnx.write import serialize, write_graph
from mdtensor.quant.model.passes.simplify import simplify

ROWS = md.TensorSpec(md.Float32Tensor, (2, 3))
GRID = QParams(0.05, 100, dtype=quint8)


def graph(*nodes: Node, outputs: Any = ("y",), **constants: Any) -> Graph:
    return Graph({"x": ROWS}, nodes, constants, outputs)


def rows() -> np.ndarray:
    return np.random.default_rng(4).standard_normal((2, 3), np.float32)


def test_the_quantized_classifier_is_small(small_graph: Graph, tmp_path: Path) -> None:
    write_graph(small_graph, tmp_path / "q.onnx")
    assert (tmp_path / "q.onnx").stat().st_size < 200_000


def test_save_and_load_gives_the_same_bits(
    small_graph: Graph, crops: Any, tmp_path: Path
) -> None:
    write_graph(small_graph, tmp_path / "q.onnx")
    again = simplify(read_graph(tmp_path / "q.onnx"))
    kinds = [n.operation for n in small_graph.nodes]
    assert [n.operation for n in again.nodes] == kinds
    output = small_graph.outputs[0]
    for crop in crops[1][::5]:
        feeds = {"x": crop.pixels}
        wanted = np.asarray(small_graph.run(feeds)[output])
        assert (np.asarray(again.run(feeds)[output]) == wanted).all()


def test_saving_what_was_loaded_changes_nothing(
    small_graph: Graph, tmp_path: Path
) -> None:
    write_graph(small_graph, tmp_path / "q.onnx")
    once = simplify(read_graph(tmp_path / "q.onnx"))
    write_graph(once, tmp_path / "q2.onnx")
    twice = simplify(read_graph(tmp_path / "q2.onnx"))
    assert serialize(once) == serialize(twice)


def test_the_float_classifier_computes_the_same(
    float_graph: Graph, crops: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    write_graph(float_graph, tmp_path / "f.onnx")
    feeds = {"x": crops[1][0].pixels}
    wanted = onnxruntime_of(tmp_path / "f.onnx", feeds)[0]
    found = np.asarray(float_graph.run(feeds)[float_graph.outputs[0]])
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_names_of_inputs_outputs_and_nodes_are_kept(tmp_path: Path) -> None:
    made = graph(
        Node("first", quantize, ("x",), "long.name.of.a.value", {"qparams": GRID}),
        Node("second", md.relu, ("long.name.of.a.value",), "y", {"out": GRID}),
    )
    write_graph(made, tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx").graph
    assert [i.name for i in model.input] == ["x"]
    assert [o.name for o in model.output] == ["y"]
    assert [n.name for n in model.node if n.name] == ["first", "second"]
    assert "long" not in str(model.node)
    assert model.output[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8


def test_equal_numbers_are_stored_once(tmp_path: Path) -> None:
    nodes = [Node("q", quantize, ("x",), "v0", {"qparams": GRID})]
    for i in range(5):
        nodes.append(Node(f"n{i}", md.relu, (f"v{i}",), f"v{i + 1}", {"out": GRID}))
    model = onnx.load_model_from_string(serialize(graph(*nodes, outputs=("v5",))))
    assert len(model.graph.initializer) == 2


def test_requantize_and_python_numbers(onnxruntime_of: Any, tmp_path: Path) -> None:
    wide = QParams(0.07, 3, dtype=quint8)
    made = graph(
        Node("a", md.add, ("x", 1.5), "a"),
        Node("q", quantize, ("a",), "q", {"qparams": GRID}),
        Node("r", requantize, ("q",), "y", {"out": wide}),
    )
    write_graph(made, tmp_path / "m.onnx")
    theirs = onnxruntime_of(tmp_path / "m.onnx", {"x": rows()})[0]
    assert (np.asarray(made.run({"x": rows()})["y"].codes) == theirs).all()


def test_inputs_that_are_codes(onnxruntime_of: Any, tmp_path: Path) -> None:
    spec = md.TensorSpec(QUInt8Tensor, (4,), GRID)
    node = Node("s", md.sigmoid, ("x",), "y", {"out": QParams(1 / 255, dtype=quint8)})
    made = Graph({"x": spec}, (node,), {}, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    codes = np.array([0, 90, 110, 255], np.uint8)
    theirs = onnxruntime_of(tmp_path / "m.onnx", {"x": codes})[0]
    ours = made.run({"x": QUInt8Tensor(codes, GRID)})["y"]
    assert (np.asarray(ours.codes) == theirs).all()


def test_a_constant_output(onnxruntime_of: Any, tmp_path: Path) -> None:
    made = Graph({}, (), {"y": md.asarray(rows())}, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    assert (onnxruntime_of(tmp_path / "m.onnx", {})[0] == rows()).all()


def test_a_constant_output_that_a_node_reads(
    onnxruntime_of: Any, tmp_path: Path
) -> None:
    spec = md.TensorSpec(md.Float32Tensor, rows().shape)
    nodes = (Node("n", md.add, ("x", "k"), "y"),)
    made = Graph({"x": spec}, nodes, {"k": md.asarray(rows())}, ("y", "k"))
    write_graph(made, tmp_path / "m.onnx")
    found = onnxruntime_of(tmp_path / "m.onnx", {"x": rows()})
    assert (found[0] == 2 * rows()).all() and (found[1] == rows()).all()
    again = load(tmp_path / "m.onnx")(rows())
    assert (np.asarray(again[1]) == rows()).all()


KEYS = [
    (),
    2,
    -1,
    slice(None),
    slice(1, 4, 2),
    slice(-3, None),
    slice(None, -2),
    slice(None, None, -2),
    slice(3, None, -1),
    slice(3, 1, -1),
    slice(4, -9, -3),
    slice(7, 9),
    (slice(None), slice(-2, None, -1)),
    (slice(None), 1),
]
#: Windows of which one begins behind the image, and another only ends there.
HALF_BEHIND = {
    "kernel_size": (1, 2),
    "stride": (2, 2),
    "ceil_mode": True,
    "count_include_pad": True,
}
OTHERS = [
    Node("n", md.maximum, ("x", "k"), "y"),
    Node("n", md.minimum, ("x", "k"), "y"),
    Node("n", md.max, ("x",), "y", {"axis": 1}),
    Node("n", md.concat, ("x", "k"), "y", {"axis": None}),
    Node("n", md.getitem, ("x",), "y", {"key": (slice(None), slice(None, None, -2))}),
    Node("n", md.getitem, ("x",), "y", {"key": -1}),
    Node("n", md.linear, ("x3", "w", "b"), "y"),
    Node("n", md.linear, ("x3", "w", None), "y"),
    Node("n", md.broadcast_to, ("x",), "y", {"shape": (4, 2, 3)}),
    Node("n", md.tile, ("x", (2, 1, 3)), "y"),
    Node("n", md.tile, ("x3", (2,)), "y"),
    Node("n", md.not_equal, ("x", "k"), "y"),
    Node("n", md.cumulative_sum, ("x",), "y", {"axis": -1}),
    Node("n", md.argmax, ("x",), "y", {"axis": 1, "keepdims": True}),
    Node("n", md.argmin, ("x",), "y", {"axis": 0}),
    Node("n", md.argmax, ("x",), "y"),
    Node("n", md.tril, ("x",), "y", {"k": 1}),
    Node("n", md.triu, ("x",), "y"),
    Node("n", md.take_along_axis, ("x", "i"), "y", {"axis": 1}),
    Node("n", md.conv1d, ("x3", "w1", "b"), "y", {"padding": (1, 0), "dilation": 2}),
    Node("n", md.conv1d, ("x3", "w1", None), "y", {"stride": (2,), "padding": 1}),
    Node("n", md.max_pool1d, ("x3",), "y", {"kernel_size": 2, "padding": (1,)}),
    Node(
        "n",
        md.avg_pool1d,
        ("x3",),
        "y",
        {"kernel_size": (2,), "stride": 1, "padding": 1, "count_include_pad": False},
    ),
]


@pytest.mark.parametrize("node", OTHERS, ids=str)
def test_operations_that_no_reader_makes(
    node: Node, onnxruntime_of: Any, tmp_path: Path
) -> None:
    lift = Node("e", md.expand_dims, ("x",), "x3", {"axis": 0})
    made = graph(
        lift,
        node,
        k=md.asarray(rows() * 0 + 0.1),
        w=md.asarray(np.ones((4, 3), np.float32)),
        b=md.asarray(np.arange(4, dtype=np.float32)),
        w1=md.asarray(np.ones((4, 2, 2), np.float32) / 4),
        i=md.asarray([[2, 0], [1, 1]]),
    ).pruned()
    write_graph(made, tmp_path / "m.onnx")
    theirs = onnxruntime_of(tmp_path / "m.onnx", {"x": rows()})[0]
    ours = np.asarray(made.run({"x": rows()})["y"])
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("size", [-1, 5])
def test_slices_with_and_without_dynamic_sizes(
    key: Any, size: int, onnxruntime_of: Any, tmp_path: Path
) -> None:
    spec = md.TensorSpec(md.Float32Tensor, (size, 3))
    node = Node("n", md.getitem, ("x",), "y", {"key": key})
    made = Graph({"x": spec}, (node,), {}, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    theirs = onnxruntime_of(tmp_path / "m.onnx", {"x": x})[0]
    ours = np.asarray(made.run({"x": x})["y"])
    assert ours.shape == theirs.shape
    assert ours.tolist() == theirs.tolist()


IMAGES = md.TensorSpec(md.Float32Tensor, (-1, 4, -1, 3))
REREAD = [
    Node("n", md.getitem, ("x",), "y", {"key": (slice(None),) * 3 + (slice(1, 3),)}),
    Node("n", md.pixel_shuffle, ("x",), "y", {"upscale_factor": 2}),
]


@pytest.mark.parametrize("node", REREAD, ids=str)
def test_what_leaves_a_dynamic_size_as_it_is_can_be_read(
    node: Node, tmp_path: Path
) -> None:
    made = Graph({"x": IMAGES}, (node,), {}, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    x = np.arange(48, dtype=np.float32).reshape(2, 4, 2, 3)
    again, wanted = read_graph(tmp_path / "m.onnx").run({"x": x}), made.run({"x": x})
    assert np.asarray(again["y"]).tolist() == np.asarray(wanted["y"]).tolist()


def test_no_axes_in_another_order(onnxruntime_of: Any, tmp_path: Path) -> None:
    spec = md.TensorSpec(md.Float32Tensor, ())
    node = Node("n", md.permute_dims, ("x",), "y", {"axes": ()})
    write_graph(Graph({"x": spec}, (node,), {}, ("y",)), tmp_path / "m.onnx")
    x = np.array(3, np.float32)
    assert onnxruntime_of(tmp_path / "m.onnx", {"x": x})[0] == 3


def test_a_fixed_axis_is_cut_before_its_first_element(
    onnxruntime_of: Any, tmp_path: Path
) -> None:
    """A slice from there backwards is empty here, and not in the file."""
    made = graph(Node("n", md.getitem, ("x",), "y", {"key": slice(-9, None, -1)}))
    write_graph(made, tmp_path / "m.onnx")
    assert onnxruntime_of(tmp_path / "m.onnx", {"x": rows()})[0].shape == (0, 3)


@pytest.mark.parametrize("operation", [md.max_pool2d, md.avg_pool2d])
@pytest.mark.parametrize("seed", range(20))
def test_pools_of_ceil_mode(
    operation: Any, seed: int, onnxruntime_of: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    height, width, down, right = (int(n) for n in rng.integers(4, 9, 4) % (9, 9, 3, 3))
    kernel = tuple(int(n) for n in rng.integers(1, 4, 2))
    options = {
        "kernel_size": kernel,
        "stride": (down + 1, right + 1),
        "padding": tuple(int(rng.integers(0, k)) for k in kernel * 2),
        "ceil_mode": True,
    }
    if operation is md.avg_pool2d:
        options["count_include_pad"] = False
    spec = md.TensorSpec(md.Float32Tensor, (1, 2, height, width))
    node = Node("n", operation, ("x",), "y", options)
    made = Graph({"x": spec}, (node,), {}, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    x = rng.standard_normal(spec.shape, np.float32)
    theirs = onnxruntime_of(tmp_path / "m.onnx", {"x": x})[0]
    ours = np.asarray(made.run({"x": x})["y"])
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "output_padding": 1},
        {"stride": (3, 2), "padding": (1, 0, 2, 1), "groups": 2},
        {"dilation": (2, 1), "padding": 1},
    ],
)
@pytest.mark.parametrize("bias", ["b", None])
def test_a_transposed_convolution(
    options: dict[str, Any], bias: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((4, 6 // options.get("groups", 1), 3, 2), np.float32)
    b = rng.standard_normal(6, np.float32)
    node = Node("n", md.conv_transpose2d, ("x", "w", bias), "y", options)
    spec = md.TensorSpec(md.Float32Tensor, (2, 4, 5, 4))
    known = {"w": md.asarray(w), "b": md.asarray(b)}
    made = Graph({"x": spec}, (node,), known, ("y",)).pruned()
    write_graph(made, tmp_path / "m.onnx")
    feeds = {"x": rng.standard_normal(spec.shape, np.float32)}
    ours = np.asarray(made.run(feeds)["y"])
    theirs = onnxruntime_of(tmp_path / "m.onnx", feeds)[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    again = read_graph(tmp_path / "m.onnx")
    assert np.array_equal(np.asarray(again.run(feeds)["y"]), ours)


@pytest.mark.parametrize("kind", ["Mul", "Div"])
def test_a_quantized_model_with_a_factor(
    kind: str, make_model: Any, tmp_path: Path
) -> None:
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["v"])]
    nodes.append(onnx.helper.make_node("Relu", ["v"], ["a"]))
    nodes.append(onnx.helper.make_node(kind, ["a", "c"], ["y"]))
    constants = {"w": np.ones((2, 3, 1, 1), np.float32), "c": np.array(2.5, np.float32)}
    model = load(make_model(nodes, {"x": (1, 3, 5, 5)}, constants))
    x = np.random.default_rng(0).standard_normal((1, 3, 5, 5), np.float32)
    small = model.quantize(model.calibrate([x]))
    small.save(tmp_path / "q.onnx")
    again = np.asarray(load(tmp_path / "q.onnx")(x))
    assert again.tolist() == np.asarray(small(x)).tolist()


@pytest.mark.parametrize("shape", [(4, 6), (4, 2, 6), (2, 1, 3, 6)])
@pytest.mark.parametrize(
    ("rule", "keep_float"), [("exact", ()), ("tflite_opt", ()), ("exact", ["L"])]
)
def test_a_layer_of_any_rank_is_one_layer_again(
    rule: str, shape: Any, keep_float: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    names = {"w": (5, 6), "b": (5,)}
    constants = {n: md.asarray(rng.standard_normal(s, "f4")) for n, s in names.items()}
    layer = Node("L", md.linear, ("x", "w", "b"), "a")
    nodes = layer, Node("R", md.relu6, ("a",), "y")
    spec = md.TensorSpec(md.Float32Tensor, shape)
    model = Model(Graph({"x": spec}, nodes, constants, ("y",)))
    x = rng.standard_normal(shape, "f4")
    seen = model.calibrate([x])
    small = model.quantize(seen, rounding=rule, keep_float=keep_float)
    small.save(tmp_path / "q.onnx")
    again = load(tmp_path / "q.onnx")
    before, after = (
        [(n.node, n.operation, n.arithmetic, n.why) for n in m.plan().nodes]
        for m in (small, again)
    )
    assert [n[1:] for n in before] == [n[1:] for n in after]
    assert [n for n in before if n[0] == "L"] == [n for n in after if n[0] == "L"] != []
    assert np.asarray(again(x)).tobytes() == np.asarray(small(x)).tobytes()
    again.save(tmp_path / "q2.onnx")
    assert (tmp_path / "q2.onnx").read_bytes() == (tmp_path / "q.onnx").read_bytes()


@pytest.mark.parametrize("seed", range(10))
def test_float_layers_give_the_same_bits_again(
    seed: int, make_model: Any, tmp_path: Path
) -> None:
    """Sums are rounded in an order that depends on how the weights lie in memory."""
    rng = np.random.default_rng(seed)
    k, m, n = (
        int(rng.integers(low, high)) for low, high in ((30, 200), (1, 12), (1, 4))
    )
    node = onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5)
    constants = {"w": rng.standard_normal((k, m), np.float32), "b": np.ones(m, "f4")}
    model = load(make_model([node], {"x": ("n", k)}, constants))
    model.save(tmp_path / "f.onnx")
    x = rng.standard_normal((n, k), np.float32)
    again = np.asarray(load(tmp_path / "f.onnx")(x))
    assert again.tolist() == np.asarray(model(x)).tolist()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (graph(Node("n", md.signbit, ("x",), "y")), "signbit of node 'n' cannot be"),
        (
            graph(Node("n", md.getitem, ("x",), "y", {"key": (None, 0)})),
            "node 'n' indexes with more than integers, slices and tensors",
        ),
        (
            Graph(
                {"x": md.TensorSpec(md.Float32Tensor, (-1,))},
                (Node("n", md.getitem, ("x",), "y", {"key": slice(-2, None, -1)}),),
                {},
                ("y",),
            ),
            "node 'n' counts from the end of an axis of dynamic size",
        ),
        (
            Graph(
                {"x": md.TensorSpec(md.Float32Tensor, (1, 1, 6, 7))},
                (Node("n", md.avg_pool2d, ("x",), "y", HALF_BEHIND),),
                {},
                ("y",),
            ),
            "the graph is not a valid ONNX model",
        ),
    ],
)
def test_what_has_no_form_in_the_file(made: Graph, words: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    with pytest.raises(ModelError, match=words):
        write_graph(made, path)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (md.fft.rfft, "operators of ONNX do not take 'y', which is complex64. Save"),
        (md.pairwise_probabilities, "ONNX lacks such an operator. Save"),
    ],
)
def test_an_operation_without_operators_says_why(
    operation: Any, why: str, tmp_path: Path
) -> None:
    spec = md.TensorSpec(md.Float32Tensor, (2, 6))
    made = Graph({"x": spec}, (Node("n", operation, ("x",), "y"),), {}, ("y",))
    name = operation.__name__
    with pytest.raises(ModelError, match=f"^{name} of node 'n' .* written: {why}"):
        write_graph(made, tmp_path / "m.onnx")


def test_an_unwritable_place(tmp_path: Path) -> None:
    made = graph(Node("n", md.relu, ("x",), "y"))
    with pytest.raises(ModelError, match="cannot be written"):
        write_graph(made, tmp_path / "none" / "m.onnx")


@pytest.mark.parametrize("wanted", ["float", "codes"])
def test_layers_of_bfloat16_are_written_in_a_set_that_has_them(
    wanted: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(9)
    weights = md.astype(md.asarray(rng.standard_normal((4, 3, 3, 3))), md.bfloat16)
    nodes = (
        Node("C", md.conv2d, ("x", "w", None), "1", {"padding": (1, 1)}),
        Node("R", md.leaky_relu, ("1",), "2", {"negative_slope": 0.25}),
        Node("S", md.hardswish, ("2",), "3"),
        Node("P", md.global_avg_pool2d, ("3",), "y"),
    )
    spec = md.TensorSpec(md.BFloat16Tensor, (2, 3, 5, 4))
    model = Model(Graph({"x": spec}, nodes, {"w": weights}, ("y",)))
    model = model if wanted == "float" else model.quantize_weights()
    model.save(tmp_path / "b.onnx")
    assert onnx.load(tmp_path / "b.onnx").opset_import[0].version == 22
    x = md.astype(md.asarray(rng.standard_normal(spec.shape)), md.bfloat16)
    found, again = model(x), load(tmp_path / "b.onnx")(x)
    assert found.dtype is again.dtype is md.bfloat16
    assert found.buffer.tobytes() == again.buffer.tobytes()


def test_an_output_may_be_an_input(tmp_path: Path) -> None:
    """ONNX names the same value on both sides, so no operation is needed."""
    made = graph(Node("n", md.relu, ("x",), "y"), outputs=("y", "x"))
    model = Model(made)
    small = model.quantize(model.calibrate([rows()]))
    for given in (model, small):
        given.save(tmp_path / "m.onnx")
        again = load(tmp_path / "m.onnx")
        assert again.outputs == ("y", "x")
        for found, wanted in zip(again(rows()), given(rows()), strict=True):
            assert found.tolist() == wanted.tolist()
        assert again(rows())[1].tolist() == rows().tolist()


def test_a_graph_without_nodes(tmp_path: Path) -> None:
    Model(graph(outputs=("x",))).save(tmp_path / "m.onnx")
    assert load(tmp_path / "m.onnx")(rows()).tolist() == rows().tolist()
