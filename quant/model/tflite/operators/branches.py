"""The readers of IF and WHILE, which call graphs of the file.

A graph of mdtensor does not have branches. If the condition is known, the operators of
its branch take the place of the IF; otherwise those of both branches do, and the
condition chooses between their results. A WHILE becomes the operators of all its turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.calls import call_of, inner_names
from mdtensor.quant.model.tflite.operators.table import reads

#: The options that name the graphs of the two branches.
BRANCHES = ("ThenSubgraphIndex", "ElseSubgraphIndex")
#: The most branches inside of each other; a graph could call itself.
MOST_DEPTH = 8


@reads("IF")
def branch(g: Reading, op: Call) -> None:
    condition = g.rows(op.operand(0))
    known = g.builder.array(condition)
    if known is not None:
        require_count(op, known.reshape(-1), 1, "its condition")
        side = BRANCHES[0 if known.reshape(-1)[0] else 1]
        _write(g, op, _results(g, op, side, op.operands[1:], len(op.outputs)))
        return
    if g.builder.shape(condition):
        condition = g.builder.step(op, "condition", md.reshape, condition, shape=())
    sides = [_results(g, op, s, op.operands[1:], len(op.outputs)) for s in BRANCHES]
    for at, (one, other) in enumerate(zip(*sides, strict=True)):
        if g.builder.specs[one] != g.builder.specs[other]:
            raise op.error(
                f"has branches with results {g.builder.specs[one]} and "
                f"{g.builder.specs[other]}, and its condition depends on the data",
                "Export it with results of one shape",
            )
        g.move(op, md.where, condition, one, other, like=one, at=at)


@reads("WHILE")
def loop(g: Reading, op: Call) -> None:
    """Read WHILE: the operators of its body, once for each turn.

    Each turn must be known to happen while the file is read, as in recurrent layers,
    which count their steps.
    """
    values, turns = op.operands, 0
    require_count(op, op.outputs, len(values), "results")
    while _goes_on(g, op, values):
        # A turn may add no node at all, so that turns count as well.
        g.builder.spending.check_nodes(str(op), turns)
        values = _results(g, op, "BodySubgraphIndex", values, len(values))
        turns += 1
    _write(g, op, [g.rows(name) for name in values])


def _goes_on(g: Reading, op: Call, values: Sequence[str]) -> bool:
    """Return the result of the condition of a WHILE, which must be known."""
    (name,) = _results(g, op, "CondSubgraphIndex", values, 1)
    known = g.builder.array(name)
    if known is None:
        raise op.error(
            "turns as often as the data decides",
            "Export it with a number of turns that follows from the sizes",
        )
    require_count(op, known.reshape(-1), 1, "its condition")
    return bool(known.reshape(-1)[0])


def _write(g: Reading, op: Call, values: Sequence[str]) -> None:
    """Write each result of the operator: the elements of a value."""
    for at, name in enumerate(values):
        g.move(op, md.astype, name, g.dtype(name), at=at)


def _results(
    g: Reading, op: Call, side: str, given: Sequence[str], count: int
) -> list[str]:
    """Add the operators of a graph; return its results in the order of the file.

    Args:
        g: what has been read.
        op: the operator that calls the graph.
        side: the option that has the number of the graph.
        given: the values of the inputs of the graph.
        count: how many results it must have.
    """
    number = int(op.get(side, 0))
    if not 0 < number < len(g.graphs) or g.depth >= MOST_DEPTH:
        raise op.error(
            f"has {side}={number} of {len(g.graphs)} graphs, {g.depth} deep",
            f"Use graphs that are at most {MOST_DEPTH} deep",
        )
    graph = g.graphs[number]
    require_count(op, given, len(graph.inputs), f"inputs of graph {number}")
    require_count(op, graph.outputs, count, f"results of graph {number}")
    names = inner_names(g, op, graph, given)
    g.depth += 1
    for operator in graph.operators:
        g.read(g, call_of(operator, graph, names, op.shapes_example, op.name))
    g.depth -= 1
    for at in graph.outputs:
        if not g.enter(names[at]):
            raise op.error(f"calls graph {number}, which does not write a result")
    return [g.rows(names[at]) for at in graph.outputs]
