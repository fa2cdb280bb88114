"""Scales moved between layers: the same function, and better codes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import DataError, OptionError
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.passes.scaling import links

RNG = np.random.default_rng(31)
IMAGE = md.TensorSpec(md.Float32Tensor, (-1, 3, 8, 8))
X = RNG.standard_normal((12, 3, 8, 8)).astype(np.float32)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def spread(count: int) -> Any:
    """Factors of channels, far apart."""
    return np.exp2(RNG.integers(-5, 6, count)).astype(np.float32)


def network() -> Model:
    """Convolutions of all kinds and two linear layers, channels scaled badly."""
    a, b, c = spread(12), spread(8), spread(8)
    constants = {
        "k": numbers(12, 3, 3, 3) * a.reshape(-1, 1, 1, 1),
        "kb": numbers(12) * a,
        "d": numbers(12, 1, 3, 3),
        "g": numbers(8, 6, 1, 1)
        / np.repeat(a.reshape(2, 1, 6), 4, 1).reshape(8, 6, 1, 1),
        "l": numbers(8, 8) * c[:, None] * b[None],
        "m": numbers(5, 8) / c,
        "n": numbers(4, 8) / c,
    }
    nodes = (
        Node("K", md.conv2d, ("x", "k", "kb"), "1", {"padding": 1}),
        Node("R", md.relu, ("1",), "2"),
        Node("D", md.conv2d, ("2", "d", None), "3", {"groups": 12, "padding": 1}),
        Node("P", md.max_pool2d, ("3",), "4", {"kernel_size": 2}),
        Node("G", md.conv2d, ("4", "g", None), "5", {"groups": 2}),
        Node("A", md.global_avg_pool2d, ("5",), "6"),
        Node("F", md.reshape, ("6",), "7", {"shape": (-1, 8)}),
        Node("L", md.linear, ("7", "l", None), "8"),
        Node("S", md.leaky_relu, ("8",), "9", {"negative_slope": 0.1}),
        Node("M", md.linear, ("9", "m", None), "y"),
        Node("N", md.linear, ("9", "n", None), "z"),
    )
    tensors = {name: md.asarray(w.astype(np.float32)) for name, w in constants.items()}
    return Model(Graph({"x": IMAGE}, nodes, tensors, ("y", "z")))


MODEL = network()
CHANGES = {
    "equalize": lambda m, **how: m.equalize(**how),
    "smooth": lambda m, **how: m.smooth([X], **how),
}


def outputs(model: Model) -> list[Any]:
    return [np.asarray(y) for y in model(X)]


def test_the_links() -> None:
    found = [(k.writer.name, [n.name for n in k.readers]) for k in links(MODEL.graph)]
    assert found == [("K", ["D"]), ("D", ["G"]), ("G", ["L"]), ("L", ["M", "N"])]


@pytest.mark.parametrize("change", CHANGES)
def test_the_function_stays(change: str) -> None:
    changed, exact = (
        CHANGES[change](MODEL, powers_of_two=powers) for powers in (False, True)
    )
    for was, now, same in zip(*map(outputs, (MODEL, changed, exact)), strict=True):
        np.testing.assert_allclose(now, was, atol=2e-6 * np.abs(was).max())
        assert now.tobytes() != was.tobytes()
        assert same.tobytes() == was.tobytes()
    assert changed.inputs == MODEL.inputs
    assert changed.outputs == MODEL.outputs


@pytest.mark.parametrize("change", CHANGES)
def test_codes_of_badly_scaled_channels_are_better(change: str) -> None:
    assert off(CHANGES[change](MODEL), X) < 0.5 * off(MODEL, X)


def off(model: Model, x: Any) -> float:
    """By how much 8 bits change the first output, in parts of it."""
    small = model.quantize(model.calibrate([x]))
    found, wanted = np.asarray(small(x)[0]), np.asarray(model(x)[0])
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def test_ranges_on_both_sides_of_a_link_are_equal() -> None:
    found = MODEL.equalize(sweeps=100).graph
    by_name = {node.name: node for node in found.nodes}
    weights = {n: np.asarray(found.constants[by_name[n].inputs[1]]) for n in "KDGLMN"}
    ours = np.abs(weights["L"]).max(axis=1)
    theirs = np.abs(np.concatenate([weights["M"], weights["N"]])).max(axis=0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    ours = np.abs(weights["K"]).max(axis=(1, 2, 3))
    np.testing.assert_allclose(
        ours, np.abs(weights["D"]).max(axis=(1, 2, 3)), rtol=1e-5
    )


def test_a_calibration_of_before_is_refused() -> None:
    seen = MODEL.calibrate([X])
    with pytest.raises(DataError, match="does not know the value"):
        MODEL.equalize().quantize(seen)
    assert MODEL.equalize().quantize(MODEL.equalize().calibrate([X])).is_quantized


def test_a_normalization_gives_to_all_its_readers() -> None:
    """Where layers have large inputs, as in a transformer."""
    gain = np.ones(16, np.float32)
    gain[[3, 7]] = 60.0
    constants = {
        "w": gain,
        "b": numbers(16),
        "q": numbers(8, 16),
        "k": numbers(8, 16),
    }
    nodes = (
        Node("N", md.layer_norm, ("x", "w", "b"), "1", {"normalized_shape": (16,)}),
        Node("Q", md.linear, ("1", "q", None), "y"),
        Node("K", md.linear, ("1", "k", None), "z"),
    )
    tensors = {name: md.asarray(w) for name, w in constants.items()}
    spec = md.TensorSpec(md.Float32Tensor, (4, 5, 16))
    model = Model(Graph({"x": spec}, nodes, tensors, ("y", "z")))
    x = numbers(4, 5, 16)
    smoothed = model.smooth([x])
    node = smoothed.graph.nodes[0]
    peak = np.abs(np.asarray(model.graph.run({"x": x})["y"])).max()
    for was, now in zip(model(x), smoothed(x), strict=True):
        np.testing.assert_allclose(np.asarray(now), np.asarray(was), atol=1e-6 * peak)
    assert np.asarray(smoothed.graph.constants[node.inputs[1]]).max() < 20
    assert [link.writer.name for link in links(model.graph)] == ["N"]
    assert model.equalize().graph.constants == model.graph.constants  # no two layers
    assert off(smoothed, x) < 0.7 * off(model, x)


@pytest.mark.parametrize("between", [md.relu6, md.sigmoid, md.hardswish])
def test_what_a_factor_does_not_pass(between: Any) -> None:
    nodes = (
        Node("K", md.conv2d, ("x", "k", None), "1"),
        Node("B", between, ("1",), "2"),
        Node("G", md.conv2d, ("2", "k", None), "y"),
    )
    constants = {"k": md.asarray(numbers(3, 3, 1, 1))}
    assert not list(links(Graph({"x": IMAGE}, nodes, constants, ("y",))))


def test_what_something_else_reads_stays() -> None:
    nodes = (
        Node("K", md.conv2d, ("x", "k", None), "1"),
        Node("G", md.conv2d, ("1", "k", None), "2"),
        Node("S", md.add, ("2", "1"), "y"),
    )
    constants = {"k": md.asarray(numbers(3, 3, 1, 1))}
    assert not list(links(Graph({"x": IMAGE}, nodes, constants, ("y",))))
    graph = Graph({"x": IMAGE}, nodes[:2], constants, ("2", "1"))
    assert not list(links(graph))


def test_channels_along_another_axis_are_none() -> None:
    """A linear layer on images works along their last axis."""
    constants = {"k": md.asarray(numbers(8, 3, 1, 1)), "l": md.asarray(numbers(8, 8))}
    nodes = (
        Node("K", md.conv2d, ("x", "k", None), "1"),
        Node("L", md.linear, ("1", "l", None), "2"),
        Node("P", md.max_pool2d, ("2",), "3", {"kernel_size": 1}),
        Node("M", md.linear, ("3", "l", None), "y"),
    )
    assert not list(links(Graph({"x": IMAGE}, nodes, constants, ("y",))))


@given(groups=st.integers(1, 3), per=st.integers(1, 3), more=st.integers(1, 3))
def test_any_groups(groups: int, per: int, more: int) -> None:
    rng = np.random.default_rng(groups + 10 * per + 100 * more)
    shapes = {"k": (groups * per, 3, 1, 1), "g": (groups * more, per, 2, 1)}
    tensors = {n: md.asarray(rng.standard_normal(s, "f4")) for n, s in shapes.items()}
    nodes = (
        Node("K", md.conv2d, ("x", "k", None), "1"),
        Node("G", md.conv2d, ("1", "g", None), "y", {"groups": groups}),
    )
    model = Model(Graph({"x": IMAGE}, nodes, tensors, ("y",)))
    found = model.equalize(powers_of_two=True)
    wanted, got = (m.graph.run({"x": X})["y"] for m in (model, found))
    assert np.asarray(got).tobytes() == np.asarray(wanted).tobytes()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        *[
            (
                lambda m, n=n: m.equalize(sweeps=n),
                OptionError,
                f"sweeps is {n}. Use an integer of 1 or more.",
            )
            for n in (0, 2.5, float("inf"), True, None)
        ],
        *[
            (
                lambda m, a=a: m.smooth([X], strength=a),
                OptionError,
                f"strength is {a}. Use a number from 0 to 1.",
            )
            for a in (2, -0.1, float("nan"), float("inf"), True, None, [0.5])
        ],
        (
            lambda m: m.smooth([X], powers_of_two=1),
            OptionError,
            "powers_of_two is 1. Use True or False.",
        ),
        (
            lambda m: m.equalize(powers_of_two="yes"),
            OptionError,
            "powers_of_two is 'yes'. Use True or False.",
        ),
        (lambda m: m.smooth(5), DataError, "the samples are 5. Give an array"),
        (lambda m: m.smooth([]), DataError, "there are no samples. Give at least one."),
        (lambda m: m.smooth([X[:, :1]]), DataError, "sample 1: input 'x' must be"),
        (lambda m: m.quantize_weights().smooth([X]), OptionError, "quantized already"),
        (lambda m: m.quantize_weights().equalize(), OptionError, "quantized already"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call: Any, error: Any, said: str) -> None:
    with pytest.raises(error) as raised:
        call(MODEL)
    assert said in str(raised.value)
