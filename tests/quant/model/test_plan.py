"""Plans: the bytes of dispatch node by node, on every runway, and a true report."""

import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

import mdtensor as md
from mdtensor.graph import Graph, Node, spec_of
from mdtensor.graph.plan import NOT_QUANTIZED, Plan
from mdtensor.kernels.cpu import isa
from mdtensor.quant import QParams, QUInt8Tensor, qint8, quantize, quint8
from mdtensor.quant.generics import dequantize
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model

GRID = QParams(0.05, 100, dtype=quint8)
WIDE = QParams(0.1, 128, dtype=quint8)


def eager_values(graph, feeds):
    """Every value of a graph by dispatch alone."""
    seen = {}
    graph.run(feeds, lambda name, tensor: seen.update({name: tensor}))
    return seen


def same(one, other):
    assert type(one) is type(other)
    assert getattr(one, "qparams", None) == getattr(other, "qparams", None)
    return np.array_equal(one.buffer, other.buffer)


def test_a_plan_computes_the_bytes_of_dispatch_in_every_node(small_classifier, crops):
    feeds = {"x": md.asarray(crops[1][0].pixels)}
    eager = eager_values(small_classifier.graph, feeds)
    planned = small_classifier.plan().values(feeds)
    assert len(planned) > 100
    different = [name for name, x in planned.items() if not same(x, eager[name])]
    assert different == []


def test_the_call_gives_what_the_graph_gives(small_classifier, crops):
    for crop in crops[1][:4]:
        expected = small_classifier.graph.run({"x": crop.pixels})
        got = small_classifier(crop.pixels)
        # The softmax behind the codes runs on NumPy in the graph (decision 0053).
        wanted = np.asarray(*expected.values())
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6)


