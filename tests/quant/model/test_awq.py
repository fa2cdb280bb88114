"""Finer steps where inputs are large: the same function, and better codes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import mdtensor as md
from mdtensor import OptionError
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.quantize.algorithms import WeightAlgorithm
from mdtensor.quant.model.quantize.awq import Search, scale_channels
from mdtensor.quant.model.quantize.calibrate import input_moments
from mdtensor.quant.weights.format import WeightFormat

LAYERS = ("K", "D", "G", "L", "M", "N")
FOUR_BITS = WeightAlgorithm(format=WeightFormat("qint4"))


def network(seed: int, large: float) -> tuple[Model, list[Any]]:
    """Layers of all kinds behind each other, and samples.

    In each place two channels are `large` times the others, and what reads them has
    weights of one size.
    """
    rng = np.random.default_rng(seed)

    def gains(count: int) -> Any:
        found = np.ones(count)
        found[rng.permutation(count)[:2]] = large
        return found

    def weights(outputs: Any, *shape: int) -> Any:
        w = rng.standard_normal((len(outputs), *shape)) / np.prod(shape) ** 0.5
        return w * outputs.reshape(-1, *[1] * len(shape))

    constants = {
        "k": weights(gains(16), 8, 3, 3),
        "kb": rng.standard_normal(16),
        "d": weights(np.ones(16), 1, 3, 3),
        "g": weights(gains(12), 8, 1, 1),
        "l": weights(gains(24), 12),
        "m": weights(np.ones(5), 24),
        "n": weights(np.ones(7), 24),
    }
    nodes = (
        Node("K", md.conv2d, ("x", "k", "kb"), "1", {"padding": 1}),
        Node("R", md.relu, ("1",), "2"),
        Node("D", md.conv2d, ("2", "d", None), "3", {"groups": 16, "padding": 1}),
        Node("H", md.hardswish, ("3",), "4"),
        Node("G", md.conv2d, ("4", "g", None), "5", {"groups": 2}),
        Node("A", md.global_avg_pool2d, ("5",), "6"),
        Node("F", md.reshape, ("6",), "7", {"shape": (-1, 12)}),
        Node("L", md.linear, ("7", "l", None), "8"),
        Node("S", md.tanh, ("8",), "9"),
        Node("T", md.mul, ("9", "t"), "10"),
        Node("M", md.linear, ("10", "m", None), "y"),
        Node("N", md.linear, ("10", "n", None), "z"),
    )
    constants["t"] = gains(24)
    known = {name: md.asarray(w.astype(np.float32)) for name, w in constants.items()}
    spec = md.TensorSpec(md.Float32Tensor, (-1, 8, 6, 6))
    shape = (16, 8, 6, 6)
    scale = gains(8).reshape(1, 8, 1, 1)
    samples = [rng.standard_normal(shape) * scale for _ in range(2)]
    given = [x.astype(np.float32) for x in samples]
    return Model(Graph({"x": spec}, nodes, known, ("y", "z"))), given


def off(small: Model, model: Model, x: Any) -> float:
    """By how much outputs differ, in parts of them."""
    found, wanted = (np.hstack([np.asarray(y) for y in m(x)]) for m in (small, model))
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def searched(model: Model, samples: list[Any]) -> Search:
    inputs = input_moments(model.graph, samples[:1])
    return Search(model.graph, inputs, FOUR_BITS.codes)


def in_float64(graph: Graph) -> Graph:
    """The same graph with constants and input of float64."""
    constants = {name: md.astype(x, md.float64) for name, x in graph.constants.items()}
    spec = md.TensorSpec(md.Float64Tensor, graph.inputs["x"].shape)
    return Graph({"x": spec}, graph.nodes, constants, graph.outputs)


@given(seed=st.integers(0, 2**16), large=st.sampled_from([1.0, 8.0, 50.0]))
@settings(max_examples=8)
@example(seed=9246, large=50.0)  # sums that cancel, right before tanh
def test_the_function_stays(seed: int, large: float) -> None:
    """It stays as close to float64 as before; some of these networks amplify errors."""
    model, samples = network(seed, large)
    graph = scale_channels(searched(model, samples), LAYERS)
    exact = in_float64(model.graph).run({"x": samples[1].astype(np.float64)})
    for name in ("y", "z"):
        before, after = (
            np.abs(np.asarray(g.run({"x": samples[1]})[name]) - np.asarray(exact[name]))
            for g in (model.graph, graph)
        )
        limit = 2e-6 * np.abs(np.asarray(exact[name])).max()
        assert after.max() <= 2 * before.max() + limit


@given(seed=st.integers(0, 2**16), size=st.sampled_from([None, 4]))
@settings(max_examples=6)
def test_uneven_channels_lose_less(seed: int, size: int | None) -> None:
    model, samples = network(seed, 30.0)
    how: Any = {"weight_dtype": "qint4", "block_size": size}
    plain = model.quantize_weights(**how)
    small = model.quantize_weights(method="awq", samples=samples[:1], **how)
    assert off(small, model, samples[1]) < 0.8 * off(plain, model, samples[1])


@given(seed=st.integers(0, 2**16))
@settings(max_examples=6)
def test_equal_channels_lose_no_more(seed: int) -> None:
    """No layer by itself; of all together, that of what they hand on, a tenth more."""
    model, samples = network(seed, 1.0)
    search = searched(model, samples)
    layers = {node.name: node for node in model.graph.nodes if node.name in LAYERS}
    assert all(search.best([node])[1] <= 1 for node in layers.values())
    plain = model.quantize_weights(weight_dtype="qint4")
    how: Any = {"method": "awq", "samples": samples[:1], "weight_dtype": "qint4"}
    small = model.quantize_weights(**how)
    assert off(small, model, samples[1]) < 1.1 * off(plain, model, samples[1])
    first = model.quantize_weights(**how, candidates=1)
    assert np.asarray(first(samples[1])[0]).tolist() == (
        np.asarray(plain(samples[1])[0]).tolist()
    )


def test_who_divides() -> None:
    """A layer before, or one product for all layers that read the same."""
    model, samples = network(3, 50.0)
    how: Any = {"method": "awq", "samples": samples[:1], "weight_dtype": "qint4"}
    graph = model.quantize_weights(**how).graph
    made = [n for n in graph.nodes if n.operation is md.mul and n.name != "T"]
    by_name = {node.name: node for node in graph.nodes}
    assert [node.inputs[0] for node in made] == ["4", "10"]
    shapes = [graph.constants[node.inputs[1]].shape for node in made]
    assert shapes == [(16, 1, 1), (24,)]
    assert by_name["M"].inputs[0] == by_name["N"].inputs[0] == made[1].output
    assert by_name["L"].inputs[0] not in {node.output for node in made}
    before = np.asarray(model.graph.constants["kb"])
    assert np.asarray(graph.constants[by_name["K"].inputs[2]]).tolist() == (
        before.tolist()
    )
    kept = model.quantize_weights(**how, keep_float=["K", "N"]).graph
    assert {n.inputs[0] for n in kept.nodes if n.name in "KN"} == {"x", "10"}
    small = Model(kept)
    assert off(small, model, samples[1]) < 0.2


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16], ids=str)
def test_narrow_floats_are_multiplied_by_powers_of_two(
    dtype: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    gains = np.where(np.arange(12) % 6 == 4, 4000, 1)
    samples = rng.standard_normal((2, 4096, 12)) * gains
    samples[:, 0, 7] = 8000  # small otherwise; float16 ends at 65504
    seen, x = (md.astype(md.asarray(given), dtype) for given in samples)
    w = md.astype(md.asarray(rng.standard_normal((24, 12)) / 4), dtype)
    nodes = (Node("L", md.linear, ("x", "l", None), "y"),)
    spec = md.TensorSpec(md.leaf(dtype), (-1, 12))
    model = Model(Graph({"x": spec}, nodes, {"l": w}, ("y",)))
    found = model.quantize_weights(method="awq", samples=[seen], weight_dtype="qint4")
    assert [node.name for node in found.graph.nodes] == ["x.scaled", "L"]
    factor = found.graph.constants["x.factor"]
    assert factor.dtype is found(x).dtype is dtype
    numbers = np.asarray(factor, np.float64)
    assert (np.frexp(numbers)[0] == 0.5).all() and numbers[7] == 1
    plain = model.quantize_weights(weight_dtype="qint4")
    wanted = np.asarray(x, np.float64) @ np.asarray(w, np.float64).T
    lost = [np.asarray(m(x), np.float64) - wanted for m in (found, plain)]
    assert np.linalg.norm(lost[0]) < 0.7 * np.linalg.norm(lost[1])
    found.save(tmp_path / "h.onnx")
    again = load(tmp_path / "h.onnx")(x)
    assert again.buffer.tobytes() == found(x).buffer.tobytes()


def test_it_is_saved_and_others_compute_the_same(
    tmp_path: Path, onnxruntime_of: Any
) -> None:
    model, samples = network(7, 30.0)
    how: Any = {"method": "awq", "samples": samples[:1], "block_size": 4}
    small = model.quantize_weights(**how, weight_dtype="qint4")
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    theirs = onnxruntime_of(tmp_path / "small.onnx", {"x": samples[1]})
    for ours, same, other in zip(
        small(samples[1]), again(samples[1]), theirs, strict=True
    ):
        assert np.asarray(same).tobytes() == np.asarray(ours).tobytes()
        np.testing.assert_allclose(
            np.asarray(ours), other, atol=1e-4 * abs(other).max()
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "method='awq' needs samples. Pass them as samples."),
        (
            {"samples": 1, "candidates": 0},
            "candidates is 0. Use an integer of 1 or more.",
        ),
        (
            {"samples": 1, "candidates": 2.5},
            "candidates is 2.5. Use an integer of 1 or more",
        ),
    ],
)
def test_what_is_wrong_is_said(options: Any, said: str) -> None:
    model, samples = network(1, 1.0)
    given = options | ({"samples": samples} if "samples" in options else {})
    with pytest.raises(OptionError) as raised:
        model.quantize_weights(method="awq", **given)
    assert said in str(raised.value)
