"""What gets a grid, which grid, and what stays float and why."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DataError, OptionError
from mdtensor.graph import Graph, Node
from mdtensor.quant import MinMaxObserver, QInt8Tensor, QInt32Tensor, QUInt8Tensor
from mdtensor.quant.model import Model
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.calibrate import calibrate
from mdtensor.quant.model.quantize.float_nodes import is_quantized
from mdtensor.quant.model.quantize.quantize import quantize_graph
from mdtensor.quant.model.quantize.weights import weight_bytes

RNG = np.random.default_rng(9)
ONLY = "only float32, float16 and bfloat16 are quantized, and this is "
IMAGE = md.TensorSpec(md.Float32Tensor, (1, 3, 6, 6))


def weights(*shape: int) -> Any:
    return md.asarray(RNG.standard_normal(shape, np.float32))


def node(operation: Any, inputs: str, output: str, **options: Any) -> Node:
    names = tuple(None if name == "-" else name for name in inputs.split())
    return Node(output, operation, names, output, options)


def graph(*nodes: Node, spec: Any = IMAGE, outputs: Any = None, **constants: Any):
    return Graph({"x": spec}, nodes, constants, outputs or (nodes[-1].output,))


def samples(spec: Any = IMAGE) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(spec.shape, np.float32) * 3 for _ in range(4)]


def quantized(made: Graph, **options: Any) -> Graph:
    seen = calibrate(made, samples(next(iter(made.inputs.values()))), MinMaxObserver)
    return quantize_graph(made, seen, **options)


def names(made: Graph) -> list[str]:
    return [n.operation.__name__ for n in made.nodes]


CONV = node(md.conv2d, "x w b", "c", padding=1)
W, B = weights(4, 3, 3, 3), weights(4)


def test_a_layer_is_one_quantized_call() -> None:
    found = quantized(graph(CONV, w=W, b=B))
    assert names(found) == ["quantize", "conv2d", "dequantize"]
    assert found.outputs == ("c",)
    layer = found.nodes[1]
    w, b = (found.constants[name] for name in layer.inputs[1:])
    assert type(w) is QInt8Tensor
    assert w.qparams.axis == 0
    assert np.abs(np.asarray(w.codes)).max() == 127
    assert type(b) is QInt32Tensor
    step = float(found.nodes[0].options["qparams"].scale)
    assert (b.qparams.scale == step * w.qparams.scale).all()
    specs = found.specs()
    assert specs[layer.output].type is QUInt8Tensor
    assert specs["c"].type is md.Float32Tensor


def test_results_are_near() -> None:
    made = graph(CONV, node(md.hardswish, "c", "h"), w=W, b=B)
    found = quantized(made)
    for x in samples():
        wanted = np.asarray(made.run({"x": x})["h"])
        error = np.asarray(found.run({"x": x})["h"]) - wanted
        assert np.abs(error).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize("cut", [md.relu, md.relu6])
def test_a_relu_is_the_end_of_the_grid(cut: Any) -> None:
    made = graph(CONV, node(cut, "c", "r"), w=W, b=B)
    found = quantized(made)
    assert names(found) == ["quantize", "conv2d", "dequantize"]
    grid = found.nodes[1].options["out"]
    assert grid.zero == 0
    assert cut is md.relu or grid.range[1] == pytest.approx(6)


def test_a_relu_that_others_read_past_stays() -> None:
    made = graph(CONV, node(md.relu, "c", "r"), node(md.add, "c r", "y"), w=W, b=B)
    assert names(quantized(made)).count("relu") == 1


def test_an_output_before_a_relu_stays() -> None:
    made = graph(CONV, node(md.relu, "c", "r"), outputs=("c", "r"), w=W, b=B)
    found = quantized(made)
    assert found.outputs == ("c", "r")
    results = found.run({"x": samples()[0]})
    before, after = (np.asarray(results[name]) for name in "cr")
    assert before.min() < 0
    np.testing.assert_allclose(np.maximum(before, 0), after, atol=0.2)


def test_a_grid_before_hardswish_ends_at_minus_3() -> None:
    made = graph(CONV, node(md.hardswish, "c", "h"), w=W, b=B)
    grid = quantized(made).nodes[1].options["out"]
    assert grid.range[0] == pytest.approx(-3, abs=float(grid.scale))


def test_a_grid_before_hardsigmoid_is_its_ramp() -> None:
    gate = node(md.hardsigmoid, "c", "h", alpha=0.2, beta=0.5)
    found = quantized(graph(CONV, gate, w=W, b=B))
    before, after = (found.nodes[at].options["out"] for at in (1, 2))
    assert before.range == pytest.approx((-2.5, 2.5 + 5 / 254), abs=1e-4)
    assert after.zero == 0
    # Half is a code, so no step of the ramp is a tie.
    assert 0.5 / float(after.scale) == pytest.approx(127)


def test_moving_operations_keep_the_grid() -> None:
    made = graph(
        CONV,
        node(md.max_pool2d, "c", "p", kernel_size=2),
        node(md.reshape, "p", "r", shape=(1, 4, 9)),
        node(md.permute_dims, "r", "t", axes=(0, 2, 1)),
        w=W,
        b=B,
    )
    found = quantized(made)
    specs = found.specs()
    grids = {specs[n.output].qparams for n in found.nodes[1:-1]}
    assert len(grids) == 1
    assert found.notes == {}


def test_concat_joins_grids() -> None:
    made = graph(
        CONV,
        node(md.conv2d, "x v -", "d", padding=1),
        node(md.concat, "c d", "y", axis=1),
        w=W,
        b=B,
        v=md.asarray(np.asarray(W) * 4),
    )
    found = quantized(made)
    specs = found.specs()
    first, second, joint = (specs[f"{name}.q"].qparams for name in "cdy")
    assert first == second == joint
    assert found.notes == {}


def test_what_has_no_method_stays_float_and_says_why() -> None:
    made = graph(
        node(md.linear, "x w b", "l"),
        node(md.softmax, "l", "s", axis=1),
        spec=md.TensorSpec(md.Float32Tensor, (2, 5)),
        w=weights(3, 5),
        b=weights(3),
    )
    found = quantized(made)
    assert names(found) == ["quantize", "linear", "dequantize", "softmax"]
    assert found.notes == {"s": "probabilities stay float"}


def test_no_grid_for_what_only_moves_floats() -> None:
    made = graph(node(md.reshape, "x", "r", shape=(1, -1)), node(md.softmax, "r", "s"))
    found = quantized(made)
    assert names(found) == ["reshape", "softmax"]
    assert found.notes["r"] == "reshape keeps its grid, and there is none before it"


def test_keep_float() -> None:
    made = graph(CONV, node(md.conv2d, "c v -", "d"), w=W, b=B, v=weights(2, 4, 1, 1))
    found = quantized(made, keep_float=["c"])
    assert names(found) == ["conv2d", "quantize", "conv2d", "dequantize"]
    assert found.notes == {"c": "kept float"}
    with pytest.raises(OptionError) as caught:
        quantized(made, keep_float=["c", "z"])
    assert str(caught.value) == (
        "keep_float: no node is called 'z'. "
        "The names are in model.graph.nodes, such as 'c' and 'd'."
    )


def test_weights_that_are_computed_stay_float() -> None:
    made = graph(
        node(md.linear, "x x -", "y"), spec=md.TensorSpec(md.Float32Tensor, (2, 5))
    )
    assert quantized(made).notes == {"y": "its weights are not constant"}


def test_constants_of_other_operations_get_grids() -> None:
    made = graph(CONV, node(md.mul, "c k", "y"), w=W, b=B, k=weights(1, 4, 1, 1))
    found = quantized(made)
    assert names(found) == ["quantize", "conv2d", "mul", "dequantize"]
    assert type(found.constants["y.1"]) is QUInt8Tensor


def test_layers_on_vectors_have_one_scale() -> None:
    made = graph(
        node(md.global_avg_pool2d, "x", "g"),
        node(md.conv2d, "g w -", "c"),
        w=weights(4, 3, 1, 1),
    )
    found = quantized(made)
    assert found.constants["c.w"].qparams.axis is None


def test_quantizing_twice_is_refused() -> None:
    made = graph(CONV, w=W, b=B)
    seen = calibrate(made, samples(), MinMaxObserver)
    with pytest.raises(OptionError, match="quantized already"):
        quantize_graph(quantize_graph(made, seen), seen)


def test_a_calibration_of_another_graph_is_refused() -> None:
    other = graph(node(md.relu, "x", "r"))
    seen = calibrate(other, samples(), MinMaxObserver)
    with pytest.raises(DataError, match="does not know the value 'c'"):
        quantize_graph(graph(CONV, w=W, b=B), seen)


def check_near(made: Graph, found: Graph, share: float = 0.02) -> None:
    """Results differ by at most this share of their range."""
    for x in samples(next(iter(made.inputs.values()))):
        (wanted,), (result,) = (g.run({"x": x}).values() for g in (made, found))
        wanted, error = np.asarray(wanted), np.asarray(result) - np.asarray(wanted)
        assert type(result) is md.Float32Tensor
        assert np.abs(error).max() <= share * max(np.ptp(wanted), np.abs(wanted).max())


@given(value=st.sampled_from([-40.0, -0.01, 0.0, 0.01, 3.0, 200.0]))
def test_a_grid_joined_with_a_constant_covers_both(value: float) -> None:
    k = md.asarray(np.full((1, 1, 6, 6), value, np.float32))
    made = graph(CONV, node(md.concat, "c k", "y", axis=1), w=W, b=B, k=k)
    found = quantized(made)
    assert found.notes == {}
    assert names(found) == ["quantize", "conv2d", "concat", "dequantize"]
    check_near(made, found)


def test_neg_mirrors_its_grid_and_stays_float() -> None:
    made = graph(CONV, node(md.neg, "c", "n"), node(md.concat, "c n", "y"), w=W, b=B)
    found = quantized(made)
    assert found.notes["n"] == "neg does not keep its grid"
    check_near(made, found)


@pytest.mark.parametrize("value", [1.0, -1.0, 0.1])
def test_a_pad_with_what_may_be_no_code_stays_float(value: float) -> None:
    widths = [(0, 0), (0, 0), (1, 1), (1, 1)]
    pad = node(md.pad, "c", "p", pad_width=widths, value=value)
    made = graph(CONV, pad, w=W, b=B)
    found = quantized(made)
    assert found.notes == {"p": "pad does not keep its grid"}
    found.run({"x": samples()[0]})
    zero = replace(pad, options={"pad_width": widths, "value": 0.0})
    assert quantized(graph(CONV, zero, w=W, b=B)).notes == {}


@given(exponents=st.lists(st.floats(-4, 4), min_size=4, max_size=4), seed=st.booleans())
def test_a_quotient_by_a_constant_is_a_product(exponents: Any, seed: bool) -> None:
    k = (np.float32(10) ** np.array(exponents, np.float32)) * (-1 if seed else 1)
    made = graph(
        CONV,
        node(md.relu, "c", "r"),
        node(md.div, "r k", "y"),
        w=W,
        b=B,
        k=md.asarray(k.reshape(1, 4, 1, 1).astype(np.float32)),
    )
    found = quantized(made)
    assert "div" not in names(found)
    assert found.notes == {}
    check_near(made, found)


def test_other_quotients_stay_float() -> None:
    by_value = graph(
        CONV, node(md.div, "c x", "y"), w=weights(3, 3, 3, 3), b=weights(3)
    )
    for made in (
        by_value,
        graph(CONV, node(md.div, "c k", "y"), w=W, b=B, k=md.asarray(np.float32(2e38))),
    ):
        found = quantized(made)
        assert found.notes == {"y": "its divisor could become the code of 0"}
        found.run({"x": samples()[0]})
    halves = graph(
        CONV, node(md.div, "c k", "y"), w=W, b=B, k=md.asarray(np.float32(2))
    )
    assert names(quantized(halves)).count("mul") == 1
    assert names(quantized(halves, keep_float=["y"])).count("div") == 1


@pytest.mark.parametrize("beta", [0.5, -1.0, 0.9])
@pytest.mark.parametrize("alpha", [-5.0, -0.2, 0.0, 0.01, 0.2])
def test_any_ramp_of_hardsigmoid(alpha: float, beta: float) -> None:
    made = graph(node(md.hardsigmoid, "x", "h", alpha=alpha, beta=beta))
    found = quantized(made)
    assert names(found) == ["quantize", "hardsigmoid", "dequantize"]
    for x in samples():
        wanted, result = (np.asarray(g.run({"x": x})["h"]) for g in (made, found))
        assert np.abs(result - wanted).max() < 0.01


def test_an_integer_branch_stays_as_it_is() -> None:
    nodes = CONV, node(md.add, "i i", "z"), node(md.argmax, "c", "a", axis=1)
    inputs = {"x": IMAGE, "i": md.TensorSpec(md.Int32Tensor, (3,))}
    made = Graph(inputs, nodes, {"w": W, "b": B}, ("c", "z", "a"))
    feeds = {"x": samples()[0], "i": np.arange(3, dtype=np.int32)}
    found = quantize_graph(made, calibrate(made, [feeds]))
    assert found.notes == {
        "z": f"{ONLY}int32",
        "a": f"{ONLY}int64",
    }
    results = found.run(feeds)
    assert results["z"].tolist() == [0, 2, 4]
    assert type(results["a"]) is md.Int64Tensor
    assert names(found).count("conv2d") == 1
    assert is_quantized(found)


#: Names in the form of those that quantization makes from others.
TAKEN = ("c.q", "c.dq", "c.w", "c.b", "c.w.dq", "c.real", "r.q", "r.dq", "x.q", "x.dq")


@given(taken=st.permutations(TAKEN), inside=st.booleans())
def test_new_names_are_none_of_the_graph(taken: list[str], inside: bool) -> None:
    """Quantized as a graph with other names is, and named as before outside."""
    plain = ["v", "u", "k", "t", "i"]

    def made(value: str, more: str, weight: str, bias: str, entry: str) -> Graph:
        nodes = (
            Node("c", md.conv2d, (entry, weight, bias), value, {"padding": 1}),
            Node("r", md.hardswish, (value,), "c" if inside else "r"),
            Node("s", md.add, ("c" if inside else "r", value), more),
        )
        constants = {weight: W, bias: B}
        return Graph({entry: IMAGE}, nodes, constants, (more, value))

    named, other = made(*taken[:5]), made(*plain)
    found, wanted = (quantized(g) for g in (named, other))
    assert found.outputs == named.outputs
    assert list(found.inputs) == list(named.inputs)
    assert names(found) == names(wanted)
    x = samples()[0]
    pairs = zip(
        found.run({taken[4]: x}).values(), wanted.run({"i": x}).values(), strict=True
    )
    assert all(a.tolist() == b.tolist() for a, b in pairs)


def test_float64_stays_as_it_is() -> None:
    dtype = np.float64
    spec = md.TensorSpec(md.leaf(md.dtype(dtype)), IMAGE.shape)
    constants = {"w": np.asarray(W).astype(dtype), "b": np.asarray(B).astype(dtype)}
    constants = {name: md.asarray(array) for name, array in constants.items()}
    made = graph(CONV, spec=spec, **constants)
    x = samples()[0].astype(dtype)
    found = quantize_graph(made, calibrate(made, [x]))
    assert found.notes == {"c": f"{ONLY}{spec.dtype}"}
    assert found.run({"x": x})["c"].dtype is spec.dtype
    assert not is_quantized(found)


def test_the_classifier(float_graph: Graph, small_graph: Graph) -> None:
    found = small_graph
    assert found.notes == {"Softmax@0": "probabilities stay float"}
    assert "relu" not in names(found)
    assert names(found).count("quantize") == names(found).count("dequantize") == 1
    assert weight_bytes(found) <= 0.27 * weight_bytes(float_graph)
    assert sum(n.operation in WEIGHTED for n in found.nodes) == 54


def test_the_classifier_agrees(
    float_graph: Graph, small_graph: Graph, crops: Any
) -> None:
    output = float_graph.outputs[0]
    for crop in crops[1][::2]:
        feeds = {"x": crop.pixels}
        wanted = np.asarray(float_graph.run(feeds)[output])
        found = np.asarray(small_graph.run(feeds)[output])
        assert wanted.argmax() == found.argmax() or wanted.max() < 0.8


@pytest.mark.parametrize("operation", [md.sigmoid, md.tanh])
def test_numbers_without_axes(operation):
    spec = md.TensorSpec(md.Float32Tensor, ())
    model = Model(Graph({"x": spec}, (Node("f", operation, ("x",), "y"),), {}, ("y",)))
    x = np.array(0.5, np.float32)
    small = model.quantize(model.calibrate([x, -x]))
    found = small(x)
    assert found.shape == () and abs(float(found) - float(model(x))) < 0.01
