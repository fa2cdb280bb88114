"""Nodes that stay float because a logarithm shows ratios that codes do not keep."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model

#: Squares of a spectrum, spelled in the ways that files have.
POWERS = {
    "square": [Node("power", md.square, ("parts",), "power")],
    "x * x": [Node("power", md.mul, ("parts", "parts"), "power")],
    "x ** 2": [Node("power", md.pow, ("parts", 2.0), "power")],
}
FRAME, BINS, BANDS = 64, 33, 8
EVERY = ("gain", "parts", "power", "bins", "bands", "floor")


def bank():
    """Return the sine transform of a frame, and triangles that add its powers."""
    angles = 2 * np.pi * np.outer(np.arange(BINS), np.arange(FRAME)) / FRAME
    window = np.hanning(FRAME)
    transform = np.concatenate([np.cos(angles) * window, np.sin(angles) * window])
    places = np.arange(BINS)[None], np.linspace(2, BINS - 2, BANDS)[:, None]
    return transform, np.maximum(0, 1 - np.abs(places[0] - places[1]) / 4)


def log_mel(powers, as_matmul=False):
    """Return a network of the logarithms of the powers in bands of a signal."""
    transform, filters = bank()
    numbers = {"f": transform, "m": filters.T if as_matmul else filters}
    numbers |= {"half": np.array(0.5), "eps": np.array(1e-9)}
    weights = ("bins", "m") if as_matmul else ("bins", "m", None)
    nodes = (
        Node("gain", md.mul, ("x", "half"), "g"),
        Node("parts", md.linear, ("g", "f", None), "parts"),
        *powers,
        Node("split", md.reshape, ("power",), "split", {"shape": (16, 2, BINS)}),
        Node("bins", md.sum, ("split",), "bins", {"axis": 1}),
        Node("bands", md.matmul if as_matmul else md.linear, weights, "bands"),
        Node("floor", md.maximum, ("bands", "eps"), "floor"),
        Node("log", md.log, ("floor",), "y"),
    )
    return model(nodes, numbers, (16, FRAME))


def model(nodes, numbers, shape):
    constants = {n: md.asarray(x.astype(np.float32)) for n, x in numbers.items()}
    spec = md.TensorSpec(md.Float32Tensor, shape)
    return Model(Graph({"x": spec}, tuple(nodes), constants, ("y",)))


def tones(rng):
    """Return loud low tones with quiet noise in all bands."""
    time = np.arange(FRAME) * rng.uniform(0.2, 0.5, (16, 1))
    noise = 1e-4 * rng.standard_normal((16, FRAME))
    return (np.sin(time) + noise).astype(np.float32)


@pytest.mark.parametrize("as_matmul", [False, True])
@pytest.mark.parametrize("powers", POWERS.values(), ids=POWERS)
def test_a_log_spectrum_keeps_its_quiet_bands(powers, as_matmul, rng):
    float_model = log_mel(powers, as_matmul)
    small = float_model.quantize(float_model.calibrate([tones(rng) for _ in range(4)]))
    x = tones(rng)
    wanted, found = np.asarray(float_model(x)), np.asarray(small(x))
    error = np.sqrt(np.mean((wanted - found) ** 2) / np.mean(wanted**2))
    assert error < 1e-5
    whys = {n.node: n.why for n in small.plan().nodes if n.arithmetic == "float"}
    assert set(EVERY) <= set(whys)
    assert whys["bands"] == "node 'log', log, needs more digits of it"


def test_a_budget_is_met_at_once(rng):
    float_model = log_mel(POWERS["square"])
    samples, held_out = [tones(rng)], [tones(rng)]
    small = float_model.quantize(
        float_model.calibrate(samples), budget=1e-3, held_out=held_out
    )
    assert small.search.is_met
    assert len(small.search.steps) == 1


def test_a_signed_layer_before_a_logarithm_stays_integer(rng):
    """The relu of a classifier is not a spectrum: its layer ends the search."""
    numbers = {"w": rng.normal(size=(8, 8)), "eps": np.array(1e-6)}
    nodes = (
        Node("layer", md.linear, ("x", "w", None), "a"),
        Node("relu", md.relu, ("a",), "r"),
        Node("sum", md.add, ("r", "eps"), "s"),
        Node("log", md.log, ("s",), "y"),
    )
    assert arithmetic(model(nodes, numbers, (8, 8)), rng)["layer"] == "integer"


def test_powers_that_differ_little_stay_integers(rng):
    """The mean of 4,096 squares is always close to 1: codes have enough digits."""
    numbers = {"w": np.eye(64)}
    nodes = (
        Node("layer", md.linear, ("x", "w", None), "a"),
        Node("power", md.square, ("a",), "p"),
        Node("mean", md.mean, ("p",), "m", {"axis": (0, 1), "keepdims": True}),
        Node("log", md.log, ("m",), "y"),
    )
    assert arithmetic(model(nodes, numbers, (64, 64)), rng)["layer"] == "integer"


def arithmetic(float_model, rng):
    """Return the arithmetic of each node of the quantized model."""
    shape = float_model.inputs["x"].shape
    samples = [rng.standard_normal(shape, np.float32) for _ in range(4)]
    plan = float_model.quantize(float_model.calibrate(samples)).plan()
    return {node.node: node.arithmetic for node in plan.nodes}