def test_a_chain_of_tables_is_one_step_and_the_plan_says_whose():
    nodes = (
        Node("a", quantize, ("x",), "a", {"qparams": GRID}),
        Node("b", md.sigmoid, ("a",), "b", {"out": WIDE}),
        Node("c", md.hardswish, ("b",), "c", {"out": GRID}),
        Node("d", md.tanh, ("c",), "d", {"out": WIDE}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (1, 600))
    plan = Plan(Graph({"x": spec}, nodes, {}, ("d",)))
    assert [n.within for n in plan.nodes] == ["", "d", "d", ""]
    assert [n.kernel for n in plan.nodes[1:]] == ["lookup_u8"] * 3
    lines = str(plan).splitlines()
    assert [line.split()[2:4] for line in lines[2:4]] == [["in", "d"]] * 2
    x = np.linspace(-9, 9, 600, dtype="f4")[None]
    eager = eager_values(plan._graph, {"x": x})
    assert all(same(y, eager[name]) for name, y in plan.values(x).items())
    assert same(plan(x)["d"], eager["d"])
    seconds = plan.profile(x, repeat=1)
    assert seconds["b"] == seconds["c"] == 0 < seconds["d"]


@pytest.mark.parametrize("shape", [(2, 4, 3, 4), (2, 1, 3, 4), (1, 4, 1, 1)])
def test_a_product_takes_the_last_of_four_axes(shape):
    rng = np.random.default_rng(0)
    names = {"w": (5, shape[-1]), "b": (5,)}
    known = {n: md.asarray(rng.standard_normal(s, "f4")) for n, s in names.items()}
    node, spec = Node("L", md.linear, ("x", "w", "b"), "y"), md.Float32Tensor
    graph = Graph({"x": md.TensorSpec(spec, shape)}, (node,), known, ("y",))
    x = rng.standard_normal(shape, "f4")
    model = Model(graph)
    small = model.quantize(model.calibrate([x]))
    assert same(small(x), small.graph.run({"x": x})["y"])
    np.testing.assert_allclose(np.asarray(small(x)), np.asarray(model(x)), atol=0.15)
    kernels = {n.node: (n.kernel, n.why) for n in small.plan().nodes}
    assert kernels["L"] == ("gemm_u8s8u8", "")
    stored = model.quantize_weights()
    assert {n.node: n.kernel for n in stored.plan().nodes}["L"] == "gemm_f32s8f32"


def test_a_softmax_of_codes_is_no_float(rng):
    grid = QParams(1 / 256, -128)
    nodes = (QUANTIZE, Node("s", md.softmax, ("a",), "y", {"axis": 1, "out": grid}))
    found = Plan(graph_of(*nodes)).nodes[-1]
    assert (found.arithmetic, found.why) == (
        "integer",
        "a compiled softmax runs along the last axis",
    )


@pytest.mark.parametrize("columns", [80, 120, None])
def test_a_plan_prints_itself_within_a_terminal(small_classifier, monkeypatch, columns):
    """Of a float network, whose types and reasons are long, and of an integer one."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    shape = {"x": (1, 3, 8, 8)}
    long = Node("layer/" * 9, md.conv2d, ("x", "w"), "y", {"padding": 1})
    spec = md.TensorSpec(md.Float32Tensor, shape["x"])
    weights = {"w": md.ones((4, 3, 3, 3))}
    float_plan = Plan(Graph({"x": spec}, (long,), weights, ("y",)))
    for plan in (float_plan, small_classifier.plan()):
        lines = str(plan).splitlines()
        assert max(map(len, lines)) <= (columns or 160)
        heads = lines[0].split()
        assert heads[:4] == ["node", "operation", "kernel", "ISA"]
        # Late columns go first.
        assert columns == 120 or ("pieces" in heads) == (columns is None)
        assert len(lines) > len(plan.nodes)
        reasons = " ".join(" ".join(lines[1 + len(plan.nodes) :]).split())
        if plan is float_plan:
            assert reasons == NOT_QUANTIZED
        else:
            assert all(node.why in reasons for node in plan.nodes)


def test_the_former_name_of_the_isa_stays(small_classifier):
    plan = small_classifier.plan()
    for node, data in zip(plan.nodes, plan.as_dicts(), strict=True):
        assert node.isa == node.runway == data["isa"] == data["runway"]


def test_one_node_is_float_and_says_why(small_classifier):
    plan = small_classifier.plan()
    assert [(n.operation, n.why) for n in plan.float_nodes] == [
        ("softmax", "probabilities stay float")
    ]
    convolutions = [n for n in plan.nodes if n.operation == "conv2d"]
    assert len(convolutions) == 53
    assert {n.isa for n in convolutions} == {isa.ISA}
    assert all(n.macs > 0 for n in convolutions)
    assert "depthwise_u8s8u8" in str(plan) and "softmax" in str(plan)


def test_methods_are_selected_when_planning_not_when_calling(
    small_classifier, crops, monkeypatch
):
    x = crops[1][0].pixels
    expected = np.asarray(small_classifier(x))

    def refuse(*types):
        raise AssertionError("resolved again")

    for operation in md.operations().values():
        monkeypatch.setattr(operation.operation, "_resolve", refuse)
    assert np.array_equal(np.asarray(small_classifier(x)), expected)


def test_eight_threads_get_the_same_bytes(small_classifier, crops):
    x = crops[1][1].pixels
    expected = np.asarray(small_classifier(x))
    found = [None] * 8

    def call(i):
        found[i] = np.asarray(small_classifier(x))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(y, expected) for y in found)


SCRIPT = """
import hashlib, pickle, sys
import mdtensor as md, mdtensor.quant
from mdtensor.graph.plan import Plan
graph, pixels = pickle.load(sys.stdin.buffer)
values = Plan(graph).values({"x": md.asarray(pixels)})
digest = hashlib.sha256()
for name in sorted(values):
    if hasattr(values[name], "qparams"):
        digest.update(values[name].buffer.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.long
def test_every_runway_gives_the_same_bytes_through_the_network(small_classifier, crops):
    import pickle

    payload = pickle.dumps((small_classifier.graph, crops[1][0].pixels))
    digests = {}
    for runway in ("generic", isa.ISA):
        environment = {**os.environ, "MDTENSOR_ISA": runway}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=payload,
            capture_output=True,
            env=environment,
            check=True,
        )
        digests[runway] = done.stdout.decode().strip()
    assert len(set(digests.values())) == 1
    assert all(len(d) == hashlib.sha256().digest_size * 2 for d in digests.values())


def graph_of(*nodes, shape=(1, 8, 4, 6), **constants):
    spec = md.TensorSpec(md.Float32Tensor, shape)
    return Graph({"x": spec}, nodes, constants, (nodes[-1].output,))


QUANTIZE = Node("q", quantize, ("x",), "a", {"qparams": GRID})


@pytest.mark.parametrize(
    "tail",
    [
        [Node("n", md.roll, ("a",), "b", {"shift": 1})],
        [Node("n", md.concat, ("a", "k"), "b", {"axis": 1})],
        [Node("n", md.take, ("a", "i"), "b", {"axis": 1})],
        [
            Node("n", md.relu, ("a",), "d", {"out": WIDE}),
            Node("m", md.roll, ("d",), "e", {"shift": 1}),
            Node("o", md.max_pool2d, ("e",), "b", {"kernel_size": 2}),
        ],
    ],
    ids=lambda nodes: nodes[-1].operation.__name__,
)
def test_what_is_no_compiled_step_runs_between_them(tail, rng):
    codes = rng.integers(0, 256, (1, 8, 1, 1), dtype=np.uint8)
    known = {"c": QUInt8Tensor(codes, GRID), "i": md.asarray([[0, 7]])}
    known["k"] = QUInt8Tensor(np.repeat(np.repeat(codes, 4, 2), 6, 3), GRID)
    graph = graph_of(QUANTIZE, *tail, **known).pruned()
    feeds = {"x": md.asarray(rng.standard_normal((1, 8, 4, 6), np.float32))}
    plan = Plan(graph)
    assert same(plan(feeds)["b"], graph.run(feeds)["b"])
    assert any(node.why for node in plan.nodes)


@pytest.mark.parametrize(
    "node",
    [
        Node("n", md.permute_dims, ("a",), "b", {"axes": (0, 2, 3, 1)}),
        Node("n", md.permute_dims, ("a",), "b", {"axes": (3, 1, 0, 2)}),
        Node("n", md.matrix_transpose, ("a",), "b"),
        Node("n", md.moveaxis, ("a", 1, -1), "b"),
        Node("n", md.reshape, ("a",), "b", {"shape": (1, 8, 24)}),
        Node("n", md.reshape, ("a",), "b", {"shape": (1, 2, 4, -1, 6)}),
        Node("n", md.expand_dims, ("a",), "b", {"axis": 2}),
        Node("n", md.squeeze, ("a",), "b", {"axis": 0}),
        Node("n", md.flip, ("a",), "b", {"axis": (1, 3)}),
        Node("n", md.broadcast_to, ("a",), "b", {"shape": (3, 8, 4, 6)}),
        Node("n", md.getitem, ("a",), "b", {"key": (0, slice(7, 1, -2), ..., None)}),
        Node("n", md.take, ("a", "i"), "b", {"axis": 1}),
        Node("n", md.take, ("a", "i"), "b", {"axis": -1}),
        Node("n", md.pixel_shuffle, ("a",), "b", {"upscale_factor": 2}),
        Node("n", md.pixel_unshuffle, ("a",), "b", {"downscale_factor": 2}),
        Node("n", md.concat, ("a", "a", "a"), "b", {"axis": 1}),
        Node("n", md.concat, ("a", "a"), "b", {"axis": 3}),
        Node("n", md.concat, ("a", "a"), "b", {"axis": 0}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [quint8, qint8])
def test_codes_are_moved_in_compiled_steps(node, dtype, rng):
    grid = QParams(0.05, 10, dtype=dtype)
    first = Node("q", quantize, ("x",), "a", {"qparams": grid})
    last = Node("d", dequantize, ("b",), "r")
    i = md.asarray([5, 0, -1, 5])
    graph = graph_of(first, node, last, i=i).pruned()
    feeds = {"x": md.asarray(rng.standard_normal((1, 8, 4, 6), np.float32))}
    plan, wanted = Plan(graph), eager_values(graph, feeds)
    assert [n.why for n in plan.nodes[:2]] == ["", ""]
    # A reshape of rows moves nothing.
    is_view = node.operation in (md.reshape, md.expand_dims, md.squeeze)
    assert plan.nodes[1].arithmetic == ("view" if is_view else "integer")
    assert all(same(y, wanted[name]) for name, y in plan.values(feeds).items())


def test_an_index_outside_is_our_error_when_it_is_called(rng):
    node = Node("n", md.take, ("a", "i"), "b", {"axis": 1})
    plan = Plan(graph_of(QUANTIZE, node, i=md.asarray([0, 8])))
    assert plan.nodes[1].why == "a compiled take has indices inside the axis"
    with pytest.raises(md.BoundsError, match="8"):
        plan(rng.standard_normal((1, 8, 4, 6), np.float32))


def test_signed_activations_run_on_the_same_kernels(small_classifier, rng):
    signed = QParams(0.05, -28)
    nodes = (
        replace(QUANTIZE, options={"qparams": signed}),
        Node("n", md.hardswish, ("a",), "b", {"out": QParams(0.04, -100)}),
        Node("m", md.global_avg_pool2d, ("b",), "c", {"out": QParams(0.01, 3)}),
    )
    graph = graph_of(*nodes)
    feeds = {"x": md.asarray(rng.standard_normal((1, 8, 4, 6), np.float32))}
    plan = Plan(graph)
    assert [n.why for n in plan.nodes] == ["", "", ""]
    assert same(plan(feeds)["c"], graph.run(feeds)["c"])


@pytest.mark.parametrize("rounding", ["exact", "onnx", None])
def test_a_profile_times_every_node(classifier, small_classifier, crops, rounding):
    model = small_classifier.rounded(rounding) if rounding else classifier
    plan = model.plan()
    seconds = plan.profile(crops[1][0].pixels, repeat=1)
    assert list(seconds) == [n.node for n in plan.nodes]
    floats = [n.node for n in plan.float_nodes]
    within = {n.node for n in plan.nodes if n.within}
    assert floats and all(seconds[name] > 0 for name in {*floats} - within)
    views = within | {n.node for n in plan.nodes if n.arithmetic == "view"}
    assert {name for name, time in seconds.items() if time == 0} <= views


def wrong_feeds(good):
    """What each of them is told."""
    known = "the model takes 1 input, 'x', and got"
    by_name = "Pass one array for 'x'."
    return {
        "input 'x' must be Float32Tensor[1,8,4,6], but is Float32Tensor[1,8,4,5]. "
        "Give an array of that shape.": {"x": good[..., :5]},
        "input 'x' must be Float32Tensor[1,8,4,6], but is Float32Tensor[6]. "
        "Give an array of that shape.": good[0, 0, 0],
        "input 'x' must be Float32Tensor[1,8,4,6], but is NoneType. "
        "Give an array of float32.": None,
        f"{known} 'zz'. {by_name}": {"zz": good},
        f"{known} none. {by_name}": {},
    }


@pytest.mark.parametrize("call", ["__call__", "values", "profile"])
def test_a_plan_checks_what_it_is_given(call, rng):
    good = rng.standard_normal((1, 8, 4, 6), np.float32)
    plan = Plan(graph_of(QUANTIZE))
    for text, feeds in wrong_feeds(good).items():
        with pytest.raises(md.DataError) as raised:
            getattr(plan, call)(feeds)
        assert str(raised.value) == text
    one, other = getattr(plan, call)(good), getattr(plan, call)({"x": good})
    assert one.keys() == other.keys() and len(one) == 1


@pytest.mark.parametrize("repeat", [0, True, 2.0])
def test_a_profile_runs_at_least_once(repeat):
    plan = Plan(graph_of(QUANTIZE))
    with pytest.raises(md.OptionError) as raised:
        plan.profile(np.zeros((1, 8, 4, 6), np.float32), repeat=repeat)
    assert (
        str(raised.value)
        == f"profile: repeat is {repeat}. Use an integer of 1 or more."
    )


def test_a_saved_model_says_why_as_it_did(classifier, crops, tmp_path):
    kept = [n.name for n in classifier.graph.nodes if n.operation is md.conv2d][:1]
    seen = classifier.calibrate([crops[0][0].pixels])
    small = classifier.quantize(seen, keep_float=kept)
    small.save(tmp_path / "small.onnx")
    plans = [m.plan() for m in (small, load(tmp_path / "small.onnx"))]
    why = [{n.node: n.why for n in plan.float_nodes} for plan in plans]
    assert why[0] == why[1]
    assert why[1][kept[0]] == "kept float"
    assert "probabilities stay float" in why[1].values()


@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 2)])
def test_a_factor_per_channel_is_for_images_only(shape, rng):
    spec = {n: md.TensorSpec(md.Float32Tensor, s) for n, s in _factor_shapes(shape)}
    nodes = (
        QUANTIZE,
        Node("p", quantize, ("y",), "c", {"qparams": GRID}),
        Node("n", md.mul, ("a", "c"), "b", {"out": WIDE}),
    )
    graph = Graph(spec, nodes, {}, ("b",))
    feeds = {
        name: md.asarray(rng.standard_normal(s, np.float32))
        for name, s in _factor_shapes(shape)
    }
    assert same(Plan(graph)(feeds)["b"], graph.run(feeds)["b"])


