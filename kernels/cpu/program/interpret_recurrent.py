"""Functions that run one recurrent layer on float32, step by step of its sequence.

x has the products of all steps with the weights, [t, n, gates * k]. y has the states
before the first step, [states, n, k], if the header says so; otherwise the constants
have them. The scratch holds the states, then the products of a step; then, if the
weights of an LSTM's state are codes, what `interpret_dynamic` says.
"""

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.activation import KEEP, ZERO
from mdtensor.kernels.cpu.generic.recurrent import (
    clear,
    copy_row,
    gru_f32,
    gru_gates_f32,
    lstm_f32,
    rnn_f32,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.interpret_dynamic import multiply_floats
from mdtensor.kernels.cpu.program.interpret_floats import floats_at
from mdtensor.kernels.cpu.program.kinds import ALIGN, ITEM

gemm_act_f32 = kernel_set.compiled(kernel_set.HOST.name).gemm_act_f32

#: Places in the header of a layer; its lengths follow.
FLAG, HAS_LENGTHS, HAS_HOLES, READS_STATES, FUNCTIONS, LENGTHS = 0, 1, 2, 3, 4, 8
#: The place behind the functions of an LSTM: whether it multiplies codes of the state.
HAS_CODES = 7
#: Numbers of a layer: the limit, then two factors of each function.
FACTORS = 7


@kernel
def header_of(step, constants):
    """Return the header of a layer, int64, followed by the lengths."""
    size = (LENGTHS + step.images) * 8
    return constants[np.uintp(step.operands) :][: np.uintp(size)].view(np.int64)


# The order of the sums is the order of every product (decision 0066).
@kernel
def multiply_states(step, states, place, bias, columns, out, constants):
    """Set out[n, columns] = states · weights + bias, from places of the constants."""
    k, n, padded = step.columns, step.images, -(-columns // 16) * 16
    gemm_act_f32(
        *(states, k, n, k, floats_at(constants[np.uintp(place) :], 0, k * padded)),
        *(columns, floats_at(constants[np.uintp(bias) :], 0, padded)),
        *(states[:0], KEEP, ZERO, ZERO, out, columns),
    )


@kernel
def begin(step, count, y, scratch, constants):
    """Copy the first states into the scratch; return them."""
    size = count * step.images * step.columns
    states = floats_at(scratch, 0, size)
    if header_of(step, constants)[READS_STATES] != 0:
        copy_row(floats_at(y, 0, size), states)
    else:
        copy_row(floats_at(constants[np.uintp(step.offsets) :], 0, size), states)
    return states


@kernel
def goes_on(header, sample, t):
    """Return whether a sample has a step t."""
    return header[HAS_LENGTHS] == 0 or t < header[LENGTHS + sample]


@kernel
def padded_lstm_states(n, k):
    """Return the bytes of the states and gates of an LSTM, a multiple of ALIGN."""
    return -(-6 * n * k * ITEM // ALIGN) * ALIGN


@kernel
def run_lstm(steps, i, x, y, out, scratch, constants):
    """Run an LSTM; the result ends with the last states of h and c."""
    step = steps[i]
    k, n, header = step.columns, step.images, header_of(step, constants)
    functions = header[FUNCTIONS:HAS_CODES]
    factors = floats_at(constants[np.uintp(step.numbers) :], 0, FACTORS)
    size = 3 * k if header[HAS_HOLES] != 0 else 0
    rest = scratch[np.uintp(padded_lstm_states(n, k)) :]
    holes = floats_at(constants[np.uintp(step.limbs) :], 0, size)
    states = begin(step, 2, y, scratch, constants)
    hidden, gates = states[: n * k], floats_at(scratch, 2 * n * k, 4 * n * k)
    for t in range(step.rows):
        if header[HAS_CODES] != 0:
            multiply_floats(step, hidden, n, 4 * k, factors[:0], gates, rest, constants)
        else:
            place, bias = step.weights, step.bias
            multiply_states(step, hidden, place, bias, 4 * k, gates, constants)
        for s in range(n):
            row = floats_at(out, (t * n + s) * k, k)
            if not goes_on(header, s, t):
                clear(row)
                continue
            h = floats_at(scratch, s * k, k)
            lstm_f32(
                *(floats_at(scratch, (2 * n + 4 * s) * k, 4 * k),),
                *(floats_at(x, (t * n + s) * 4 * k, 4 * k), holes, functions, factors),
                *(header[FLAG] != 0, floats_at(scratch, (n + s) * k, k), h),
            )
            copy_row(h, row)
    copy_row(states, floats_at(out, step.rows * n * k, 2 * n * k))


@kernel
def run_gru(steps, i, x, y, out, scratch, constants):
    """Run a GRU; the result ends with the last state.

    The header's flag says that the reset gate comes after the product of the state.
    """
    step = steps[i]
    k, n, header = step.columns, step.images, header_of(step, constants)
    functions = header[FUNCTIONS:LENGTHS]
    factors = floats_at(constants[np.uintp(step.numbers) :], 0, FACTORS)
    hidden = begin(step, 1, y, scratch, constants)
    gates = floats_at(scratch, n * k, 2 * n * k)
    new = floats_at(scratch, 3 * n * k, n * k)
    reset = floats_at(scratch, 4 * n * k, n * k)
    for t in range(step.rows):
        multiply_states(step, hidden, step.weights, step.bias, 2 * k, gates, constants)
        for s in range(n):
            part = floats_at(x, (t * n + s) * 3 * k, 2 * k)
            row = floats_at(scratch, (n + 2 * s) * k, 2 * k)
            gru_gates_f32(row, part, functions, factors)
            for j in range(k):
                reset[s * k + j] = np.float32(row[k + j] * hidden[s * k + j])
        after = header[FLAG] != 0
        given = hidden if after else reset
        multiply_states(step, given, step.gains, step.guard, k, new, constants)
        for s in range(n):
            row = floats_at(out, (t * n + s) * k, k)
            if not goes_on(header, s, t):
                clear(row)
                continue
            gate = floats_at(scratch, (n + 2 * s) * k, 2 * k)
            mine = floats_at(scratch, (3 * n + s) * k, k)
            if after:
                for j in range(k):
                    mine[j] = np.float32(gate[k + j] * mine[j])
            part = floats_at(x, ((t * n + s) * 3 + 2) * k, k)
            h = floats_at(scratch, s * k, k)
            gru_f32(gate[:k], mine, part, functions, factors, h)
            copy_row(h, row)
    copy_row(hidden, floats_at(out, step.rows * n * k, n * k))


@kernel
def run_rnn(steps, i, x, y, out, scratch, constants):
    """Run a plain layer; the result ends with the last state."""
    step = steps[i]
    k, n, header = step.columns, step.images, header_of(step, constants)
    functions = header[FUNCTIONS:LENGTHS]
    factors = floats_at(constants[np.uintp(step.numbers) :], 0, FACTORS)
    hidden = begin(step, 1, y, scratch, constants)
    sums = floats_at(scratch, n * k, n * k)
    for t in range(step.rows):
        multiply_states(step, hidden, step.weights, step.bias, k, sums, constants)
        for s in range(n):
            row = floats_at(out, (t * n + s) * k, k)
            if not goes_on(header, s, t):
                clear(row)
                continue
            part = floats_at(x, (t * n + s) * k, k)
            h = floats_at(scratch, s * k, k)
            rnn_f32(floats_at(scratch, (n + s) * k, k), part, functions, factors, h)
            copy_row(h, row)
    copy_row(hidden, floats_at(out, step.rows * n * k, n * k))


INVOKE = tuple(globals()[name] for name in kinds.OF_SEQUENCES)
#: Functions that `INVOKE` calls and that call kernels.
HELPERS = (multiply_states,)
