"""Masks before a softmax: numbers far below the maximum need no codes."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model
from mdtensor.quant.model.quantize.calibrate import Calibration
from mdtensor.quant.model.quantize.masks import DEPTH, without_masks
from mdtensor.quant.model.quantize.softmax_rows import SoftmaxRow, softmax_rows

SIZE = 6
HIDDEN = np.triu(np.ones((SIZE, SIZE), bool), 1)
#: Masks that exporters write: of BERT, of float16, of JAX, of torch, of Swin.
NUMBERS = [-100.0, -1e4, -65504.0, -1e9, float(np.finfo(np.float32).min), -np.inf]


def attention(nodes, constants, inputs, rng):
    """softmax(x · xᵀ masked by `nodes`) · x, with the result `t` before the softmax."""
    spec = md.TensorSpec(md.Float32Tensor, (1, SIZE, 8))
    specs = {n: md.TensorSpec(md.Float32Tensor, x.shape) for n, x in inputs.items()}
    w = md.asarray(rng.normal(size=(8, 8)).astype(np.float32) / 2)
    whole = (
        Node("keys", md.linear, ("x", "w", None), "k"),
        Node("turn", md.permute_dims, ("k",), "kt", {"axes": (0, 2, 1)}),
        Node("scores", md.matmul, ("x", "kt"), "s"),
        *nodes,
        Node("shares", md.softmax, ("t",), "p", {"axis": -1}),
        Node("mix", md.matmul, ("p", "k"), "y"),
    )
    known = {n: md.asarray(x) for n, x in constants.items()} | {"w": w}
    return Model(Graph({"x": spec, **specs}, whole, known, ("y",)))


def loss(model, feeds):
    """The loss in dB after quantization on the same feeds."""
    small = model.quantize(model.calibrate([feeds]))
    wanted, found = (np.asarray(m(**feeds)) for m in (model, small))
    return 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())


@pytest.mark.parametrize("way", ["constant", "input", "with a bias", "where"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_mask_costs_no_accuracy(number, way, rng):
    mask = np.where(HIDDEN, np.float32(number), np.float32(0))[None]
    add = [Node("mask", md.add, ("s", "m"), "t")]
    feeds, constants = {"x": rng.standard_normal((1, SIZE, 8), np.float32)}, {}
    if way == "where":
        constants = {"keep": ~HIDDEN[None], "low": np.float32([number])}
        add = [Node("mask", md.where, ("keep", "s", "low"), "t")]
    elif way == "input":
        feeds["m"] = mask
    else:
        bias = rng.standard_normal(mask.shape, np.float32) * (way == "with a bias")
        constants = {"m": mask + bias}
    more = {n: x for n, x in feeds.items() if n != "x"}
    assert loss(attention(add, constants, more, rng), feeds) > 28


LOWEST = float(np.finfo(np.float32).min)
#: Steps between the mask and the softmax, as (operation, inputs, options).
BEHIND = {
    "scaled": [(md.mul, ("a", "half"), {})],
    "scaled twice": [(md.mul, ("half", "a"), {}), (md.div, ("1", "four"), {})],
    "divided": [(md.div, ("a", "four"), {})],
    "limited": [(md.maximum, ("a", "low"), {})],
    "clipped": [(md.clip, ("a",), {"min": LOWEST, "max": None})],
    "heads": [
        (md.reshape, ("a",), {"shape": (SIZE, 1, SIZE)}),
        (md.mul, ("1", "half"), {}),
        (md.reshape, ("2",), {"shape": (1, SIZE, SIZE)}),
    ],
}


def behind(steps, name="a"):
    """The nodes of the steps, the last one `t`."""
    made = []
    for at, (operation, inputs, options) in enumerate(steps, 1):
        output = "t" if at == len(steps) else f"{at}"
        made.append(Node(f"step{at}", operation, inputs, output, options))
    return made


@pytest.mark.parametrize("number", NUMBERS[1:])
@pytest.mark.parametrize("steps", BEHIND.values(), ids=BEHIND)
def test_a_mask_before_steps_that_keep_the_order(steps, number, rng):
    constants = {"half": np.float32(0.5), "four": np.float32([4]), "low": LOWEST}
    constants = {n: np.asarray(x, np.float32) for n, x in constants.items()}
    constants["m"] = np.where(HIDDEN, np.float32(number), np.float32(0))[None]
    nodes = [Node("mask", md.add, ("s", "m"), "a"), *behind(steps)]
    x = rng.standard_normal((1, SIZE, 8), np.float32)
    assert loss(attention(nodes, constants, {}, rng), {"x": x}) > 25


def test_the_rows_of_a_softmax():
    constants = {"half": np.float32(0.5), "w": np.ones((1, 1, SIZE), np.float32)}
    known = {n: md.asarray(np.asarray(x)) for n, x in constants.items()}
    spec = md.TensorSpec(md.Float32Tensor, (1, SIZE, SIZE))

    def rows(*nodes, axis=-1, outputs=()):
        last = Node("shares", md.softmax, ("t",), "y", {"axis": axis})
        graph = Graph({"a": spec}, (*nodes, last), known, ("y", *outputs))
        return softmax_rows(graph)

    half = Node("half", md.mul, ("a", "half"), "t")
    assert rows(half) == {"t": SoftmaxRow(-1), "a": SoftmaxRow(-1, 0.5)}
    assert rows(half, axis=1)["a"] == SoftmaxRow(-2, 0.5)
    # Others see the small elements, or the order of a row changes.
    assert rows(half, outputs=("a",)).keys() == {"t"}
    assert rows(Node("row", md.mul, ("a", "w"), "t")).keys() == {"t"}
    assert rows(Node("minus", md.mul, ("a", -0.5), "t")).keys() == {"t"}
    assert rows(Node("inverse", md.div, ("half", "a"), "t")).keys() == {"t"}
    limited = Node("limit", md.clip, ("a",), "t", {"min": None, "max": 2.0})
    assert rows(limited).keys() == {"t"}
    turned = Node("turn", md.reshape, ("a",), "t", {"shape": (1, 1, SIZE, SIZE)})
    assert rows(turned, axis=2).keys() == {"t"}


@given(st.floats(2.0**-6, 2.0**6), st.integers(0, 2**32 - 1))
def test_the_observer_gets_the_same_softmax(factor, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(4, 8)) * 10 ** rng.uniform(0, 5)
    found = without_masks(values, SoftmaxRow(-1, factor))
    used = values.max(axis=-1) >= values.max() - 4000 / factor
    for x, y in zip(values[used] * factor, found[used] * factor, strict=True):
        wanted, got = (np.exp(z - z.max()) / np.exp(z - z.max()).sum() for z in (x, y))
        assert abs(wanted - got).max() < 2.0**-20


def test_what_the_observer_gets():
    row = np.array([[0.0, -1.0, -1e4, -np.inf], [5.0, -50.0, 4.0, 3.0], [-1e4] * 4])
    found = without_masks(row, SoftmaxRow(-1))
    assert found.tolist() == [
        [0.0, -1.0, -DEPTH, -DEPTH],
        [5.0, 5.0 - DEPTH, 4.0, 3.0],
        [-DEPTH] * 4,
    ]
    assert without_masks(row[:, :1], None) is not None
    assert without_masks(np.array([1.0, -np.inf]), None).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_other_numbers_that_are_not_finite_raise(bad, rng):
    x = rng.standard_normal((1, SIZE, 8), np.float32)
    mask = np.where(HIDDEN, np.float32(bad), np.float32(0))[None]
    add = [Node("mask", md.add, ("s", "m"), "t")]
    model = attention(add, {"m": mask}, {}, rng)
    with pytest.raises(
        md.DataError, match="'t' becomes NaN or infinite in node 'mask'"
    ):
        model.calibrate([x])
    model = attention(add, {}, {"m": mask}, rng)
    with pytest.raises(md.DataError, match="input 'm' holds a NaN or an infinity"):
        model.calibrate([{"x": x, "m": mask}])


def test_a_file_keeps_which_values_were_infinite(rng, tmp_path):
    mask = np.where(HIDDEN, np.float32(-np.inf), np.float32(0))[None]
    model = attention([Node("mask", md.add, ("s", "m"), "t")], {}, {"m": mask}, rng)
    x = rng.standard_normal((1, SIZE, 8), np.float32)
    seen = model.calibrate([{"x": x, "m": mask}])
    seen.save(tmp_path / "c.json")
    assert Calibration.load(tmp_path / "c.json") == seen
    assert seen.infinite == {"m", "t"} == seen.merged(seen).infinite
    whys = model.quantize(seen).graph.notes
    assert (
        whys["mask"] == "it reads or writes infinity or NaN, which does not have a code"
    )