def _factor_shapes(shape):
    return [("x", shape), ("y", (2, 2, 1, 1))]


def test_weights_that_are_computed_run_by_integers(rng):
    weights = Node("w", quantize, ("y",), "w", {"qparams": QParams(0.1)})
    nodes = (
        QUANTIZE,
        weights,
        Node("n", md.conv2d, ("a", "w", None), "b", {"out": WIDE}),
    )
    shapes = {"x": (1, 8, 4, 6), "y": (3, 8, 1, 1)}
    spec = {n: md.TensorSpec(md.Float32Tensor, s) for n, s in shapes.items()}
    graph = Graph(spec, nodes, {}, ("b",))
    feeds = {
        name: md.asarray(rng.standard_normal(s, np.float32))
        for name, s in shapes.items()
    }
    plan = Plan(graph)
    assert same(plan(feeds)["b"], graph.run(feeds)["b"])
    assert plan.nodes[-1].why == "kernels need constant weights and biases"


def test_nan_is_refused_as_quantize_refuses_it(small_classifier, crops):
    pixels = crops[1][0].pixels.copy()
    pixels[0, 1, 2, 3] = np.nan
    with pytest.raises(md.CastError) as raised:
        small_classifier(pixels)
    assert str(raised.value) == (
        "quantize: cannot quantize NaN, in node 'x.q'. Replace NaNs first."
    )
    pixels[0, 1, 2, 3] = np.inf
    assert np.isfinite(np.asarray(small_classifier(pixels))).all()


