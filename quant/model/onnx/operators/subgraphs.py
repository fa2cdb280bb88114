"""Readers of If, Loop and Scan, whose nodes contain graphs.

A graph of mdtensor does not have branches. If the condition is known while the file is
read, the nodes of one branch take the place of the If; otherwise both branches run and
the condition chooses between their results. A loop whose number of turns is known
becomes that many copies of its nodes. What else must be known, a call computes first
(`DecidedModel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import ModelError, written
from mdtensor.quant.model.decision_error import is_decidable
from mdtensor.quant.model.onnx.axes import normalize_axis, require_count
from mdtensor.quant.model.onnx.build import Builder, Operator, is_dynamic
from mdtensor.quant.model.onnx.nodes import initial_arrays, operator
from mdtensor.quant.model.onnx.operators.table import number, reads
from mdtensor.quant.model.onnx.order import sort_nodes
from mdtensor.quant.model.size_error import has_open_size

#: Nodes of two branches that both run; with more, the one that is needed is read.
MOST_NODES_OF_BOTH = 16


@reads("If")
def branch(g: Builder, op: Operator) -> None:
    """Read If: the nodes of the branch that its condition chooses.

    If the condition depends on the data, both branches run.
    """
    condition = op.inputs[0]
    if g.array(condition) is None:
        _name_outputs(g, op, _chosen(g, op, str(condition)))
        return
    is_chosen = _truth(g, op, condition, "its condition")
    graph = op.get("then_branch" if is_chosen else "else_branch")
    _name_outputs(g, op, inline(g, op, graph, ()))


def _chosen(g: Builder, op: Operator, condition: str) -> list[str]:
    """Return the results of both branches, chosen by a condition of one element."""
    before = len(g.nodes)
    sides = [_side(g, op, side) for side in ("then_branch", "else_branch")]
    if len(g.nodes) - before > MOST_NODES_OF_BOTH and _is_setting(g, condition):
        raise _undecided(g, op, condition, "has long branches")
    require_count(op, sides[0], len(sides[1]), "outputs of its first branch")
    chooser = condition
    if g.shape(condition):
        options: dict[str, Any] = {"shape": ()}
        chooser = g.step(op, "condition", md.reshape, condition, **options)
    found: list[str] = []
    for one, other in zip(*sides, strict=True):
        if one in g.lists or other in g.lists:
            raise _undecided(g, op, condition, "chooses between sequences")
        # A spec says nothing else that differs; a dynamic size may differ.
        if g.specs[one] != g.specs[other] or min(g.shape(one), default=0) < 0:
            problem = f"has branches with results {g.specs[one]} and {g.specs[other]}"
            raise _undecided(g, op, condition, problem)
        found.append(g.step(op, "choice", md.where, chooser, one, other))
    return found


def _side(g: Builder, op: Operator, side: str) -> list[str]:
    """Read a branch that may not run.

    Raises:
        ModelError: the branch does not fit the inputs. The model may still be valid,
            if its condition never chooses this branch.
    """
    try:
        return inline(g, op, op.get(side), ())
    except ModelError as error:
        # With known sizes the branch may be read.
        if has_open_size(g.inputs):
            raise
        problem = f"cannot use its {side} ({error.problem})"
        raise _undecided(g, op, str(op.inputs[0]), problem) from None


def _undecided(g: Builder, op: Operator, condition: str, problem: str) -> ModelError:
    """Return the error of an If that needs a condition which depends on the data."""
    problem += f", and its condition {op.inputs[0]!r} depends on the data"
    fix = _how_to_fix(g, str(op.inputs[0]))
    return g.undecided(condition, op.error(problem, fix))


def _is_setting(g: Builder, value: str) -> bool:
    """Return whether only inputs of a few integers decide a value.

    Such inputs change rarely, so that few graphs are made for their values.
    """
    return all(is_decidable(g.inputs[name]) for name in _inputs_behind(g, value))


def _inputs_behind(g: Builder, value: str) -> list[str]:
    """Return the inputs of the model that a value depends on."""
    writers = {node.output: node for node in g.nodes}
    names, seen = [value], {value}
    for name in names:
        node = writers.get(name)
        new = [one for one in node.values if one not in seen] if node else []
        names += new
        seen.update(new)
    return [name for name in g.inputs if name in seen]


def _how_to_fix(g: Builder, value: str) -> str:
    """Return how to make a value known, with the inputs that it depends on."""
    # A setting is a single number; nobody fixes an image.
    names = _inputs_behind(g, value)
    settings = [name for name in names if set(g.inputs[name].shape) <= {1}]
    which = f" ({', '.join(map(repr, settings))})" if settings else ""
    return f"If inputs{which} decide it, fix them: {written('constants')} of load"


@reads("Loop")
def loop(g: Builder, op: Operator) -> None:
    """Read Loop: its nodes, once for each iteration."""
    body, turns = op.get("body"), None
    if op.input(0):
        _require_known(g, op, op.input(0), "its number of turns")
        turns = number(g, op, 0, "its number of turns")
    elif not op.input(1):
        raise op.error("never ends", "Give it a number of turns or a condition")
    goes_on: Any = op.input(1) or g.new_constant(op, "go", np.array(True))
    states: list[Any] = list(op.inputs[2:])
    rows = _empty_rows(op, body, len(op.inputs) - 2, 1)
    count = 0
    while _truth(g, op, goes_on, "its condition") and (turns is None or count < turns):
        # A turn may add no node at all, so that turns count as well.
        g.spending.check_nodes(str(op), count)
        at = g.new_constant(op, "turn", np.array(count, np.int64))
        goes_on, *found = inline(g, op, body, (at, goes_on, *states))
        states, rest = found[: len(states)], found[len(states) :]
        for row, name in zip(rows, rest, strict=True):
            row.append(name)
        count += 1
    _name_outputs(g, op, [*states, *(_stack(g, op, row) for row in rows)])


@reads("Scan")
def scan(g: Builder, op: Operator) -> None:
    """Read Scan: its nodes, once for each element of the scanned axis."""
    if op.opset < 9:
        raise op.error("scans with a batch axis", "Export it for operator set 9")
    body, scanned = op.get("body"), int(op.get("num_scan_inputs"))
    first = len(op.inputs) - scanned
    states: list[Any] = list(op.inputs[:first])
    sources = op.inputs[first:]
    axes = _per_scan(op, "scan_input_axes", scanned)
    axes = [
        normalize_axis(op, axis, len(g.shape(x)), "scan_input_axes")
        for axis, x in zip(axes, sources, strict=True)
    ]
    backward = _per_scan(op, "scan_input_directions", scanned)
    counts = {g.shape(x)[axis] for axis, x in zip(axes, sources, strict=True)}
    if len(counts) != 1 or min(counts) < 0:
        listed = ", ".join(map(str, sorted(counts)))
        raise op.size_error(f"scans axes of sizes {listed}")
    count, rows = counts.pop(), _empty_rows(op, body, len(states), 0)
    for turn in range(count):
        places = [count - 1 - turn if back else turn for back in backward]
        key = [(slice(None),) * axis for axis in axes]
        parts = [
            g.step(op, f"part{turn}", md.getitem, x, key=(*before, place))
            for x, before, place in zip(sources, key, places, strict=True)
        ]
        found = inline(g, op, body, (*states, *parts))
        states, rest = found[: len(states)], found[len(states) :]
        for row, name in zip(rows, rest, strict=True):
            row.append(name)
    _name_outputs(g, op, [*states, *_scan_outputs(g, op, rows)])


def _scan_outputs(g: Builder, op: Operator, rows: list[list[str]]) -> list[str]:
    """Join the results of the turns of Scan along the axes that it names."""
    axes = _per_scan(op, "scan_output_axes", len(rows))
    backward = _per_scan(op, "scan_output_directions", len(rows))
    given = zip(rows, axes, backward, strict=True)
    return [
        _stack(g, op, row[::-1] if back else row, axis) for row, axis, back in given
    ]


def _per_scan(op: Operator, name: str, count: int) -> list[int]:
    """Return an attribute with one number for each scanned value, by default 0."""
    given = list(op.get(name, (0,) * count))
    require_count(op, given, count, name)
    return given


def _empty_rows(op: Operator, body: Any, states: int, more: int) -> list[list[str]]:
    """Return an empty list for each output of the graph after its states."""
    count = len(body.output) - states - more
    if count < 0 or states + count < len(op.outputs):
        raise op.error(
            f"has {len(op.outputs)} outputs and {states} states, and its graph has "
            f"{len(body.output)} outputs",
            "Export it again",
        )
    return [[] for _ in range(count)]


def _stack(g: Builder, op: Operator, row: list[str], axis: int = 0) -> str:
    """Join the results of all turns along a new axis."""
    if not row:
        raise op.error("does not turn, so the shape of a result is unknown", "")
    at = normalize_axis(op, axis, len(g.shape(row[0])) + 1, "scan_output_axes")
    parts = [g.step(op, "turn", md.expand_dims, name, axis=at) for name in row]
    return g.step(op, "turns", md.concat, *parts, axis=at)


def _truth(g: Builder, op: Operator, name: Any, what: str) -> bool:
    """Return a condition that must be known while the file is read."""
    found = _require_known(g, op, name, what)
    require_count(op, found.reshape(-1), 1, what)
    return bool(found.reshape(-1)[0])


def _require_known(g: Builder, op: Operator, name: Any, what: str) -> Any:
    """Return the elements of a value that must be known while the file is read."""
    found = g.array(name)
    if found is None:
        problem = f"runs graphs, and {what} {name!r} depends on the data"
        raise g.undecided(name, op.error(problem, _how_to_fix(g, name)))
    if is_dynamic(found):
        raise op.size_error(f"runs graphs, and {what} {name!r} depends on a size")
    return found


def _name_outputs(g: Builder, op: Operator, values: Sequence[str]) -> None:
    """Give the results of a graph inside of a node the names of the node's outputs."""
    if len(values) < len(op.outputs):
        raise op.error(
            f"has {len(op.outputs)} outputs, and its graph has {len(values)}",
            "Export it again",
        )
    for output, value in zip(op.outputs, values, strict=False):
        if output:
            g.alias(op, output, value)


