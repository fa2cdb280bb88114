"""IF: one branch if the condition is known, otherwise a choice between two results."""

from typing import Any

import numpy as np
import pytest
from support.tflite_networks import moving

from bench.rivals.tflite_file import Part, Step, Value, file, options_of
from mdtensor.errors import ModelError


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
