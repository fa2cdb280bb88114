"""IF: a branch, or a choice between two results; WHILE: the operators of all turns."""

from typing import Any

import numpy as np
import pytest
from support.tflite_networks import const, moving

from bench.rivals.tflite_file import Part, Step, Value, file, options_of
from mdtensor.errors import ModelError
from mdtensor.quant import Budget


def branches(then: str = "ABS") -> bytes:
    """y = |x| or -x, by an input `c`."""
    condition = Value((), dtype="bool", name="c")
    options = options_of("If", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    x = Value((2, 3), dtype="float32", name="x")
    main = Part(
        [condition, x, moving(2, 3)],
        [Step("IF", [0, 1], 2, options, version=1)],
        [0, 1],
        [2],
    )
    sides = [
        Part([moving(2, 3), moving(2, 3)], [Step(kind, [0], 1, version=1)], [0], [1])
        for kind in (then, "NEG")
    ]
    return file([main, *sides])


X = np.float32([[1, -2, 3], [-4, 5, -6]])


@pytest.mark.parametrize("condition", [False, True])
def test_a_condition_of_the_caller(
    condition: bool, load_bytes: Any, litert: Any
) -> None:
    content = branches()
    (theirs,) = litert(content)(np.array(condition), X)
    network = load_bytes(content)
    assert network(np.array(condition), X).tolist() == theirs.tolist()
    fixed = load_bytes(content, constants={"c": condition})
    assert fixed(X).tolist() == theirs.tolist()
    assert [n.operation.__name__ for n in fixed.graph.nodes] == [
        "abs" if condition else "neg"
    ]


def test_nodes_inside_name_the_operator_around(load_bytes: Any) -> None:
    message = r"operator LSTM of node 0 in a graph of IF\.0 is not supported"
    with pytest.raises(ModelError, match=message):
        load_bytes(branches("LSTM"))


def test_a_graph_that_calls_itself(load_bytes: Any) -> None:
    again = options_of("If", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    flag = Value((), dtype="bool")
    part = Part([flag, flag], [Step("IF", [0, 0], 1, again, version=1)], [0], [1])
    with pytest.raises(ModelError, match="8 deep"):
        load_bytes(file([part, part]))


@pytest.mark.parametrize(("then", "other"), [(0, 2), (3, 2), (1, -1)])
def test_a_graph_that_does_not_exist(then: int, other: int, load_bytes: Any) -> None:
    options = options_of("If", ThenSubgraphIndex=then, ElseSubgraphIndex=other)
    condition = Value((), dtype="bool")
    main = Part(
        [condition, moving(2), moving(2)],
        [Step("IF", [0, 1], 2, options, version=1)],
        [0, 1],
        [2],
    )
    side = Part([moving(2), moving(2)], [Step("NEG", [0], 1, version=1)], [0], [1])
    with pytest.raises(ModelError, match=r"SubgraphIndex=-?\d of 3 graphs"):
        load_bytes(file([main, side, side]))


def turning(limit: int, by: int = 1) -> bytes:
    """y = x · w for each turn, and the number of turns; it ends at `limit`."""
    number = Value((), dtype="int32", name="i")
    options = options_of("While", CondSubgraphIndex=1, BodySubgraphIndex=2)
    main = Part(
        [
            const(np.int32(0)),
            Value((2, 3), dtype="float32", name="x"),
            number,
            moving(),
        ],
        [Step("WHILE", [0, 1], [2, 3], options, version=1)],
        [1],
        [2, 3],
    )
    end, step = const(np.int32(limit)), const(np.int32(by))
    flag = Value((), dtype="bool")
    condition = Part(
        [number, moving(2, 3), end, flag],
        [Step("LESS", [0, 2], 3, version=1)],
        [0, 1],
        [3],
    )
    body = Part(
        [number, moving(2, 3), step, const(W), number, moving(2, 3)],
        [
            Step("ADD", [0, 2], 4, options_of("Add"), version=1),
            Step("MUL", [1, 3], 5, options_of("Mul"), version=1),
        ],
        [0, 1],
        [4, 5],
    )
    return file([main, condition, body])


W = np.float32([[0.5, -2, 3]])


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_turns_that_are_counted(limit: int, load_bytes: Any, litert: Any) -> None:
    content = turning(limit)
    network = load_bytes(content)
    wanted = litert(content)(X)
    count, found = network(X)
    assert count.tolist() == wanted[0].tolist() == limit
    assert found.tolist() == wanted[1].tolist() == (X * W**limit).tolist()
    # All turns share the constant of the body.
    assert sum(one.shape == W.shape for one in network.graph.constants.values()) <= 1


def test_a_loop_without_end(load_bytes: Any) -> None:
    with pytest.raises(ModelError, match=r"WHILE\.0.*more than 50 nodes"):
        load_bytes(turning(5, by=0), budget=Budget(nodes=50))


def test_the_data_decides_how_often(load_bytes: Any) -> None:
    options = options_of("While", CondSubgraphIndex=1, BodySubgraphIndex=2)
    main = Part(
        [moving(), moving()],
        [Step("WHILE", [0], [1], options, version=1)],
        [0],
        [1],
    )
    flag = Value((), dtype="bool")
    condition = Part(
        [moving(), const(np.float32(1)), flag],
        [Step("GREATER", [0, 1], 2, version=1)],
        [0],
        [2],
    )
    half = Part(
        [moving(), const(np.float32(0.5)), moving()],
        [Step("MUL", [0, 1], 2, options_of("Mul"), version=1)],
        [0],
        [2],
    )
    message = "operator WHILE of node 0 turns as often as the data decides. Export it"
    with pytest.raises(ModelError, match=message):
        load_bytes(file([main, condition, half]))
