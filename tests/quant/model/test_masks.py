"""Masks before a softmax: numbers far below the maximum need no codes."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model
from mdtensor.quant.model.quantize.calibrate import Calibration
from mdtensor.quant.model.quantize.masks import DEPTH, without_masks

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


def test_what_the_observer_gets():
    row = np.array([[0.0, -1.0, -1e4, -np.inf], [5.0, -50.0, 4.0, 3.0], [-1e4] * 4])
    found = without_masks(row, -1)
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
    assert whys["mask"] == "it reads or writes -inf, which does not have a code"
