"""Algorithms for the weights of a graph: what they read, give, refuse and gain."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import DataError, OptionError
from mdtensor.graph import Graph, Node
from mdtensor.quant import (
    MinMaxObserver,
    QInt8Tensor,
    QParams,
    quantize,
    quantize_weights,
)
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.quantize.algorithms import ALGORITHMS, choose_algorithm
from mdtensor.quant.model.quantize.calibrate import calibrate, input_moments
from mdtensor.quant.model.quantize.quantize import quantize_graph

RNG = np.random.default_rng(11)
MIX = RNG.standard_normal((5, 16 * 9 * 9))


def tensor(*shape: int) -> Any:
    return md.asarray(RNG.standard_normal(shape, np.float32))


def images(count: int) -> Any:
    """Channels and places that go together, as in real images."""
    rows = np.random.default_rng(count).standard_normal((count, 5)) @ MIX
    return rows.reshape(count, 16, 9, 9).astype(np.float32)


CONSTANTS = {
    "w": tensor(24, 16, 3, 3),
    "d": tensor(24, 1, 3, 3),
    "g": tensor(8, 12, 2, 1),
    "b": tensor(8),
    "l": tensor(10, 8 * 4 * 4),
}
NODES = (
    Node("W", md.conv2d, ("x", "w", None), "c", {"padding": (1, 0, 2, 1)}),
    Node("R", md.relu, ("c",), "r"),
    Node("D", md.conv2d, ("r", "d", None), "e", {"groups": 24, "stride": 2}),
    Node(
        "G",
        md.conv2d,
        ("e", "g", "b"),
        "h",
        {"groups": 2, "dilation": (2, 1), "padding": (1, 1, 1, 0)},
    ),
    Node("F", md.reshape, ("h",), "f", {"shape": (-1, 128)}),
    Node("L", md.linear, ("f", "l", None), "y"),
)
SPEC = md.TensorSpec(md.Float32Tensor, (-1, 16, 9, 9))
GRAPH = Graph({"x": SPEC}, NODES, CONSTANTS, ("y",))
SAMPLES = [images(32)]


def quantized(name: str, samples: Any = None) -> Graph:
    seen = calibrate(GRAPH, SAMPLES, MinMaxObserver)
    return quantize_graph(GRAPH, seen, (), choose_algorithm(GRAPH, name, samples))


def test_the_moments_are_of_what_products_are_made_of() -> None:
    """Every layer's outputs have the energy that its weights and moments say."""
    values: dict[str, Any] = {}
    GRAPH.run({"x": SAMPLES[0]}, lambda name, t: values.update({name: np.asarray(t)}))
    moments = input_moments(GRAPH, SAMPLES)
    assert list(moments) == ["W", "D", "G", "L"]
    assert [len(groups) for groups in moments.values()] == [1, 24, 2, 1]
    for node in NODES:
        if node.name not in moments:
            continue
        w = np.asarray(CONSTANTS[node.inputs[1]]).astype(float)
        parts = np.split(w.reshape(w.shape[0], -1), len(moments[node.name]))
        given = zip(moments[node.name], parts, strict=True)
        energy = sum(group.energy(part) for group, part in given)
        outputs = values[node.output].astype(float)
        if node.inputs[2] is not None:
            outputs = outputs - np.asarray(CONSTANTS["b"])[:, None, None]
        assert energy == pytest.approx((outputs**2).sum(), rel=1e-4)


