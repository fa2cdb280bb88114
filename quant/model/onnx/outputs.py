"""The part of a file that some of its values need."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from mdtensor.errors import ModelError, shown, written
from mdtensor.quant.model.onnx.order import reads_of


def choose_outputs(model: Any, names: Sequence[str]) -> Any:
    """Return a ModelProto with these values as outputs, and nothing they do not need.

    Args:
        model: a ModelProto, which does not change.
        names: names of values, each once.

    Raises:
        ModelError: `names` is not a list of names, or the file does not have a value.
    """
    graph = model.graph
    places, needed = _needed(graph, _checked(graph, names))
    made = type(model)(ir_version=model.ir_version)
    made.opset_import.extend(model.opset_import)
    made.metadata_props.extend(model.metadata_props)
    made.graph.node.extend(graph.node[place] for place in sorted(places))
    made.graph.input.extend(v for v in graph.input if v.name in needed)
    made.graph.initializer.extend(t for t in graph.initializer if t.name in needed)
    sparse = (t for t in graph.sparse_initializer if t.values.name in needed)
    made.graph.sparse_initializer.extend(sparse)
    for name in names:
        made.graph.output.add().name = name
    return made


def _needed(graph: Any, names: Sequence[str]) -> tuple[set[int], set[str]]:
    """Return the positions of the nodes, and the names, that these values need."""
    nodes = graph.node
    writers = {name: at for at, node in enumerate(nodes) for name in node.output}
    places: set[int] = set()
    found, waiting = set(names), list(names)
    while waiting:
        place = writers.get(waiting.pop())
        if place is None or place in places:
            continue
        places.add(place)
        new = set(reads_of(nodes[place])) - found
        found |= new
        waiting += new
    return places, found


def _checked(graph: Any, names: object) -> Sequence[str]:
    """Return the names; raise unless each is a value of the graph, named once."""
    where = written("outputs")
    if not isinstance(names, (list, tuple)) or not names:
        problem = f"{where} is {shown(names)}"
        raise ModelError(problem, "Give a list of names of values")
    known = {value.name for value in (*graph.input, *graph.initializer)}
    known = known.union(*(node.output for node in graph.node)) - {""}
    for name in names:
        if not isinstance(name, str) or name not in known:
            listed = ", ".join(repr(value.name) for value in graph.output)
            near = difflib.get_close_matches(f"{name}"[:99], known, n=1)
            hint = f"The nearest is {near[0]!r}" if near else f"Its own are {listed}"
            raise ModelError(
                f"{where} names {shown(name)}, which the file does not have", hint
            )
    if len(set(names)) < len(names):
        raise ModelError(f"{where} names a value twice", "Name each once")
    return names
