"""Recurrent layers, written as LSTM, GRU and RNN of one direction.

The operators of ONNX return all steps and the last states separately; an operation here
returns one after the other, so that a Concat joins them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.build import ELEMENT_TYPES
from mdtensor.quant.model.onnx.operators.recurrent import FUNCTIONS, LAYERS
from mdtensor.quant.model.onnx.write_operators import Sink, element_code, emits

#: The number of int32 in the file format, the type of lengths.
INT32 = 6
#: The functions of a file, by their name here.
NAMES = {ours: (theirs, *defaults) for theirs, (ours, *defaults) in FUNCTIONS.items()}


@emits(md.lstm, md.gru, md.rnn)
def recurrent(sink: Sink, node: Node, inputs: list[str]) -> None:
    kind = next(k for k, found in LAYERS.items() if found.operation is node.operation)
    layer, given = LAYERS[kind], _operands(sink, node, inputs)
    x, w, r, b, *states = given[: 4 + layer.states]
    peepholes = given[4 + layer.states : -1]
    wanted = [x, *(_along(sink, v, 0) for v in (w, r)), _flat(sink, b), given[-1]]
    wanted += [_along(sink, state, 0) for state in states]
    wanted += [_flat(sink, p) for p in peepholes]
    while not wanted[-1]:
        wanted.pop()
    options = _attributes(node, layer.flag)
    k = sink.specs[node.output].shape[-1]
    found = sink.parts(kind, wanted, 1 + layer.states, hidden_size=k, **options)
    axis = sink.constant(np.array([1], np.int64))
    steps = sink.emit("Squeeze", [found[0], axis])
    sink.result("Concat", [steps, *found[1:]], axis=0)


def _operands(sink: Sink, node: Node, inputs: list[str]) -> list[str]:
    """Return the name of each operand in the file; empty if it is omitted."""
    left = iter(inputs)
    names = ["" if x is None else next(left) for x in node.inputs]
    lengths = node.inputs[-1]
    if lengths is not None and sink.specs[lengths].dtype is not ELEMENT_TYPES[INT32]:
        names[-1] = sink.emit("Cast", [names[-1]], to=element_code(md.int32))
    return names


def _along(sink: Sink, name: str, axis: int) -> str:
    """Write `name` with a new axis of size 1, the axis of directions."""
    at = sink.constant(np.array([axis], np.int64))
    return sink.emit("Unsqueeze", [name, at]) if name else ""


def _flat(sink: Sink, name: str) -> str:
    """Write the elements of `name` as one row, for the only direction."""
    shape = sink.constant(np.array([1, -1], np.int64))
    return sink.emit("Reshape", [name, shape]) if name else ""


def _attributes(node: Node, flag: tuple[str, str] | None) -> dict[str, Any]:
    """Return the attributes for the options of a node."""
    functions = [
        (entry,) if isinstance(entry, str) else tuple(entry)
        for entry in node.options["activations"]
    ]
    found: dict[str, Any] = {"activations": [NAMES[name][0] for name, *_ in functions]}
    for at, attribute in ((1, "activation_alpha"), (2, "activation_beta")):
        values = [
            float(entry[at]) if len(entry) > at else NAMES[entry[0]][at]
            for entry in functions
            if NAMES[entry[0]][at] is not None
        ]
        found |= {attribute: values} if values else {}
    if node.options.get("clip") is not None:
        found["clip"] = float(node.options["clip"])
    if flag and node.options.get(flag[1]):
        found[flag[0]] = 1
    return found
