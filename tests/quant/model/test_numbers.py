"""Numbers beside codes become codes of the same value."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.plan import Plan
from mdtensor.quant import QParams, qint16, quantize, quint8
from mdtensor.quant.generics import dequantize
from mdtensor.quant.model.passes.scalars import code_numbers, scale_codes
from mdtensor.quant.model.passes.simplify import simplify

GRID, RESULT = QParams(0.05, 100, dtype=quint8), QParams(0.03, 90, dtype=quint8)
NUMBERS = (6.0, 0.1, -3.0, 1e-30, 2.0**100)


def graph(
    operation: Any, number: Any, *, is_first: bool = False, outputs: Any = ()
) -> Graph:
    """Codes, an operation with a number, codes."""
    inputs = ("k", "x.dq") if is_first else ("x.dq", "k")
    nodes = (
        Node("q", quantize, ("x",), "x.q", {"qparams": GRID}),
        Node("d", dequantize, ("x.q",), "x.dq"),
        Node("n", operation, inputs, "r"),
        Node("y", quantize, ("r",), "y", {"qparams": RESULT}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (256,))
    constant = md.asarray(np.asarray(number, np.float32))
    return Graph({"x": spec}, nodes, {"k": constant}, ("y", *outputs))


def exactly(operation: Any, number: float) -> list[int]:
    """Every code of GRID by Python's fractions, rounded once to RESULT."""
    k, found = Fraction(float(np.float32(number))), []
    for code in range(256):
        x = (code - GRID.zero) * GRID.fraction
        value = {md.add: x + k, md.mul: x * k, md.div: x / k}[operation]
        found.append(min(max(round(value / RESULT.fraction) + RESULT.zero, 0), 255))
    return found


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("operation", "is_first"),
    [(md.div, False), *((f, i) for f in (md.add, md.mul) for i in (False, True))],
)
def test_a_number_makes_a_table(operation: Any, is_first: bool, number: float) -> None:
    made = simplify(graph(operation, [number], is_first=is_first))
    plan = Plan(made)
    assert [n.kernel for n in plan.nodes] == ["quantize_f32u8", "lookup_u8"]
    codes = np.arange(256) - GRID.zero
    x = (codes * float(GRID.scale)).astype(np.float32)
    wanted = exactly(operation, number)
    assert plan(x)["y"].codes.tolist() == made.run({"x": x})["y"].codes.tolist()
    assert plan(x)["y"].codes.tolist() == wanted


@pytest.mark.parametrize(
    "left",
    [
        graph(md.div, 0.0),
        graph(md.div, np.inf),
        graph(md.mul, np.nan),
        graph(md.div, 2.0, is_first=True),
        graph(md.mul, np.full(256, 2.0)),
        graph(md.add, 2.0, outputs=("r",)),
        graph(md.sub, 2.0),
    ],
    ids=["0", "inf", "nan", "over codes", "many", "an output", "a difference"],
)
def test_what_stays_float(left: Graph) -> None:
    assert code_numbers(left) is left


