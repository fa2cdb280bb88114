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
def lstm_f32(gates, part, holes, functions, factors, is_coupled, cell, hidden):
    """Set cell and hidden to their values after a step.

    Args:
        gates: float32 [4k], the products of the state: i, o, f and g; written.
        part: float32 [4k], what is added to them.
        holes: float32 [3k], peepholes of i, o and f; or empty for none.
        functions: int64 [3], of the gates, of g and of the cell's state.
        factors: float32 [7], the limit, then alpha and beta of each function.
        is_coupled: f = 1 - i.
        cell, hidden: float32 [k], written; they must not alias the others.
    """
    k = np.uintp(len(cell))
    limit, a, b = factors[0], factors[1], factors[2]
    add_f32(gates, part)
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
def gru_gates_f32(gates, part, functions, factors):
    """Set the gates z and s, float32 [2k], to the results of their function."""
    add_f32(gates, part)
    apply(functions[0], factors[1], factors[2], factors[0], gates)


@kernel
def gru_f32(z, new, part, functions, factors, hidden):
    """Set hidden to its value after a step.

    Args:
        z: float32 [k], the update gate.
        new: float32 [k], the products of the state; written.
        part: float32 [k], what is added to them.
        functions, factors: as for `lstm_f32`, of the gates and of the new state.
        hidden: float32 [k], written.
    """
    add_f32(new, part)
    apply(functions[1], factors[3], factors[4], factors[0], new)
    for j in range(np.uintp(len(hidden))):
        kept = np.float32(z[j] * hidden[j])
        hidden[j] = np.float32(np.float32(np.float32(ONE - z[j]) * new[j]) + kept)


@kernel
def rnn_f32(sums, part, functions, factors, hidden):
    """Set hidden, float32 [k], to the function of sums + part."""
    add_f32(sums, part)
    apply(functions[0], factors[1], factors[2], factors[0], sums)
    copy_row(sums, hidden)