def test_results_share_no_bytes_with_inputs_or_constants():
    constant = md.asarray([1.0, 2.0])
    spec = {"x": md.TensorSpec(md.Float32Tensor, (2, 3))}
    node = Node("n", md.reshape, ("x",), "y", {"shape": (6,)})
    plan = Plan(Graph(spec, (node,), {"k": constant}, ("y", "k", "x")))
    x = md.zeros((2, 3))
    for result in plan({"x": x}).values():
        result.buffer[...] = 9
    assert constant.tolist() == [1.0, 2.0]
    assert x.tolist() == [[0.0] * 3] * 2


def test_a_view_may_open_a_compiled_part(rng):
    nodes = (
        Node("p", md.permute_dims, ("a",), "d", {"axes": (0, 2, 3, 1)}),
        Node("r", md.reshape, ("d",), "e", {"shape": (4, 48)}),
        Node("s", md.squeeze, ("f",), "g", {"axis": (2, 3)}),
        Node("t", md.relu, ("g",), "h", {"out": WIDE}),
    )
    pool = Node("u", md.global_avg_pool2d, ("a",), "f", {"out": GRID})
    graph = graph_of(QUANTIZE, pool, *nodes)
    feeds = {"x": md.asarray(rng.standard_normal((1, 8, 4, 6), np.float32))}
    eager = eager_values(graph, feeds)
    planned = Plan(graph).values(feeds)
    assert all(same(planned[name], eager[name]) for name in planned)