def shared(
    operation: Any,
    number: float,
    *,
    after: Any = quantize,
    outputs: Any = (),
    mean: Any = md.global_avg_pool2d,
    grid: QParams = GRID,
) -> Graph:
    """A number beside codes, read by a quantize and by a mean that `after` follows."""
    on_result = {"qparams": RESULT}
    nodes = (
        Node("q", quantize, ("x",), "x.q", {"qparams": grid}),
        Node("d", dequantize, ("x.q",), "x.dq"),
        Node("n", operation, ("x.dq", "k"), "r"),
        Node("y", quantize, ("r",), "y", on_result),
        Node("p", mean, ("r",), "p"),
        Node("z", after, ("p",), "z", on_result if after is quantize else {}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (1, 16, 4, 4))
    constant = md.asarray(np.float32(number))
    return Graph({"x": spec}, nodes, {"k": constant}, ("y", "z", *outputs))


@pytest.mark.parametrize("operation", [md.mul, md.div])
def test_a_number_that_several_read_keeps_the_codes(operation: Any) -> None:
    plan = Plan(simplify(shared(operation, 6.0)))
    kernels = sorted(n.kernel for n in plan.nodes)
    kinds = ["lookup_u8", "lookup_u8", "mean_u8u8", "quantize_nchw_f32u8"]
    assert kernels == kinds
    codes = np.arange(256).reshape(1, 16, 4, 4)
    found = plan(((codes - GRID.zero) * float(GRID.scale)).astype(np.float32))
    assert found["y"].codes.reshape(-1).tolist() == exactly(operation, 6.0)
    step = GRID.fraction * (6 if operation is md.mul else Fraction(1, 6))
    for got, block in zip(found["z"].codes.reshape(-1), range(16), strict=True):
        mean = Fraction(2 * 16 * block + 15, 2) - GRID.zero
        wanted = round(mean * step / RESULT.fraction) + RESULT.zero
        assert got == min(max(wanted, 0), 255)


def operations(graph: Graph, name: str) -> list[str]:
    """From an output back to the quantize of the input, by what comes first."""
    found = []
    while name in graph.producers:
        node = graph.producers[name]
        found.append(node.operation.__name__)
        name = node.inputs[0]
    return found


@pytest.mark.parametrize(
    "left",
    [
        shared(md.mul, -6.0),
        shared(md.mul, 2.0**-126),
        shared(md.add, 6.0),
        shared(md.mul, 6.0, after=md.exp),
        shared(md.mul, 6.0, grid=QParams(0.001, dtype=qint16)),
    ],
    ids=["negative", "past float32", "a sum", "read as floats", "of 16 bits"],
)
def test_means_that_read_floats(left: Graph) -> None:
    made = simplify(left)
    assert operations(made, "y")[-1] == "quantize"
    assert "global_avg_pool2d" in operations(made, "z")
    mean = made.producers[made.producers["z"].inputs[0]]
    assert made.specs()[mean.inputs[0]].qparams is None
    x = np.linspace(-9, 9, 256, dtype=np.float32).reshape(1, 16, 4, 4)
    assert same(made.run({"x": x})["z"], left.run({"x": x})["z"])


def same(one: Any, other: Any) -> bool:
    one, other = (getattr(x, "codes", x) for x in (one, other))
    return np.array_equal(np.asarray(one), np.asarray(other))


def test_every_quantize_has_a_number_of_its_own() -> None:
    two = shared(md.mul, 10.0, after=md.exp, outputs=("r",))
    made = scale_codes(two)
    assert scale_codes(made) is made and made.producers["r"].inputs == ("x.dq", "k")
    assert operations(made, "y") == ["quantize", "mul", "dequantize", "quantize"]
    rounded = shared(md.mul, 10.0, mean=md.round)  # it would move values past a half
    assert operations(simplify(rounded), "z")[1:3] == ["round", "mul"]


def test_a_node_of_the_name_that_a_new_one_would_get() -> None:
    left = shared(md.div, 6.0)
    taken = [replace(left.nodes[0], name="n.y"), replace(left.nodes[1], name="r.p.q")]
    named = replace(left, nodes=(*taken, *left.nodes[2:]))
    made = simplify(named)
    assert len({node.name for node in made.nodes}) == len(made.nodes)


def test_a_quotient_of_codes_that_are_computed_is_no_table() -> None:
    nodes = (
        Node("q", quantize, ("x",), "a", {"qparams": GRID}),
        Node("s", md.exp, ("a",), "b", {"out": QParams(0.1, dtype=quint8)}),
        Node("n", md.div, ("a", "b"), "y", {"out": RESULT}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (3,))
    plan = Plan(Graph({"x": spec}, nodes, {}, ("y",)))
    why = "a compiled division needs a constant divisor other than 0"
    assert plan.nodes[-1].why == why
    assert plan(np.array([0, 1, 2], np.float32))["y"].codes.tolist() == [90, 102, 99]
