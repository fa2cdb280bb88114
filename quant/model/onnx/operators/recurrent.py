"""Readers of LSTM, GRU, RNN and ReverseSequence.

Each direction is one operation, which runs forward. A backward one runs on the reversed
sequence, and its result is reversed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads


@dataclass(frozen=True)
class Layer:
    """The operation that a recurrent operator becomes.

    Args:
        operation: its operation.
        gates: how many blocks of rows the weights have.
        states: how many states it has: a hidden state, maybe one of a cell.
        functions: its functions, by their default names.
        flag: the attribute and the option that are on or off.
    """

    operation: Any
    gates: int
    states: int
    functions: tuple[str, ...]
    flag: tuple[str, str] | None = None


LAYERS = {
    "LSTM": Layer(
        md.lstm, 4, 2, ("Sigmoid", "Tanh", "Tanh"), ("input_forget", "coupled")
    ),
    "GRU": Layer(
        md.gru, 3, 1, ("Sigmoid", "Tanh"), ("linear_before_reset", "reset_after")
    ),
    "RNN": Layer(md.rnn, 1, 1, ("Tanh",)),
}
#: Functions by their name in a file: the name here, and its default alpha and beta, or
#: None. The lists of the attributes contain only these.
FUNCTIONS: dict[str, tuple[str, float | None, float | None]] = {
    "Affine": ("affine", 1.0, 0.0),
    "Elu": ("elu", 1.0, None),
    "HardSigmoid": ("hardsigmoid", 0.2, 0.5),
    "LeakyRelu": ("leaky_relu", 0.01, None),
    "Relu": ("relu", None, None),
    "ScaledTanh": ("scaled_tanh", 1.0, 1.0),
    "Sigmoid": ("sigmoid", None, None),
    "Softplus": ("softplus", None, None),
    "Softsign": ("softsign", None, None),
    "Tanh": ("tanh", None, None),
    "ThresholdedRelu": ("thresholded_relu", 1.0, None),
}
# Names in files are of any case.
_LOWER = {name.lower(): found for name, found in FUNCTIONS.items()}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@reads(*LAYERS)
def recurrent(g: Builder, op: Operator) -> None:
    """Read LSTM, GRU or RNN."""
    read_layer(g, op, LAYERS[op.kind], (str(op.inputs[1]), str(op.inputs[2])))


def read_layer(
    g: Builder,
    op: Operator,
    layer: Layer,
    weights: tuple[str, str],
    scales: tuple[str, ...] = (),
) -> None:
    """Read recurrent layers with the weights called `weights`, and their scales."""
    op.require("direction", *DIRECTIONS)
    directions = DIRECTIONS[op.get("direction", "forward")]
    if not op.outputs[0]:
        # Without the result of all steps, which nothing reads then.
        op = replace(op, outputs=(g.fresh(f"{op.name}.y"), *op.outputs[1:]))
    is_batch_first = bool(op.get("layout", 0))
    x, functions = str(op.inputs[0]), _functions(op, layer, len(directions))
    _check_sizes(g, op, layer, weights, len(directions))
    if is_batch_first:
        x = g.step(op, "steps", md.permute_dims, x, axes=(1, 0, 2))
    lengths = _lengths(g, op, x)
    backward = _backward(g, op, x, lengths) if True in directions else None
    rows: list[list[str]] = [[] for _ in range(1 + layer.states)]
    for at, is_backward in enumerate(directions):
        turn = backward if backward and is_backward else _forward
        operands = _operands(g, op, layer, at, weights, is_batch_first)
        for place, scale in zip((1, 3), scales, strict=False):
            part = g.step(op, f"scale{place}_{at}", md.getitem, scale, key=(at,))
            operands.insert(place, part)
        options = _options(op, layer, functions[at])
        given = (turn(f"x{at}", x), *operands, lengths)
        states = g.step(op, f"states{at}", layer.operation, *given, **options)
        key = (slice(0, -layer.states),)
        rows[0].append(
            turn(f"y{at}", g.step(op, f"all{at}", md.getitem, states, key=key))
        )
        for state in range(layer.states):
            key = (slice(state - layer.states, state - layer.states + 1 or None),)
            row = g.step(op, f"last{at}", md.getitem, states, key=key)
            rows[1 + state].append(row)
    _results(g, op, rows, is_batch_first)


def _check_sizes(
    g: Builder, op: Operator, layer: Layer, weights: tuple[str, str], count: int
) -> None:
    """Require the directions and sizes that the attributes state.

    Raises:
        ModelError: the weights have other ones.
    """
    for name in (*weights, op.input(3), op.input(7) if layer.states == 2 else None):
        if name is not None and g.shape(name)[:1] != (count,):
            raise op.error(
                f"has direction={op.get('direction', 'forward')} and {name!r} of shape "
                f"{g.shape(name)}",
                f"Use one that starts with {count}",
            )
    units = g.shape(weights[1])[-1]
    if op.get("hidden_size", units) != units:
        raise op.error(
            f"has hidden_size={op.get('hidden_size')} and {weights[1]!r} of shape "
            f"{g.shape(weights[1])}",
            "Export it again",
        )


def _forward(stem: str, x: str) -> str:
    return x


def _backward(
    g: Builder, op: Operator, x: str, lengths: str | None
) -> Callable[[str, str], str]:
    """Return a function that reverses the steps of each sequence."""

    def flip(stem: str, x: str) -> str:
        return g.step(op, f"{stem}.turned", md.flip, x, axis=0)

    if lengths is None:
        return flip
    places = reversed_places(g, op, x, lengths, 0, 1)

    def turn(stem: str, x: str) -> str:
        return g.step(op, f"{stem}.turned", md.take_along_axis, x, places, axis=0)

    return turn


def reversed_places(
    g: Builder, op: Operator, x: str, lengths: str, time: int, batch: int
) -> str:
    """Return the indices that reverse the first `lengths` elements along an axis."""
    shape = g.shape(x)
    if shape[time] < 0:
        raise op.size_error("reverses an axis of dynamic size")
    g.reserve(op, shape[time])
    axes = range(len(shape))
    column = np.arange(shape[time]).reshape([-1 if i == time else 1 for i in axes])
    places = g.new_constant(op, "places", column)
    whole = g.step(op, "whole", md.astype, lengths, md.int64)
    sizes = tuple(shape[batch] if i == batch else 1 for i in axes)
    count = g.step(op, "lengths", md.reshape, whole, shape=sizes)
    last = g.step(op, "last", md.sub, g.step(op, "back", md.sub, count, places), 1)
    is_inside = g.step(op, "is_inside", md.less, places, count)
    return g.step(op, "at", md.where, is_inside, last, places)


def _lengths(g: Builder, op: Operator, x: str) -> str | None:
    """Return the lengths of the sequences; None if all are as long as x."""
    name = op.input(4)
    known = None if name is None else g.array(name)
    if known is not None and known.dtype != object and (known == g.shape(x)[0]).all():
        return None
    return name


def _operands(
    g: Builder,
    op: Operator,
    layer: Layer,
    at: int,
    weights: tuple[str, str],
    is_batch_first: bool,
) -> list[str | None]:
    """Return the weights, the biases, the states and the peepholes of a direction."""

    def part(stem: str, name: str | None) -> str | None:
        if name is None:
            return None
        return g.step(op, f"{stem}{at}", md.getitem, name, key=(at,))

    def rows(stem: str, name: str | None, count: int) -> str | None:
        found = part(stem, name)
        if found is None:
            return None
        (size,) = g.shape(found)
        require_count(op, range(size), size // count * count, stem)
        options: dict[str, Any] = {"shape": (count, size // count)}
        return g.step(op, f"{stem}_rows{at}", md.reshape, found, **options)

    def state(index: int) -> str | None:
        found = op.input(index)
        if found is not None and is_batch_first:
            axes = (1, 0, 2)
            found = g.step(op, f"first{index}", md.permute_dims, found, axes=axes)
        return part(f"start{index}_", found)

    given = [part("w", weights[0]), part("r", weights[1]), rows("b", op.input(3), 2)]
    given += [state(index) for index in range(5, 5 + layer.states)]
    return [*given, rows("p", op.input(7), 3)] if layer.states == 2 else given


def _options(op: Operator, layer: Layer, functions: Any) -> dict[str, Any]:
    """Return the options of the operation."""
    options: dict[str, Any] = {"activations": functions, "clip": op.get("clip")}
    if layer.flag:
        theirs, ours = layer.flag
        options[ours] = bool(op.get(theirs, 0))
    return options


def _functions(op: Operator, layer: Layer, directions: int) -> list[Any]:
    """Return the functions of each direction, with the factors of the attributes."""
    names: Sequence[str] = op.get("activations") or layer.functions * directions
    names = [n.decode() if isinstance(n, bytes) else n for n in names]
    require_count(op, names, len(layer.functions) * directions, "activations")
    # The lists contain a factor only for functions that have one, in their order.
    alphas, betas = (list(op.get(f"activation_{x}", ())) for x in ("alpha", "beta"))
    found: list[Any] = []
    for name in names:
        if name.lower() not in _LOWER:
            listed = ", ".join(FUNCTIONS)
            raise op.error(f"has the function {name!r}", f"Use one of {listed}")
        ours, *defaults = _LOWER[name.lower()]
        given = [
            0.0 if default is None else row.pop(0) if row else default
            for row, default in zip((alphas, betas), defaults, strict=True)
        ]
        found.append(ours if defaults == [None, None] else (ours, *given))
    count = len(layer.functions)
    return [tuple(found[at : at + count]) for at in range(0, len(found), count)]


def _results(
    g: Builder, op: Operator, rows: list[list[str]], is_batch_first: bool
) -> None:
    """Join the directions: [t, d, n, k] of all steps, and [d, n, k] of each state."""
    parts = [g.step(op, "direction", md.expand_dims, y, axis=1) for y in rows[0]]
    if is_batch_first:
        joined = g.step(op, "joined", md.concat, *parts, axis=1)
        g.call(op, md.permute_dims, joined, axes=(2, 0, 1, 3))
    else:
        g.call(op, md.concat, *parts, axis=1)
    for index, row in enumerate(rows[1:], 1):
        if not is_batch_first:
            g.call_output(op, index, md.concat, *row, axis=0)
            continue
        joined = g.step(op, f"state{index}", md.concat, *row, axis=0)
        g.call_output(op, index, md.permute_dims, joined, axes=(1, 0, 2))


@reads("ReverseSequence")
def reverse_sequence(g: Builder, op: Operator) -> None:
    """Read ReverseSequence: reverse the first elements of each sequence."""
    time, batch = op.get("time_axis", 0), op.get("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise op.error(f"has time_axis={time} and batch_axis={batch}", "Use 0 and 1")
    x, lengths = str(op.inputs[0]), str(op.inputs[1])
    places = reversed_places(g, op, x, lengths, time, batch)
    g.call(op, md.take_along_axis, x, places, axis=time)