def test_codes_beside_floats_are_packed_once(rng, monkeypatch):
    grid = QParams(np.full(4, 0.1), axis=0)
    w = quantize(md.asarray(rng.standard_normal((4, 9))), qparams=grid)
    nodes = [
        Node("first", md.linear, ("x", "w", "b"), "y"),
        Node("second", md.relu, ("y",), "z"),
    ]
    constants = {"w": w, "b": md.asarray(rng.standard_normal(4), dtype=md.float32)}
    inputs = {"x": md.Float32Tensor.spec((3, 9))}
    graph = Graph(inputs, tuple(nodes), constants, ("z",))
    plan = Plan(graph)
    planned = plan.nodes[0]
    assert (planned.kernel, planned.arithmetic) == ("gemm_f32s8f32", "float")
    assert (planned.macs, planned.why) == (3 * 9 * 4, "its activations are floats")
    feeds = {"x": md.asarray(rng.standard_normal((3, 9)), dtype=md.float32)}
    want = eager_values(graph, feeds)
    monkeypatch.setattr(type(w), "codes", None)  # the codes are not looked at again
    assert same(plan(feeds)["z"], want["z"])
    assert same(plan.values(feeds)["y"], want["y"])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
@pytest.mark.parametrize("operation", [md.add, md.mul])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_constant_number_makes_a_table(operation, shape, is_first, rng):
    """Of one lookup a code, whatever the grid of the number."""
    number = QUInt8Tensor.from_codes(np.full(shape, 37, np.uint8), WIDE)
    names = ("c", "x") if is_first else ("x", "c")
    node = Node("n", operation, names, "y", {"out": WIDE})
    codes = np.arange(256, dtype=np.uint8).reshape(2, 8, 4, 4)
    x = QUInt8Tensor.from_codes(codes, GRID)
    graph = Graph({"x": spec_of(x)}, (node,), {"c": number}, ("y",))
    plan = Plan(graph)
    assert plan.nodes[0].kernel == "lookup_u8"
    assert same(plan({"x": x})["y"], graph.run({"x": x})["y"])


