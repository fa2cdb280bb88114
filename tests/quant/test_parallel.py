"""How many threads a model runs on: chosen by a context, else by the environment."""

import threading

import numpy as np
import pytest

import mdtensor as md
from mdtensor import OptionError, quant
from mdtensor.kernels.cpu.program import program
from mdtensor.kernels.cpu.threads import split
from mdtensor.kernels.numpy import threads


def test_a_context_chooses_and_ends(monkeypatch):
    monkeypatch.delenv("MDTENSOR_NUM_THREADS", raising=False)
    assert threads.chosen() == 1
    two = quant.threads(2)
    with two as n, quant.threads(5):
        assert (n, threads.chosen()) == (2, 5)
        with two:
            assert threads.chosen() == 2
        assert threads.chosen() == 5
    assert threads.chosen() == 1
    assert repr(two) == "threads(2)"


def test_a_context_is_of_its_thread(monkeypatch):
    monkeypatch.delenv("MDTENSOR_NUM_THREADS", raising=False)
    seen = []
    with quant.threads(3):
        other = threading.Thread(target=lambda: seen.append(threads.chosen()))
        other.start()
        other.join()
    assert seen == [1]


@pytest.mark.parametrize(
    "value, n", [("3", 3), ("0", 1), ("", 1), ("two", 1), ("999", 64)]
)
def test_the_environment_chooses_the_default(monkeypatch, value, n):
    monkeypatch.setenv("MDTENSOR_NUM_THREADS", value)
    assert threads.chosen() == n
    with quant.threads(1):
        assert threads.chosen() == 1


@pytest.mark.parametrize("n", [0, -1, 65, 2.0, True, "2", None])
def test_other_numbers_are_refused(n):
    with pytest.raises(OptionError, match="the number of threads is"):
        quant.threads(n)


def network():
    """Convolutions, a sum and a mean of a random image, quantized."""
    from mdtensor.graph import Graph, Node
    from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams, quint8

    rng = np.random.default_rng(0)
    grid = QParams(0.05, 100, dtype=quint8)

    def weights(*shape):
        codes = rng.integers(-127, 128, shape, dtype=np.int8)
        return QInt8Tensor(codes, scale=0.01)

    bias = QInt32Tensor(rng.integers(-99, 99, 16, dtype=np.int32), scale=0.05 * 0.01)
    constants = {"w": weights(16, 3, 3, 3), "v": weights(16, 16, 1, 1), "b": bias}
    window = {"stride": 1, "padding": 1, "out": grid}
    nodes = (
        Node("q", quant.quantize, ("x",), "q", {"qparams": grid}),
        Node("c", md.conv2d, ("q", "w", "b"), "c", window),
        Node("d", md.conv2d, ("c", "v", "b"), "d", {"out": grid}),
        Node("y", md.add, ("c", "d"), "y", {"out": grid}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (1, 3, 20, 24))
    return Graph({"x": spec}, nodes, constants, ("y",))


def test_a_model_gives_its_bytes_on_two_threads(monkeypatch):
    from mdtensor.graph.plan import Plan

    monkeypatch.setattr(split, "PIECE_NANOSECONDS", 100)
    counts = []
    run = program.POOL.run
    monkeypatch.setattr(program.POOL, "run", lambda *a: counts.append(a[0]) or run(*a))
    plan = Plan(network())
    pieces = {node.node: node.pieces for node in plan.nodes}
    assert pieces["c"] > 1 and pieces["y"] > 1
    monkeypatch.setenv("COLUMNS", "400")
    assert "  pieces  " in str(plan).splitlines()[0]
    x = np.random.default_rng(1).normal(0, 3, (1, 3, 20, 24)).astype(np.float32)
    want = np.asarray(plan({"x": md.asarray(x)})["y"].codes)
    assert not counts
    with quant.threads(2):
        found = np.asarray(plan({"x": md.asarray(x)})["y"].codes)
        values = plan.values({"x": md.asarray(x)})
    assert set(counts) == {2}
    assert np.array_equal(found, want)
    assert np.array_equal(np.asarray(values["y"].codes), want)