def test_batches_of_one_give_the_moments_of_all() -> None:
    whole = input_moments(GRAPH, SAMPLES)
    split = input_moments(GRAPH, (x[None] for x in SAMPLES[0]))
    for name, groups in whole.items():
        for one, other in zip(groups, split[name], strict=True):
            assert one.count == other.count
            np.testing.assert_allclose(one.gram, other.gram, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_layer_has_codes_of_its_own(name: str) -> None:
    found = quantized(name, SAMPLES if name == "gptq" else None)
    assert found.notes == {}
    for node in NODES:
        if f"{node.name}.w" not in found.constants:
            assert node.operation not in (md.conv2d, md.linear)
            continue
        weights = found.constants[f"{node.name}.w"]
        assert type(weights) is QInt8Tensor
        assert weights.shape == CONSTANTS[node.inputs[1]].shape
        assert weights.qparams.axis == (None if node.name == "L" else 0)
        assert np.abs(np.asarray(weights.codes).astype(int)).max() <= 127


def test_to_nearest_covers_the_weights_and_is_the_default() -> None:
    found = quantized("rtn")
    w, codes = np.asarray(CONSTANTS["w"]), found.constants["W.w"]
    steps = abs(w).reshape(24, -1).max(axis=1).astype(np.float64) / 127
    wanted = quantize(CONSTANTS["w"], QParams(upwards(steps), axis=0))
    assert codes.qparams == wanted.qparams
    assert codes.codes.tolist() == wanted.codes.tolist()
    again = quantize_graph(GRAPH, calibrate(GRAPH, SAMPLES, MinMaxObserver))
    assert again.constants["W.w"].codes.tolist() == (
        found.constants["W.w"].codes.tolist()
    )


def upwards(steps: Any) -> Any:
    """The nearest float32 numbers that are not smaller."""
    near = steps.astype(np.float32)
    return np.where(near < steps, np.nextafter(near, np.float32(np.inf)), near)


def test_a_layer_has_the_codes_that_it_has_by_itself() -> None:
    found = quantized("gptq", SAMPLES)
    moments = input_moments(GRAPH, SAMPLES)
    alone = quantize_weights(CONSTANTS["w"], method="gptq", samples=moments["W"][0])
    assert found.constants["W.w"].codes.tolist() == alone.tensor.codes.tolist()
    rows = [
        quantize_weights(part, method="gptq", samples=group).tensor.codes.tolist()
        for part, group in zip(
            np.split(np.asarray(CONSTANTS["g"]), 2), moments["G"], strict=True
        )
    ]
    assert found.constants["G.w"].codes.tolist() == rows[0] + rows[1]


def test_gptq_lowers_the_error_of_every_layer_with_one_scale_for_each_output() -> None:
    plain, better = quantized("rtn"), quantized("gptq", SAMPLES)
    unseen = input_moments(GRAPH, [images(64)])
    for name in "WDGL":
        wanted = np.asarray(CONSTANTS[name.lower()]).astype(float)
        wrong = [error(g.constants[f"{name}.w"], wanted, unseen[name])
                 for g in (plain, better)]  # fmt: skip
        assert wrong[1] < 0.9 * wrong[0], name


def error(weights: Any, wanted: Any, groups: Any) -> float:
    """Of the outputs, over all groups."""
    steps = np.asarray(weights.codes).astype(float)
    scale = weights.qparams.along(weights.qparams.scale, wanted.shape)
    flat = (steps * scale - wanted).reshape(len(wanted), -1)
    parts = zip(groups, np.split(flat, len(groups)), strict=True)
    return float(sum(group.energy(part) for group, part in parts))


def test_a_bias_that_needs_large_scales_gets_them() -> None:
    """The floor of the scales holds under every algorithm."""
    constants = {**CONSTANTS, "g": md.asarray(np.asarray(CONSTANTS["g"]) * 1e-12)}
    made = Graph({"x": SPEC}, NODES, constants, ("y",))
    seen = calibrate(made, SAMPLES, MinMaxObserver)
    for name in ALGORITHMS:
        chosen = choose_algorithm(made, name, SAMPLES if name == "gptq" else None)
        found = quantize_graph(made, seen, (), chosen)
        assert np.abs(np.asarray(found.constants["G.b"].codes)).max() <= 2**30


def test_a_grouped_layer_on_single_vectors_shares_its_scale() -> None:
    node = Node("V", md.conv2d, ("x", "v", None), "y", {"groups": 4})
    spec = md.TensorSpec(md.Float32Tensor, (-1, 32, 1, 1))
    made = Graph({"x": spec}, (node,), {"v": tensor(12, 8, 1, 1)}, ("y",))
    x = (RNG.standard_normal((50, 4)) @ RNG.standard_normal((4, 32))).reshape(
        -1, 32, 1, 1
    )
    x = x.astype(np.float32)
    seen = calibrate(made, [x], MinMaxObserver)
    found = quantize_graph(made, seen, (), choose_algorithm(made, "gptq", [x]))
    same = quantize_graph(made, seen, (), choose_algorithm(made, "mse"))
    assert found.constants["V.w"].qparams.axis is None
    assert found.constants["V.w"].qparams == same.constants["V.w"].qparams
    wanted = np.asarray(made.constants["v"]).astype(float)
    groups = input_moments(made, [x])["V"]
    wrong = [error(g.constants["V.w"], wanted, groups) for g in (found, same)]
    assert wrong[0] < 0.9 * wrong[1]  # the errors of a group are made good in it


def test_a_model_runs_with_better_weights() -> None:
    model = Model(GRAPH)
    x = images(64)
    seen = model.calibrate([*SAMPLES, x], MinMaxObserver)
    wanted = np.asarray(model(x))
    wrong = {}
    for name in ALGORITHMS:
        samples = SAMPLES if name == "gptq" else None
        small = model.quantize(seen, method=name, samples=samples)
        wrong[name] = np.linalg.norm(np.asarray(small(x)) - wanted)
        assert wrong[name] < 0.05 * np.linalg.norm(wanted)
    assert wrong["gptq"] < wrong["rtn"]


@pytest.mark.parametrize("name", ["rtn", "gptq"])
def test_corrected_biases_keep_the_means_of_outputs(name: str) -> None:
    """Of every layer, of groups too, whether it has a bias or gets one."""
    seen = calibrate(GRAPH, SAMPLES, MinMaxObserver)
    chosen = choose_algorithm(GRAPH, name, SAMPLES, True)
    found = quantize_graph(GRAPH, seen, (), chosen)
    moments = input_moments(GRAPH, SAMPLES)
    for node in found.nodes:
        if node.name not in moments:
            continue
        weights, bias = (found.constants[value] for value in node.inputs[1:])
        wanted = np.asarray(CONSTANTS[node.name.lower()]).astype(float)
        own = CONSTANTS["b"] if node.name == "G" else np.zeros(len(wanted))
        means = [group.mean for group in moments[node.name]]
        scale = weights.qparams.along(weights.qparams.scale, wanted.shape)
        wrong = (np.asarray(weights.codes) * scale - wanted).reshape(len(wanted), -1)
        parts = np.split(wrong, len(means))
        shift = np.concatenate([w @ m for w, m in zip(parts, means, strict=True)])
        left = np.asarray(bias.codes) * bias.qparams.scale - np.asarray(own) + shift
        assert (abs(left) <= 0.51 * bias.qparams.scale).all(), node.name
        assert (abs(shift) > bias.qparams.scale).any(), node.name


def test_a_corrected_bias_fits_its_codes_or_is_refused() -> None:
    seen = calibrate(GRAPH, SAMPLES, MinMaxObserver)
    far = [x * np.float32(1e9) for x in SAMPLES]
    said = (
        r"layer '\w+': a corrected bias has the code \S+, beyond the int32 limit "
        r"2147483647\. "
    )
    with pytest.raises(DataError, match=said + "Use samples of the range"):
        quantize_graph(GRAPH, seen, (), choose_algorithm(GRAPH, "rtn", far, True))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"method": "awq"},
            OptionError,
            (
                "method='awq' quantizes weights only. Use it with "
                "Model.quantize_weights; or use Model.smooth and one of rtn, mse, hqq, "
                "gptq."
            ),
        ),
        ({"method": None}, OptionError, "method is None. Use one of rtn,"),
        ({"method": ["rtn"]}, OptionError, "method is ['rtn']. Use one of rtn,"),
        (
            {"weight_dtype": None},
            OptionError,
            "weight_dtype is None. Use qint4, quint4",
        ),
        ({"keep_float": "W"}, OptionError, "keep_float is 'W'. Give a list of names"),
        ({"rounding": 5}, OptionError, "rounding is 5. Use one of exact, onnx,"),
        (
            {"correct_bias": True, "samples": 5},
            DataError,
            "the samples are 5. Give an array, or a list of arrays or dicts.",
        ),
        (
            {"weights": "gptq"},
            OptionError,
            (
                "quantize: no option 'weights'. There are keep_float, method, "
                "weight_dtype, reduce_range, samples, correct_bias, rounding, budget, "
                "held_out, metric, progress; rtn has no others."
            ),
        ),
        (
            {"method": "hqq", "norm": 2},
            OptionError,
            "norm is 2. Use a number from 0.1 to 1.",
        ),
        ({"method": "gptq"}, OptionError, "method='gptq' needs samples."),
        (
            {"method": "mse", "samples": SAMPLES},
            OptionError,
            "method='mse' does not need samples.",
        ),
        ({"correct_bias": True}, OptionError, "correct_bias=True needs samples."),
        ({"correct_bias": 1}, OptionError, "correct_bias is 1. Use True or False."),
        ({"reduce_range": 1}, OptionError, "reduce_range is 1. Use True or False."),
        (
            {"reduce_range": True, "weight_dtype": "qint4"},
            OptionError,
            "reduce_range=True is for qint8, not qint4.",
        ),
        ({"samples": SAMPLES}, OptionError, "method='rtn' does not need samples."),
        (
            {"method": "gptq", "samples": []},
            DataError,
            "there are no samples. Give at least one.",
        ),
        (
            {"method": "gptq", "samples": [SAMPLES[0][:, :3]]},
            DataError,
            "sample 1: input 'x' must be Float32Tensor[-1,16,9,9], but is",
        ),
    ],
)
def test_what_is_wrong_is_said(options: Any, error: Any, said: str) -> None:
    model = Model(GRAPH)
    seen = model.calibrate(SAMPLES, MinMaxObserver)
    with pytest.raises(error) as raised:
        model.quantize(seen, **options)
    assert said in str(raised.value)