def test_a_number_of_more_axes_is_no_table():
    """It would give the result more axes."""
    number = QUInt8Tensor.from_codes(np.full((1, 1, 1), 37, np.uint8), WIDE)
    x = QUInt8Tensor.from_codes(np.arange(6, dtype=np.uint8).reshape(2, 3), GRID)
    node = Node("n", md.add, ("x", "c"), "y", {"out": WIDE})
    graph = Graph({"x": spec_of(x)}, (node,), {"c": number}, ("y",))
    plan = Plan(graph)
    assert (
        plan.nodes[0].why == "a compiled sum takes equal shapes, or a constant number"
    )
    assert same(plan({"x": x})["y"], graph.run({"x": x})["y"])


@pytest.mark.parametrize("bias", [0.0, 1e-30])
def test_channels_without_weights_run_compiled(bias, rng):
    """As training leaves some; a scale of theirs alone would be past all kernels."""
    w = rng.normal(size=(4, 3, 1, 1)).astype(np.float32)
    w[1], w[2] = 1e-30, 0
    constants = {"w": md.asarray(w), "b": md.asarray(np.full(4, bias, np.float32))}
    options = {"stride": (1, 1), "padding": (0, 0, 0, 0)}
    node = Node("n", md.conv2d, ("x", "w", "b"), "y", options)
    x = md.asarray(rng.normal(size=(1, 3, 4, 5)).astype(np.float32))
    model = Model(Graph({"x": spec_of(x)}, (node,), constants, ("y",)))
    small = model.quantize(model.calibrate([x]))
    kernels = {n.kernel for n in small.plan().nodes if n.operation == "conv2d"}
    assert kernels == {"gemm_u8s8u8"}
    largest = float(np.abs(np.asarray(model(x))).max())
    np.testing.assert_allclose(
        np.asarray(small(x)), np.asarray(model(x)), atol=largest / 50
    )


def test_a_table_of_embeddings_is_codes_and_no_float(make_model, rng):
    """Ids pick rows of codes; neither ids nor codes are floats."""
    node = helper.make_node
    nodes = [node("Gather", ["table", "ids"], ["e"]), node("MatMul", ["e", "w"], ["y"])]
    constants = {
        "table": rng.standard_normal((50, 16), np.float32),
        "w": rng.standard_normal((16, 8), np.float32),
    }
    given = {"ids": (TensorProto.INT64, (2, 6))}
    model = load(make_model(nodes, given, constants))
    ids = rng.integers(-50, 50, (2, 6))
    small = model.quantize(model.calibrate([ids]))
    tables = [x for x in small.graph.constants.values() if x.shape == (50, 16)]
    assert [type(x) for x in tables] == [QUInt8Tensor]
    kinds = {n.operation: n.arithmetic for n in small.plan().nodes}
    assert kinds["take"] == "integer" and "float" not in kinds.values()
    wanted, found = np.asarray(model(ids)), np.asarray(small(ids))
    assert ((wanted - found) ** 2).sum() < 1e-3 * (wanted**2).sum()
    # Negative ids count from the end, once.
    assert small(ids % 50).tolist() == found.tolist()
    for outside in (50, -51):
        with pytest.raises(md.BoundsError, match="Indices go from -50 to 49"):
            small(np.where(ids == ids[0, 0], outside, ids))
    profile = str(small.profile(ids))
    assert "is float" not in profile and "is not compiled: " in profile
