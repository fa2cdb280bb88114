"""Masks, choices and reductions in plans: one part, the numbers of the calls."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import CastError, DataError
from mdtensor.graph import Graph, Node
from mdtensor.graph.bound import Compiled, Viewed
from mdtensor.quant import QParams, qint8, quint8
from mdtensor.quant.model.model import Model

GRID = QParams(0.25, 3, dtype=quint8)


def spec(*shape: int, kind: Any = md.Float32Tensor) -> Any:
    return md.TensorSpec(kind, shape)


def model(inputs: Any, nodes: Any, *outputs: str, **constants: Any) -> Model:
    return Model(Graph(inputs, tuple(nodes), constants, outputs))


def numbers(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def compared(network: Model, *arrays: Any) -> list[Any]:
    """Return results that the plan and the calls one by one agree on."""
    found = network(*arrays)
    results = found if isinstance(found, tuple) else (found,)
    wanted = network.graph.run(network.fed(*arrays))
    for name, result in zip(network.outputs, results, strict=True):
        assert type(result) is type(wanted[name])
        want = np.asarray(wanted[name])
        assert np.allclose(np.asarray(result), want, 1e-5, 1e-5, equal_nan=True)
    return list(results)


def parts(network: Model, *shapes: Any) -> list[type]:
    named = dict(zip(network.inputs, shapes, strict=True))
    return [type(part) for part in network.plan(named).parts]


def masked(shape: Any) -> Model:
    """Return a network that averages the elements above a threshold."""
    nodes = [
        Node("low", md.less_equal, ("x", 0.25), "low"),
        Node("kept", md.logical_not, ("low",), "kept"),
        Node("one", md.astype, ("kept", md.float32), "one"),
        Node("chosen", md.where, ("low", "zero", "x"), "chosen"),
        Node("total", md.sum, ("chosen",), "total", {"axis": -1, "keepdims": True}),
        Node("n", md.sum, ("one",), "n", {"axis": -1, "keepdims": True}),
        Node("least", md.maximum, ("n", 1.0), "least"),
        Node("mean", md.div, ("total", "least"), "mean"),
        Node("top", md.max, ("x",), "top", {"axis": -1, "keepdims": True}),
        Node("y", md.where, ("low", "mean", "top"), "y"),
        Node("shares", md.log_softmax, ("y",), "shares", {"axis": 1}),
    ]
    zero = md.asarray(np.float32(0))
    return model({"x": spec(*shape)}, nodes, "shares", "kept", zero=zero)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (2, 3, 4, 5)])
def test_a_masked_mean_is_one_part(shape: Any) -> None:
    network = masked(shape)
    x = numbers(*shape)
    _, kept = compared(network, x)
    assert np.array_equal(np.asarray(kept), x > 0.25)
    assert parts(network, shape) == [Compiled]


def test_bools_enter_and_leave() -> None:
    kind = md.BoolTensor
    inputs = {
        "m": spec(2, 1, 4, kind=kind),
        "x": spec(2, 3, 4),
        "k": spec(4, kind=kind),
    }
    nodes = [
        Node("both", md.logical_and, ("m", "k"), "both"),
        Node("any", md.logical_or, ("m", "k"), "any"),
        Node("one", md.logical_xor, ("m", "k"), "one"),
        Node("y", md.where, ("both", "x", -1e9), "y"),
        Node("z", md.where, ("fixed", "y", "x"), "z"),
        Node("row", md.squeeze, ("one",), "row", {"axis": 1}),
        Node("flag", md.greater, ("x", "y"), "flag"),
    ]
    fixed = md.asarray(np.array([True, False, True, False]))
    network = model(inputs, nodes, "z", "row", "any", "flag", fixed=fixed)
    rng = np.random.default_rng(2)
    m, k = rng.random((2, 1, 4)) < 0.5, rng.random(4) < 0.5
    compared(network, m, numbers(2, 3, 4), k)
    assert parts(network, (2, 1, 4), (2, 3, 4), (4,)) == [Compiled]


def test_a_norm_and_a_pool_of_signals() -> None:
    rng = np.random.default_rng(3)
    mean, bias = (md.asarray(rng.normal(size=6).astype(np.float32)) for _ in range(2))
    var, weight = (md.asarray(rng.random(6).astype(np.float32)) for _ in range(2))
    norm = ("x", "mean", "var", "weight", "bias")
    nodes = [Node("norm", md.batch_norm, norm, "y", {"eps": 1e-3})]
    constants = {"mean": mean, "var": var, "weight": weight, "bias": bias}
    for shape in ((4, 6), (2, 6, 5), (2, 6, 3, 4)):
        network = model({"x": spec(*shape)}, nodes, "y", **constants)
        compared(network, numbers(*shape))
        assert parts(network, shape) == [Compiled]


def test_a_cast_that_is_none_of_these_stays_a_call() -> None:
    nodes = [
        Node("whole", md.astype, ("x", md.int32), "whole", {"casting": "saturate"}),
        Node("row", md.reshape, ("whole",), "row", {"shape": (-1,)}),
        Node("big", md.greater, ("row", 1), "big"),
    ]
    network = model({"x": spec(2, 3)}, nodes, "row", "big")
    x = 9 * numbers(2, 3)
    row, big = compared(network, x)
    assert row.tolist() == np.trunc(x).astype(int).reshape(-1).tolist()
    assert big.tolist() == (np.trunc(x).reshape(-1) > 1).tolist()
    assert Viewed in parts(network, (2, 3))
    # A result never shares bytes with another one, or with what a call keeps.
    row.buffer[...] = 7
    assert network(x)[0].tolist() != row.tolist()


def rooted() -> Model:
    """Return a network that rounds computed floats to codes."""
    nodes = [
        Node("root", md.sqrt, ("x",), "root"),
        Node("half", md.mul, ("root", 0.5), "half"),
        Node("round", quant.quantize, ("half",), "codes", {"qparams": GRID}),
        Node("back", quant.dequantize, ("codes",), "y"),
    ]
    return model({"x": spec(2, 3)}, nodes, "y", "half")


def test_computed_floats_become_codes_in_the_same_part() -> None:
    network = rooted()
    x = np.abs(numbers(2, 3))
    compared(network, x)
    assert parts(network, (2, 3)) == [Compiled]
    x[1, 1] = -1
    for _ in range(2):
        with pytest.raises(CastError, match="cannot quantize NaN, in node 'round'"):
            network(x)
    compared(network, np.abs(x))


def test_a_dict_of_inputs_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Node("sub", md.sub, ("a", "b"), "y")]
    network = model({"a": spec(2), "b": spec(2)}, nodes, "y")
    a, b = numbers(2), numbers(2, seed=2)
    first = network({"b": b, "a": a})
    assert np.array_equal(np.asarray(first), a - b)

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("a steady call does not check its inputs again")

    with monkeypatch.context() as patched:
        patched.setattr(Model, "fed", fail)
        for found in (network({"a": a, "b": b}), network(b=b, a=a), network(a, b)):
            assert found.tolist() == first.tolist()
    wrong: list[Any] = [{"a": a}, {"a": a, "b": b, "c": a}, {"a": a, "b": {"b": b}}]
    for given in wrong:
        with pytest.raises(DataError):
            network(given)
    with pytest.raises(DataError, match="given twice"):
        network(a, b, a=a)


OUT = QParams(0.05, 7, dtype=quint8)
SIGNED = QParams(0.03, -5, dtype=qint8)
#: The operands of a difference: codes on two grids, a row of them, and a number.
OPERANDS = [("q", "one"), ("one", "q"), ("q", "r"), ("q", "row"), ("row", "q")]


def rounded(node: Node) -> Model:
    """Return a network that rounds two images to codes, and computes with them."""
    first = (slice(0, 1), slice(None), slice(0, 1))
    nodes = [
        Node("a", quant.quantize, ("x",), "q", {"qparams": GRID}),
        Node("b", quant.quantize, ("y",), "r", {"qparams": SIGNED}),
        Node("c", md.getitem, ("r",), "row", {"key": first}),
        node,
    ]
    one = quant.quantize(md.asarray([1.0], dtype=md.float32), OUT)
    network = model({"x": spec(2, 3, 4), "y": spec(2, 3, 4)}, nodes, "z", one=one)
    return Model(network.graph.pruned())


def same_codes(network: Model) -> None:
    seeds = enumerate(network.inputs)
    feeds = {name: 3 * numbers(2, 3, 4, seed=seed) for seed, name in seeds}
    found, wanted = network(feeds), network.graph.run(network.fed(feeds))["z"]
    assert np.array_equal(found.codes, wanted.codes)
    assert found.qparams == wanted.qparams
    assert [type(part) for part in network.plan().parts] == [Compiled]


@pytest.mark.parametrize("operands", OPERANDS, ids="-".join)
def test_differences_of_codes(operands: tuple[str, ...]) -> None:
    same_codes(rounded(Node("sub", md.sub, operands, "z", {"out": OUT})))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_means_of_codes(axis: Any, keepdims: bool) -> None:
    options = {"axis": axis, "keepdims": keepdims, "out": OUT}
    same_codes(rounded(Node("mean", md.mean, ("r",), "z", options)))


def test_a_mean_over_distant_axes_is_a_call() -> None:
    options = {"axis": (0, 2), "keepdims": False, "out": OUT}
    network = rounded(Node("mean", md.mean, ("r",), "z", options))
    assert [type(part) for part in network.plan().parts] != [Compiled]