def test_options_of_a_method_reach_it() -> None:
    model = Model(GRAPH)
    seen = model.calibrate(SAMPLES, MinMaxObserver)
    how: Any = {"method": "gptq", "samples": SAMPLES, "act_order": False}
    found = model.quantize(seen, **how).graph.constants["W.w"]
    moments = input_moments(GRAPH, SAMPLES)["W"][0]
    alone = quantize_weights(CONSTANTS["w"], **how | {"samples": moments})
    assert found.codes.tolist() == alone.tensor.codes.tolist()
    stored = model.quantize_weights(**how).graph.constants["W.w"]
    assert stored.codes.tolist() == alone.tensor.codes.tolist()
    ordered = model.quantize_weights(**how | {"act_order": True}).graph.constants["W.w"]
    assert stored.codes.tolist() != ordered.codes.tolist()


@pytest.mark.parametrize("method", ["rtn", "mse", "hqq", "gptq"])
def test_weights_of_a_reduced_range_have_7_bits(method: str) -> None:
    model = Model(GRAPH)
    samples = {"samples": SAMPLES} if method == "gptq" else {}
    seen = model.calibrate(SAMPLES)
    small = model.quantize(seen, method=method, reduce_range=True, **samples)
    codes = [x.codes for x in small.graph.constants.values() if type(x) is QInt8Tensor]
    assert len(codes) == 4
    assert {int(np.abs(one).max()) for one in codes} <= {62, 63}


def test_onnxruntime_agrees_with_a_reduced_range(
    tmp_path: Path, onnxruntime_of: Any
) -> None:
    """Sums that saturate at int16 where a CPU adds two products at a time."""
    large = RNG.uniform(0.9, 1, (16, 64)).astype(np.float32)
    node = Node("L", md.linear, ("x", "w", None), "y")
    spec = md.TensorSpec(md.Float32Tensor, (8, 64))
    model = Model(Graph({"x": spec}, (node,), {"w": md.asarray(large)}, ("y",)))
    x = RNG.uniform(0.8, 1, (8, 64)).astype(np.float32)
    small = model.quantize(model.calibrate([x]), reduce_range=True)
    small.save(tmp_path / "net.onnx")
    (found,) = onnxruntime_of(str(tmp_path / "net.onnx"), {"x": x})
    np.testing.assert_allclose(found, np.asarray(small(x)), rtol=0.01)
    np.testing.assert_allclose(found, np.asarray(model(x)), rtol=0.02)
