"""Recurrent layers of host arrays: a loop over the steps of a sequence.

The product of all steps with the weights is one product; only the products with the
state are part of the loop. Narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.matmul import round_to
from mdtensor.kernels.numpy.ufunc import compute_dtype, run_and_round

Array = npt.NDArray[Any]
DType = np.dtype[Any]
#: What multiplies rows [n, i] by a matrix [rows, i]: [n, rows].
Times = Callable[[Array], Array]
#: The name of a function, with its alpha and beta.
Named = tuple[str, float, float]
InPlace = Callable[[Array], None]


def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    h: Array | None,
    c: Array | None,
    p: Array | None,
    lengths: Array | None,
    activations: Sequence[Named],
    clip: float | None,
    coupled: bool,
    dtype: DType,
) -> Array:
    """Compute the states of an LSTM after each step, see `mdtensor.lstm`.

    Args:
        x: [t, n, i].
        w, r: [4k, i] and [4k, k], rows i, o, f and cell.
        b: [2, 4k].
        h, c: [n, k].
        p: [3, k], for i, o and f.
        lengths: [n], each from 0 to t.
        activations: of the gates, the cell and its state.
        clip: limit of the arguments of the first two functions.
        coupled: f = 1 - i.
        dtype: of the result.

    Returns:
        [t + 2, n, k], hidden states, the last one, the last state of the cell.
    """
    given = _widened(dtype, x, w, r, b, h, c, p)
    functions = _functions(activations[:2], clip) + _functions(activations[2:], None)
    return run_and_round(_lstm, dtype, *given, lengths, functions, coupled)


def lstm_of_products(
    x: Array,
    w: Times,
    r: Times,
    b: Array | None,
    h: Array,
    c: Array | None,
    p: Array | None,
    lengths: Array | None,
    activations: Sequence[Named],
    clip: float | None,
    coupled: bool,
) -> Array:
    """Compute the states of a float32 LSTM whose products are functions.

    Args:
        w, r: give the products of all inputs, and of a state.
        x, b, h, c, p, lengths, activations, clip, coupled: as for `lstm`.
    """
    functions = _functions(activations[:2], clip) + _functions(activations[2:], None)
    return run_and_round(
        _lstm, x.dtype, x, w, r, b, h, c, p, lengths, functions, coupled
    )


def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    h: Array | None,
    lengths: Array | None,
    activations: Sequence[Named],
    clip: float | None,
    reset_after: bool,
    dtype: DType,
) -> Array:
    """Compute the state of a GRU after each step, see `mdtensor.gru`.

    Args are as for `lstm`, with rows z, s and new state. The result is [t + 1, n, k].
    """
    given = _widened(dtype, x, w, r, b, h)
    functions = _functions(activations, clip)
    return run_and_round(_gru, dtype, *given, lengths, functions, reset_after)


def gru_of_products(
    x: Array,
    w: Times,
    r: Times,
    b: Array | None,
    h: Array,
    lengths: Array | None,
    activations: Sequence[Named],
    clip: float | None,
    reset_after: bool,
) -> Array:
    """Compute the states of a float32 GRU, as `lstm_of_products` does those of an LSTM.

    A call of r gives the products of all rows.
    """
    functions = _functions(activations, clip)
    return run_and_round(_gru, x.dtype, x, w, r, b, h, lengths, functions, reset_after)


def rnn(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    h: Array | None,
    lengths: Array | None,
    activations: Sequence[Named],
    clip: float | None,
    dtype: DType,
) -> Array:
    """Compute the state of a plain layer after each step, see `mdtensor.rnn`.

    Args are as for `lstm`. The result is [t + 1, n, k].
    """
    given = _widened(dtype, x, w, r, b, h)
    return run_and_round(_rnn, dtype, *given, lengths, _functions(activations, clip))


def rnn_of_products(
    x: Array,
    w: Times,
    r: Times,
    b: Array | None,
    h: Array,
    lengths: Array | None,
    activations: Sequence[Named],
    clip: float | None,
) -> Array:
    """Compute the states of a float32 plain layer, as `lstm_of_products` does."""
    functions = _functions(activations, clip)
    return run_and_round(_rnn, x.dtype, x, w, r, b, h, lengths, functions)


def is_outside(lengths: Array, steps: int) -> bool:
    """Return whether a length is below 0 or above `steps`."""
    return bool(lengths.size) and not 0 <= lengths.min() <= lengths.max() <= steps


def _widened(dtype: DType, *arrays: Array | None) -> list[Array | None]:
    """Convert the arrays to the type that computes `dtype`."""
    wide = compute_dtype(dtype)
    return [None if x is None else round_to(x, wide) for x in arrays]


def _lstm(
    x: Array,
    w: Array | Times,
    r: Array | Times,
    b: Array | None,
    h: Array | None,
    c: Array | None,
    p: Array | None,
    lengths: Array | None,
    functions: Sequence[InPlace],
    coupled: bool,
) -> Array:
    step = partial(_lstm_step, p=p, functions=functions, coupled=coupled)
    hidden = _start(x, 0 if callable(r) else r.shape[1], h)
    cell, times = _start(x, hidden.shape[1], c), _times(r)
    parts = _products(x, w, None if b is None else b[0] + b[1])
    out = np.empty((len(x) + 2, *hidden.shape), x.dtype)
    for t, part in enumerate(parts):
        states = step(times(hidden), part, cell)
        out[t], (hidden, cell) = _advance(t, lengths, states, (hidden, cell))
    out[-2], out[-1] = hidden, cell
    return out


def _lstm_step(
    product: Array,
    part: Array,
    cell: Array,
    p: Array | None,
    functions: Sequence[InPlace],
    coupled: bool,
) -> tuple[Array, Array]:
    """Return the new hidden state and cell.

    The arguments of the gates are the product of the state plus a part of the product
    of x.
    """
    gate, candidate, state = functions
    k = cell.shape[1]
    at = 3 * k
    # Sums of their own are contiguous, which exp and tanh need to be fast.
    gates, new = product[:, :at] + part[:, :at], product[:, at:] + part[:, at:]
    i, o, f = (gates[:, j * k : j * k + k] for j in range(3))
    if p is None:
        gate(gates)
    else:
        i += p[0] * cell
        f += p[2] * cell
        gate(i)
        gate(f)
    candidate(new)
    cell = (1 - i if coupled else f) * cell
    new *= i
    cell += new
    if p is not None:
        o += p[1] * cell
        gate(o)
    hidden = cell.copy()
    state(hidden)
    hidden *= o
    return hidden, cell


def _gru(
    x: Array,
    w: Array | Times,
    r: Array | Times,
    b: Array | None,
    h: Array | None,
    lengths: Array | None,
    functions: Sequence[InPlace],
    reset_after: bool,
) -> Array:
    gate, candidate = functions
    hidden = _start(x, 0 if callable(r) else r.shape[1], h)
    k = hidden.shape[1]
    width = 3 * k if reset_after else 2 * k
    gates_of, new_of = _times(r, 0, width), _times(r, 2 * k, 3 * k)
    after = np.zeros(k, x.dtype)
    if b is not None and reset_after:
        after = b[1, 2 * k :]
        b = np.stack([b[0], np.concatenate([b[1, : 2 * k], np.zeros_like(after)])])
    parts = _products(x, w, None if b is None else b[0] + b[1])
    out = np.empty((len(x) + 1, *hidden.shape), x.dtype)
    for t, part in enumerate(parts):
        gates = gates_of(hidden)
        new = gates[:, 2 * k :] + after if reset_after else None
        gates = gates[:, : 2 * k] + part[:, : 2 * k]
        gate(gates)
        z, s = gates[:, :k], gates[:, k:]
        new = s * new if reset_after else new_of(s * hidden)
        new += part[:, 2 * k :]
        candidate(new)
        state = (1 - z) * new + z * hidden
        out[t], (hidden,) = _advance(t, lengths, (state,), (hidden,))
    out[-1] = hidden
    return out


def _rnn(
    x: Array,
    w: Array | Times,
    r: Array | Times,
    b: Array | None,
    h: Array | None,
    lengths: Array | None,
    functions: Sequence[InPlace],
) -> Array:
    (function,) = functions
    hidden, times = _start(x, 0 if callable(r) else r.shape[1], h), _times(r)
    parts = _products(x, w, None if b is None else b[0] + b[1])
    out = np.empty((len(x) + 1, *hidden.shape), x.dtype)
    for t, part in enumerate(parts):
        state = times(hidden)
        state += part
        function(state)
        out[t], (hidden,) = _advance(t, lengths, (state,), (hidden,))
    out[-1] = hidden
    return out


def _start(x: Array, k: int, state: Array | None) -> Array:
    """Return the state before the first step."""
    return np.zeros((x.shape[1], k), x.dtype) if state is None else state


def _times(w: Array | Times, first: int = 0, end: int | None = None) -> Times:
    """Return what multiplies by rows `first` to `end` of w."""
    if not callable(w):
        return partial(_rows_times, w[first:end])
    return w if end is None else lambda x: w(x)[:, first:end]


def _rows_times(w: Array, x: Array) -> Array:
    product: Array = np.matmul(x, w.T)
    return product


def _products(x: Array, w: Array | Times, b: Array | None) -> Array:
    """Compute x · wᵀ + b for all steps at once, [t, n, rows]."""
    t, n, i = x.shape
    flat = _times(w)(x.reshape(t * n, i))
    if b is not None:
        flat += b
    return flat.reshape(t, n, flat.shape[1])


def _advance(
    t: int,
    lengths: Array | None,
    new: tuple[Array, ...],
    old: tuple[Array, ...],
) -> tuple[Array, tuple[Array, ...]]:
    """Return the row of step `t` and the states after it.

    The sequences that have ended keep their states, and their row is 0.
    """
    if lengths is None:
        return new[0], new
    goes_on = (t < lengths)[:, None]
    row = np.where(goes_on, new[0], 0)
    pairs = zip(new, old, strict=True)
    return row, tuple(np.where(goes_on, one, other) for one, other in pairs)


# Functions of gates and states, which change their argument in place.


def _functions(activations: Sequence[Named], clip: float | None) -> list[InPlace]:
    """Return activations that work in place; with `clip`, they clip arguments first."""
    found = [partial(_BY_NAME[name], alpha=a, beta=b) for name, a, b in activations]
    if clip is None:
        return list(found)
    return [partial(_limited, limit=clip, function=function) for function in found]


def _limited(x: Array, limit: float, function: InPlace) -> None:
    np.clip(x, -limit, limit, out=x)
    function(x)


def _affine(x: Array, alpha: float, beta: float) -> None:
    x *= alpha
    x += beta


def _elu(x: Array, alpha: float, beta: float) -> None:
    np.copyto(x, alpha * np.expm1(np.minimum(x, 0)), where=x < 0)


def _hardsigmoid(x: Array, alpha: float, beta: float) -> None:
    _affine(x, alpha, beta)
    np.clip(x, 0, 1, out=x)


def _leaky_relu(x: Array, alpha: float, beta: float) -> None:
    np.copyto(x, alpha * x, where=x < 0)


def _relu(x: Array, alpha: float, beta: float) -> None:
    np.maximum(x, 0, out=x)


def _scaled_tanh(x: Array, alpha: float, beta: float) -> None:
    x *= beta
    np.tanh(x, out=x)
    x *= alpha


def _sigmoid(x: Array, alpha: float, beta: float) -> None:
    # Not `negative`: NumPy 2.4 confuses elements of strided views that it writes to.
    x *= -1
    np.exp(x, out=x)
    x += 1
    np.divide(1, x, out=x)


def _softplus(x: Array, alpha: float, beta: float) -> None:
    np.logaddexp(x, 0, out=x)


def _softsign(x: Array, alpha: float, beta: float) -> None:
    x /= 1 + np.abs(x)


def _tanh(x: Array, alpha: float, beta: float) -> None:
    np.tanh(x, out=x)


def _thresholded_relu(x: Array, alpha: float, beta: float) -> None:
    np.copyto(x, 0, where=x <= alpha)


_BY_NAME: dict[str, Callable[..., None]] = {
    "affine": _affine,
    "elu": _elu,
    "hardsigmoid": _hardsigmoid,
    "leaky_relu": _leaky_relu,
    "relu": _relu,
    "scaled_tanh": _scaled_tanh,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "softsign": _softsign,
    "tanh": _tanh,
    "thresholded_relu": _thresholded_relu,
}
