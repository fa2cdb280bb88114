"""The reader of IF, whose branches are graphs of the file.

A graph of mdtensor does not have branches. If the condition is known, the operators of
its branch take the place of the IF; otherwise those of both branches do, and the
condition chooses between their results.
"""

from __future__ import annotations

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
        chosen = _results(g, op, BRANCHES[0 if known.reshape(-1)[0] else 1])
        for at, name in enumerate(chosen):
            g.move(op, md.astype, name, g.dtype(name), at=at)
        return
    if g.builder.shape(condition):
        condition = g.builder.step(op, "condition", md.reshape, condition, shape=())
    sides = [_results(g, op, side) for side in BRANCHES]
    for at, (one, other) in enumerate(zip(*sides, strict=True)):
        if g.builder.specs[one] != g.builder.specs[other]:
            raise op.error(
                f"has branches with results {g.builder.specs[one]} and "
                f"{g.builder.specs[other]}, and its condition depends on the data",
                "Export it with results of one shape",
            )
        g.move(op, md.where, condition, one, other, like=one, at=at)


def _results(g: Reading, op: Call, side: str) -> list[str]:
    """Add the operators of a branch; return its results in the order of the file."""
    number = int(op.get(side, 0))
    if not 0 < number < len(g.graphs) or g.depth >= MOST_DEPTH:
        raise op.error(
            f"has {side}={number} of {len(g.graphs)} graphs, {g.depth} deep",
            f"Use graphs that are at most {MOST_DEPTH} deep",
        )
    graph = g.graphs[number]
    require_count(op, op.inputs[1:], len(graph.inputs), f"inputs of graph {number}")
    require_count(op, op.outputs, len(graph.outputs), f"results of graph {number}")
    names = inner_names(g, op, graph)
    g.depth += 1
    for operator in graph.operators:
        g.read(g, call_of(operator, graph, names, op.shapes_example, op.name))
    g.depth -= 1
    for at in graph.outputs:
        if not g.enter(names[at]):
            raise op.error(f"calls graph {number}, which does not write a result")
    return [g.rows(names[at]) for at in graph.outputs]
