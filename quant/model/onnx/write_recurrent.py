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
from mdtensor.quant.model.onnx.operators.recurrent import FUNCTIONS, LAYERS, Layer
from mdtensor.quant.model.onnx.write_operators import Sink, element_code, emits

#: The domain of ONNX Runtime's own operators.
MICROSOFT, VERSION = "com.microsoft", 1
#: The number of int32 in the file format, the type of lengths.
INT32 = 6
#: The functions of a file, by their name here.
NAMES = {ours: (theirs, *defaults) for theirs, (ours, *defaults) in FUNCTIONS.items()}


@emits(md.lstm, md.gru, md.rnn)
def recurrent(sink: Sink, node: Node, inputs: list[str]) -> None:
    kind = next(k for k, found in LAYERS.items() if found.operation is node.operation)
    layer, (x, w, r, *rest) = LAYERS[kind], _operands(sink, node, inputs)
    wanted = [x, *(_along(sink, v, 0) for v in (w, r)), *_others(sink, layer, rest)]
    while not wanted[-1]:
        wanted.pop()
    _layer(sink, node, kind, wanted, layer)


@emits(md.dynamic_lstm)
def dynamic_lstm(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write DynamicQuantizeLSTM, whose weights are [1, i, 4 * k]."""
    x, *weights = _operands(sink, node, inputs)
    w, w_scale, r, r_scale, *rest = weights
    columns = [sink.emit("Transpose", [v], perm=[1, 0]) for v in (w, r)]
    others = _others(sink, LAYERS["LSTM"], rest)
    # Peepholes may be left out, but scales follow them.
    others += [""] * (5 - len(others))
    zero = sink.constant(np.zeros(1, np.int8))
    grids = []
    for at, scale in ((2, w_scale), (4, r_scale)):
        is_one = sink.specs[node.inputs[at]].shape in ((), (1,))
        shape = np.array([1] if is_one else [1, -1], np.int64)
        grids += [sink.emit("Reshape", [scale, sink.constant(shape)])]
        wide = np.zeros((1, sink.specs[node.inputs[at - 1]].shape[0]), np.int8)
        grids += [zero if is_one else sink.constant(wide)]
    wanted = [x, *(_along(sink, v, 0) for v in columns), *others, *grids]
    kind, layer = "DynamicQuantizeLSTM", LAYERS["LSTM"]
    _layer(sink, node, kind, wanted, layer, domain=MICROSOFT)


def _others(sink: Sink, layer: Layer, given: list[str]) -> list[str]:
    """Return the inputs behind the weights, for biases, states, peepholes, lengths."""
    b, *states = given[: 1 + layer.states]
    peepholes, lengths = given[1 + layer.states : -1], given[-1]
    found = [_flat(sink, b), lengths, *(_along(sink, state, 0) for state in states)]
    return [*found, *(_flat(sink, p) for p in peepholes)]


def _layer(
    sink: Sink, node: Node, kind: str, wanted: list[str], layer: Layer, **more: Any
) -> None:
    """Write the operator of a layer, and join its results."""
    options = {**_attributes(node, layer.flag), **more}
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
