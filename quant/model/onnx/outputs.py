"""The part of a file that some of its values need."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
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
    known = {value.name for value in (*graph.input, *graph.initializer)}
    known = known.union(*(node.output for node in graph.node)) - {""}
    check_outputs(names, known, [value.name for value in graph.output])
    places, needed = _needed(graph, names)
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


def check_outputs(names: object, known: Collection[str], own: Iterable[str]) -> None:
    """Raise unless each name is a value of a file, named once.

    Args:
        names: what the caller gives.
        known: the names of all values of the file.
        own: the names of its outputs.

    Raises:
        ModelError: `names` is not a list of names, or the file does not have a value.
    """
    where = written("outputs")
    if not isinstance(names, (list, tuple)) or not names:
        problem = f"{where} is {shown(names)}"
        raise ModelError(problem, "Give a list of names of values")
    for name in names:
        if not isinstance(name, str) or name not in known:
            near = difflib.get_close_matches(f"{name}"[:99], known, n=1)
            listed = ", ".join(map(repr, own))
            hint = f"The nearest is {near[0]!r}" if near else f"Its own are {listed}"
            raise ModelError(
                f"{where} names {shown(name)}, which the file does not have", hint
            )
    if len(set(names)) < len(names):
        raise ModelError(f"{where} names a value twice", "Name each once")