def inline(g: Builder, op: Operator, graph: Any, given: Sequence[str]) -> list[str]:
    """Read the nodes of a graph inside of a node.

    Args:
        g: the builder.
        op: the node.
        graph: its GraphProto.
        given: the names of the values of the graph's inputs.

    Returns:
        The names of the graph's outputs.
    """
    inputs = [value.name for value in graph.input]
    require_count(op, inputs, len(given), "inputs of its graph")
    names = {**op.scope, **dict(zip(inputs, given, strict=True))}
    stem = next(filter(None, op.outputs), op.name)
    for name, array in initial_arrays(graph, op.folder).items():
        names[name] = g.fresh(f"{stem}/{name}")
        g.spending.add_stored(array.size)
        g.enter(names[name], array)
    for place in sort_nodes(graph):
        _read_inner(g, op, graph.node[place], names, stem)
    return [names.get(value.name, value.name) for value in graph.output]


def _read_inner(
    g: Builder, op: Operator, node: Any, names: dict[str, str], stem: str
) -> None:
    """Read a node inside of a graph; its results get names of their own."""
    made = type(node)()
    made.CopyFrom(node)
    made.name = f"{op.name}/{node.name or next(filter(None, node.output), 'node')}"
    del made.input[:], made.output[:]
    made.input.extend(names.get(name, name) for name in node.input)
    for name in filter(None, node.output):
        names[name] = g.fresh(f"{stem}/{name}")
    made.output.extend(names[name] if name else "" for name in node.output)
    inner = operator(made, op.opsets, op.folder)
    g.read(g, replace(inner, scope=dict(names), shapes_example=op.shapes_example))
