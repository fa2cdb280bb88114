"""One step of a recurrent layer for one sample, on float32.

    LSTM  c' = f · c + i · g,  h' = o · q(c')
    GRU   h' = (1 - z) · g + z · h
    RNN   h' = g

Gates come in as sums; they become results of their functions in place. Every operation
rounds once, in the order of `kernels/numpy/recurrent.py`, so the bytes are the same on
every ISA. NaN and infinities are as in IEEE 754.

Source: ONNX operators LSTM, GRU and RNN.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ONE, ZERO, clamp
from mdtensor.kernels.cpu.generic.float_functions import INFINITY, sigmoid, tanh
from mdtensor.kernels.cpu.jit import kernel

#: Functions of gates and states.
SIGMOID, TANH, RELU, HARDSIGMOID = range(4)


@kernel
def apply(function, alpha, beta, limit, x):
    """Set x to f(x), where x is limited to -limit to limit first.

    Args:
        function: SIGMOID, TANH, RELU, or HARDSIGMOID of alpha and beta.
        limit: float32; infinity for none.
        x: float32 1-D, written.
    """
    count = np.uintp(len(x))
    if limit < INFINITY:
        for j in range(count):
            x[j] = clamp(x[j], -limit, limit)
    if function == SIGMOID:
        for j in range(count):
            x[j] = sigmoid(x[j])
    elif function == TANH:
        for j in range(count):
            x[j] = tanh(x[j])
    elif function == RELU:
        for j in range(count):
            x[j] = ZERO if x[j] <= ZERO else x[j]
    else:
        for j in range(count):
            x[j] = clamp(np.float32(np.float32(x[j] * alpha) + beta), ZERO, ONE)


# A slice assignment could raise with a text, which a library without Python cannot.
@kernel
def copy_row(x, row):
    """Set row = x."""
    for j in range(np.uintp(len(row))):
        row[j] = x[j]


@kernel
def clear(row):
    """Set a row to zeros."""
    for j in range(np.uintp(len(row))):
        row[j] = ZERO


@kernel
def add_f32(x, y):
    """Set x = x + y."""
    for j in range(np.uintp(len(x))):
        x[j] = np.float32(x[j] + y[j])


@kernel
def add_products_f32(x, y, z):
    """Set x = x + y · z; the product rounds, too."""
    for j in range(np.uintp(len(x))):
        x[j] = np.float32(x[j] + np.float32(y[j] * z[j]))


@kernel
def is_usual(functions, factors, second):
    """Return whether functions are a sigmoid, then tanh, and have no limit."""
    is_first = functions[0] == SIGMOID and not factors[0] < INFINITY
    return is_first and functions[1] == TANH and functions[second] == TANH


# One loop over all gates takes two thirds of the time of a loop for each
# (decision 0113).
@kernel
def usual_lstm_f32(gates, cell, hidden):
    """Set cell and hidden as `lstm_f32` does, for the usual functions alone."""
    k = np.uintp(len(cell))
    i, o = gates[:k], gates[k : k + k]
    f, g = gates[k + k : k + k + k], gates[k + k + k :]
    for j in range(k):
        kept = np.float32(sigmoid(f[j]) * cell[j])
        cell[j] = np.float32(kept + np.float32(sigmoid(i[j]) * tanh(g[j])))
    for j in range(k):
        hidden[j] = np.float32(tanh(cell[j]) * sigmoid(o[j]))


@kernel
def lstm_f32(gates, holes, functions, factors, is_coupled, cell, hidden):
    """Set cell and hidden to their values after a step.

    Args:
        gates: float32 [4k], the sums of i, o, f and g; written.
        holes: float32 [3k], peepholes of i, o and f; or empty for none.
        functions: int64 [3], of the gates, of g and of the cell's state.
        factors: float32 [7], the limit, then alpha and beta of each function.
        is_coupled: f = 1 - i.
        cell, hidden: float32 [k], written; they must not alias the others.
    """
    k = np.uintp(len(cell))
    limit, a, b = factors[0], factors[1], factors[2]
    if len(holes) == 0 and not is_coupled and is_usual(functions, factors, 2):
        usual_lstm_f32(gates, cell, hidden)
        return
    i, o = gates[:k], gates[k : k + k]
    f, g = gates[k + k : k + k + k], gates[k + k + k :]
    if len(holes) > 0:
        add_products_f32(i, holes[:k], cell)
        add_products_f32(f, holes[k + k :], cell)
        apply(functions[0], a, b, limit, i)
        apply(functions[0], a, b, limit, f)
    else:
        apply(functions[0], a, b, limit, gates[: k + k + k])
    apply(functions[1], factors[3], factors[4], limit, g)
    if is_coupled:
        for j in range(k):
            f[j] = np.float32(ONE - i[j])
    for j in range(k):
        kept = np.float32(f[j] * cell[j])
        cell[j] = np.float32(kept + np.float32(i[j] * g[j]))
    if len(holes) > 0:
        add_products_f32(o, holes[k : k + k], cell)
        apply(functions[0], a, b, limit, o)
    copy_row(cell, hidden)
    apply(functions[2], factors[5], factors[6], INFINITY, hidden)
    for j in range(k):
        hidden[j] = np.float32(hidden[j] * o[j])


@kernel
def reset_f32(sums, functions, factors, hidden, reset):
    """Set reset = s · hidden for the sums of the reset gate, which become s.

    Args: sums, hidden, reset: float32 [k].
    """
    apply(functions[0], factors[1], factors[2], factors[0], sums)
    for j in range(np.uintp(len(reset))):
        reset[j] = np.float32(sums[j] * hidden[j])


@kernel
def usual_gru_f32(gates, new, part, after, hidden):
    """Set hidden as `gru_f32` does, for the usual functions."""
    k = np.uintp(len(hidden))
    z, s = gates[:k], gates[k:]
    if after:
        for j in range(k):
            new[j] = np.float32(np.float32(sigmoid(s[j]) * new[j]) + part[j])
    for j in range(k):
        share = sigmoid(z[j])
        kept = np.float32(share * hidden[j])
        mine = np.float32(np.float32(ONE - share) * tanh(new[j]))
        hidden[j] = np.float32(mine + kept)


@kernel
def gru_f32(gates, new, part, functions, factors, after, hidden):
    """Set hidden to its value after a step.

    Args:
        gates: float32 [2k], the sums of the update gate z and of the reset gate s;
            written.
        new: float32 [k], the sums of the new state; written.
        part: float32 [k], what is added to s · new if the reset is after the product.
        functions, factors: as for `lstm_f32`, of the gates and of the new state.
        after: whether the reset is after the product.
        hidden: float32 [k], written.
    """
    k = np.uintp(len(hidden))
    if is_usual(functions, factors, 1):
        usual_gru_f32(gates, new, part, after, hidden)
        return
    z, s = gates[:k], gates[k:]
    apply(functions[0], factors[1], factors[2], factors[0], z)
    if after:
        apply(functions[0], factors[1], factors[2], factors[0], s)
        for j in range(k):
            new[j] = np.float32(np.float32(s[j] * new[j]) + part[j])
    apply(functions[1], factors[3], factors[4], factors[0], new)
    for j in range(k):
        kept = np.float32(z[j] * hidden[j])
        hidden[j] = np.float32(np.float32(np.float32(ONE - z[j]) * new[j]) + kept)


@kernel
def rnn_f32(sums, functions, factors, hidden):
    """Set hidden, float32 [k], to the function of sums."""
    apply(functions[0], factors[1], factors[2], factors[0], sums)
    copy_row(sums, hidden)
