"""Recurrent layers on devices: a loop over the steps of a sequence, of other calls.

The products of all steps with the weights are one product; only the products with the
state are part of the loop. Narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.errors import BoundsError, describe
from mdtensor.generics import (
    activation,
    arithmetic,
    comparison,
    manipulation,
    math,
    recurrent,
    sorting,
)
from mdtensor.generics.matmul import linear
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import apply, cast
from mdtensor.rendered.composed import rounded, widened
from mdtensor.rendered.launches import (
    FLOATS,
    INTEGERS,
    Operands,
    count_true,
    types_of,
)
from mdtensor.rendered.methods import add
from mdtensor.rendered.movement import filled
from mdtensor.tensor import Tensor

add_, mul, sub, tanh = arithmetic.add, arithmetic.mul, arithmetic.sub, math.tanh
Function = Callable[[Any], Any]
#: Functions of states, with alpha and beta.
FUNCTIONS: dict[str, Callable[[Any, float, float], Any]] = {
    "affine": lambda x, a, b: add_(mul(x, a), b),
    "elu": lambda x, a, b: activation.elu(x, alpha=a),
    "hardsigmoid": lambda x, a, b: activation.hardsigmoid(x, alpha=a, beta=b),
    "leaky_relu": lambda x, a, b: activation.leaky_relu(x, negative_slope=a),
    "relu": lambda x, a, b: activation.relu(x),
    "scaled_tanh": lambda x, a, b: mul(tanh(mul(x, b)), a),
    "sigmoid": lambda x, a, b: activation.sigmoid(x),
    "softplus": lambda x, a, b: activation.softplus(x),
    "softsign": lambda x, a, b: activation.softsign(x),
    "tanh": lambda x, a, b: tanh(x),
    "thresholded_relu": lambda x, a, b: sorting.where(comparison.greater(x, a), x, 0),
}


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    one: Any = Union[types_of(device, FLOATS)]
    state: Any = Union[one, None]
    lengths: Any = Union[(*types_of(device, INTEGERS), type(None))]
    add(recurrent.lstm, (one, one, one, *[state] * 4, lengths), _lstm)
    add(recurrent.gru, (one, one, one, state, state, lengths), _gru)
    add(recurrent.rnn, (one, one, one, state, state, lengths), _rnn)


class _Layer(NamedTuple):
    """A layer while its steps are computed.

    Args:
        spec: of the result.
        parts: the products of all steps with the weights, and their biases.
        state: the first hidden state.
        lengths: the steps of each sample as [n, 1]; None for all.
    """

    spec: Any
    parts: Any
    state: Any
    lengths: Any

    def run(self, step: Callable[..., tuple[Any, ...]], *others: Any) -> Any:
        """Return the tensor of the spec: hidden states, and the last state of each.

        Args:
            step: gives the states behind a step from its products and states.
            others: states besides the hidden one.
        """
        states, found = (self.state, *others), list[Any]()
        for t in range(self.parts.shape[0]):
            new = step(self.parts[t], *states)
            hidden = new[0]
            if self.lengths is not None:
                is_live = comparison.greater(self.lengths, t)
                hidden = sorting.where(is_live, hidden, 0)
                pairs = zip(new, states, strict=True)
                new = tuple(sorting.where(is_live, a, b) for a, b in pairs)
            states = new
            found.append(hidden)
        return rounded(manipulation.stack([*found, *states]), self.spec.dtype)


def _layer(
    spec: Any, name: str, given: tuple[Any, ...], bias: Any, lengths: Any
) -> _Layer:
    """Return a layer of inputs, weights and a first state, all widened."""
    x, w, h = given
    steps = spec.shape[0] - (2 if name == "lstm" else 1)
    if lengths is not None:
        _require_inside(name, x, lengths, steps)
        lengths = manipulation.reshape(lengths, (-1, 1))
    state = _zeros(x, spec.shape[1:]) if h is None else h
    return _Layer(spec, linear(x, w, bias), state, lengths)


def _zeros(x: Tensor, shape: tuple[int, ...]) -> Any:
    return x.wrap(filled(x.device, shape, np.zeros((), x.dtype.storage)))


def _require_inside(name: str, x: Tensor, lengths: Tensor, steps: int) -> None:
    """Raise if a length is outside of the sequence. Waits for the device."""
    operands = Operands(name, (x, lengths))
    length, zero = operands.tensor(lengths), cast(ir.number(0, "int8"), "int64")
    most = operands.array(np.array(steps, np.int64))
    is_below = apply("less", cast(length, "int64"), zero)
    is_above = ir.compare("less", most, length)
    if count_true(operands, apply("bit_or", is_below, is_above), x.device):
        raise BoundsError(
            f"a length is outside of 0 to {steps}, the steps of x",
            "Use the number of steps of each sample",
            describe(name, x, lengths),
        )


def _wide(spec: Any, *given: Any) -> list[Any]:
    """Return tensors in the type that computes the result, None as it is."""
    return [None if x is None else widened(x, spec.dtype.name) for x in given]


def _functions(activations: Any, clip: Any, count: int) -> list[Function]:
    """Return functions whose arguments are limited."""
    return [
        partial(_limited, FUNCTIONS[name], clip, alpha, beta)
        for name, alpha, beta in recurrent.functions_of(activations, count)
    ]


def _limited(function: Any, clip: Any, alpha: float, beta: float, x: Any) -> Any:
    if clip is not None:
        x = arithmetic.clip(x, -clip, clip)
    return function(x, alpha, beta)


def _rows(x: Any, *parts: int) -> list[Any]:
    """Return parts of the columns [n, gates * k], each as wide as a state."""
    width = x.shape[1] // (max(parts) + 1)
    return [x[:, at * width : (at + 1) * width] for at in parts]


def _cut(x: Any, at: int) -> tuple[Any, Any]:
    """Return the rows before a place and from it on; None twice for None."""
    return (None, None) if x is None else (x[:at], x[at:])


def _sum_of(b: Any) -> Any:
    return None if b is None else add_(b[0], b[1])


def _lstm(
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    h: Any,
    c: Any,
    p: Any,
    lengths: Any,
    /,
    *,
    activations: Any,
    clip: Any,
    coupled: bool,
) -> Any:
    options = {"activations": activations, "clip": clip, "coupled": coupled}
    spec = infer(recurrent.lstm, x, w, r, b, h, c, p, lengths, **options)
    x, w, r, b, h, c, p = _wide(spec, x, w, r, b, h, c, p)
    # The function of the cell's state has no limit.
    gate, new, _ = _functions(activations, clip, 3)
    state = _functions(activations, None, 3)[2]

    def through(hole: int, gates: Any, cell: Any) -> Any:
        return gate(gates if p is None else add_(gates, mul(p[hole], cell)))

    def step(part: Any, hidden: Any, cell: Any) -> tuple[Any, Any]:
        i, o, f, g = _rows(add_(part, linear(hidden, r)), 0, 1, 2, 3)
        i = through(0, i, cell)
        f = sub(1, i) if coupled else through(2, f, cell)
        cell = add_(mul(f, cell), mul(i, new(g)))
        return mul(through(1, o, cell), state(cell)), cell

    layer = _layer(spec, "lstm", (x, w, h), _sum_of(b), lengths)
    return layer.run(step, _zeros(x, spec.shape[1:]) if c is None else c)


def _gru(
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    h: Any,
    lengths: Any,
    /,
    *,
    activations: Any,
    clip: Any,
    reset_after: bool,
) -> Any:
    options = {"activations": activations, "clip": clip, "reset_after": reset_after}
    spec = infer(recurrent.gru, x, w, r, b, h, lengths, **options)
    x, w, r, b, h = _wide(spec, x, w, r, b, h)
    gate, new = _functions(activations, clip, 2)
    k = r.shape[1]
    gates, last = _cut(r, 2 * k)
    left, right = (None, None) if b is None else (b[0], b[1])
    first, after = _cut(right, 2 * k)

    def step(part: Any, hidden: Any) -> tuple[Any]:
        z, s, g = _rows(part, 0, 1, 2)
        back = linear(hidden, gates, first)
        z, s = (
            gate(add_(a, d)) for a, d in zip((z, s), _rows(back, 0, 1), strict=True)
        )
        if reset_after:
            back = mul(s, linear(hidden, last, after))
        else:
            back = linear(mul(s, hidden), last, after)
        found = new(add_(g, back))
        return (add_(mul(sub(1, z), found), mul(z, hidden)),)

    return _layer(spec, "gru", (x, w, h), left, lengths).run(step)


def _rnn(
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    h: Any,
    lengths: Any,
    /,
    *,
    activations: Any,
    clip: Any,
) -> Any:
    options = {"activations": activations, "clip": clip}
    spec = infer(recurrent.rnn, x, w, r, b, h, lengths, **options)
    x, w, r, b, h = _wide(spec, x, w, r, b, h)
    (function,) = _functions(activations, clip, 1)

    def step(part: Any, hidden: Any) -> tuple[Any]:
        return (function(add_(part, linear(hidden, r))),)

    return _layer(spec, "rnn", (x, w, h), _sum_of(b), lengths).run(step)
