"""Nodes that stay float because a function behind them is undefined near 0."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model, load

EPS = 1e-6
#: What is between two layers: nodes as (operation, inputs, options), the last one `z`.
CHAINS = {
    "x / sqrt(x * x + eps)": [
        *[(md.mul, "a a"), (md.add, "1 eps"), (md.sqrt, "2"), (md.div, "a 3")]
    ],
    "relu(x) / (relu(x) + eps)": [(md.relu, "a"), (md.add, "1 eps"), (md.div, "1 2")],
    "log(relu(x) + eps)": [(md.relu, "a"), (md.add, "1 eps"), (md.log, "2")],
    "log(1 + exp(x))": [(md.exp, "a"), (md.add, "1 one"), (md.log, "2")],
    "log(sigmoid(x))": [(md.sigmoid, "a"), (md.log, "1")],
    "log(1 - sigmoid(x))": [(md.sigmoid, "a"), (md.sub, "one 1"), (md.log, "2")],
    "log(tanh(x) + 1 + eps)": [
        *[(md.tanh, "a"), (md.add, "1 one"), (md.add, "2 eps"), (md.log, "3")]
    ],
    "p * log(p)": [(md.softmax, "a"), (md.log, "1"), (md.mul, "1 2")],
    "x * (1 / sqrt(x * x + eps))": [
        *[(md.mul, "a a"), (md.add, "1 eps"), (md.sqrt, "2"), (md.reciprocal, "3")],
        (md.mul, "a 4"),
    ],
    "1 / x": [(md.reciprocal, "a")],
    "log((relu(x) + eps) / (x * x + 1))": [
        *[(md.relu, "a"), (md.add, "1 eps"), (md.mul, "a a"), (md.add, "3 one")],
        *[(md.div, "2 4"), (md.log, "5")],
    ],
    "log(sigmoid(x) * sigmoid(x))": [
        *[(md.sigmoid, "a"), (md.sigmoid, "a"), (md.mul, "1 2"), (md.log, "3")]
    ],
    "sinh(x) / cosh(x), of exponents": [
        *[(md.exp, "a"), (md.neg, "a"), (md.exp, "2"), (md.sub, "1 3")],
        *[(md.add, "1 3"), (md.div, "4 5")],
    ],
    "asin(sin(x))": [(md.sin, "a"), (md.asin, "1")],
    "acosh(x * x + 1)": [(md.mul, "a a"), (md.add, "1 one"), (md.acosh, "2")],
}


def model_of(chain, rng):
    """A layer, the chain and another layer."""
    numbers = {"w": rng.normal(size=(16, 16)), "v": rng.normal(size=(16, 16))}
    numbers |= {"eps": np.array(EPS), "one": np.array(1.0)}
    constants = {n: md.asarray(x.astype(np.float32)) for n, x in numbers.items()}
    nodes = [Node("first", md.linear, ("x", "w", None), "a")]
    for at, (operation, names) in enumerate(chain, 1):
        options = {"axis": -1} if operation is md.softmax else {}
        nodes.append(Node(f"n{at}", operation, tuple(names.split()), f"{at}", options))
    nodes.append(Node("last", md.linear, (f"{len(chain)}", "v", None), "y"))
    spec = md.TensorSpec(md.Float32Tensor, (8, 16))
    return Model(Graph({"x": spec}, tuple(nodes), constants, ("y",)))


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_model_runs_on_its_own_samples(chain, rng, tmp_path):
    model = model_of(chain, rng)
    samples = [rng.standard_normal((8, 16), np.float32) for _ in range(8)]
    small = model.quantize(model.calibrate(samples))
    wanted, found = (np.array([m(x) for x in samples]) for m in (model, small))
    noise = ((wanted - found) ** 2).sum() / (wanted**2).sum()
    assert 10 * np.log10(noise) < -15
    small.save(tmp_path / "m.onnx")
    again = load(tmp_path / "m.onnx")
    assert np.array_equal([again(x) for x in samples], found)


def test_the_plan_says_why(rng):
    model = model_of(CHAINS["log(relu(x) + eps)"], rng)
    samples = [rng.standard_normal((8, 16), np.float32)]
    plan = model.quantize(model.calibrate(samples)).plan()
    whys = {n.node: n.why for n in plan.nodes if n.arithmetic == "float"}
    assert whys["n2"] == (
        "its result comes too close to where log is undefined, in node 'n3'"
    )
    assert {n.node for n in plan.nodes if n.arithmetic == "integer"} >= {"first"}


def test_the_plan_says_why_of_a_dividend(rng):
    model = model_of(CHAINS["sinh(x) / cosh(x), of exponents"], rng)
    samples = [rng.standard_normal((8, 16), np.float32)]
    plan = model.quantize(model.calibrate(samples)).plan()
    whys = {n.node: n.why for n in plan.nodes if n.arithmetic == "float"}
    assert whys["n4"] == "its steps are too coarse for the divisor of node 'n6'"


def test_a_divisor_far_from_0_has_codes(rng):
    """x / (x * x + 9): the least divisor is many codes away from 0."""
    numbers = {"w": rng.normal(size=(4, 4)), "nine": np.array(9.0)}
    constants = {n: md.asarray(x.astype(np.float32)) for n, x in numbers.items()}
    nodes = (
        Node("first", md.linear, ("x", "w", None), "a"),
        Node("square", md.mul, ("a", "a"), "s"),
        Node("sum", md.add, ("s", "nine"), "t"),
        Node("y", md.div, ("a", "t"), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (4, 4))
    model = Model(Graph({"x": spec}, nodes, constants, ("y",)))
    x = rng.standard_normal((4, 4), np.float32)
    plan = model.quantize(model.calibrate([x])).plan()
    kinds = {n.node: n.arithmetic for n in plan.nodes}
    assert (kinds["sum"], kinds["y"]) == ("integer", "float")


def standardizing(mean, deviation, division):
    """A network whose file holds the standardization of its inputs."""
    rng = np.random.default_rng(8)
    numbers = {"m": mean, "d": deviation, "w": rng.normal(size=(16, mean.size))}
    constants = {n: md.asarray(x.astype(np.float32)) for n, x in numbers.items()}
    nodes = (
        Node("less", md.sub, ("x", "m"), "l"),
        Node("scaled", division, ("l", "d"), "s"),
        Node("layer", md.linear, ("s", "w", None), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (8, mean.size))
    return Model(Graph({"x": spec}, nodes, constants, ("y",)))


@pytest.mark.parametrize("mean", [0, 1], ids=["", "minus mean"])
@pytest.mark.parametrize("least", [1e-6, 1e-3, 1e-1])
@pytest.mark.parametrize("division", [md.div, md.mul], ids=["div", "mul"])
def test_inputs_that_hardly_change(division, least, mean, rng):
    """(x - mean) / deviation, where two of 32 inputs are constant in all samples."""
    deviation = rng.uniform(1, 8, 32)
    x = rng.normal(size=(64, 8, 32)) * deviation + mean * rng.uniform(-9, 9, 32)
    x[..., :2] = 5 * mean
    x, floor = x.astype(np.float32), deviation.copy()
    floor[:2] = least
    factor = floor if division is md.div else 1 / floor
    model = standardizing(x.mean((0, 1)), factor, division)
    wanted = np.asarray([model(one) for one in x])
    small = model.quantize(model.calibrate([*x]))
    noise = np.asarray([small(one) for one in x]) - wanted
    assert 10 * np.log10((noise**2).sum() / (wanted**2).sum()) < -28
    whys = {n.node: n.why for n in small.plan().nodes if n.arithmetic == "float"}
    if least < 1e-1:
        assert "differ too much for one grid" in whys["scaled"]
    assert {n.node for n in small.plan().nodes if n.arithmetic == "integer"} >= {
        "layer"
    }


@pytest.mark.parametrize("division", [md.div, md.mul], ids=["div", "mul"])
def test_ordinary_deviations_have_codes(division, rng):
    deviation, x = rng.uniform(0.2, 5, 32), rng.normal(size=(8, 8, 32))
    x = (x * (deviation if division is md.div else 1 / deviation)).astype(np.float32)
    model = standardizing(np.zeros(32), deviation, division)
    plan = model.quantize(model.calibrate([*x])).plan()
    assert {n.arithmetic for n in plan.nodes if n.operation in ("mul", "div")} == {
        "integer"
    }


def test_an_error_of_a_call_names_the_node(rng):
    nodes = (
        Node("ratio", md.div, ("x", "x"), "a"),
        Node("codes", md.quant.quantize, ("a",), "q", {"qparams": md.quant.QParams(1)}),
        Node("back", md.quant.dequantize, ("q",), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (2,))
    graph = Graph({"x": spec}, nodes, {}, ("y",))
    x = md.zeros((2,))
    for run in (Model(graph), lambda x: graph.run({"x": x})):
        with pytest.raises(md.CastError, match="cannot quantize NaN, in node 'codes'"):
            run(x)
