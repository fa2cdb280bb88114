"""Functions that run one recurrent layer on float32, step by step of its sequence.

x has the products of all steps with the weights, [t, n, gates * k]. The products of the
state are added to them, one after the other; codes and words of a state are multiplied
first, and added as one sum. y has the states before the first step, [states, n, k], if
the header says so; otherwise the constants have them. The scratch holds the states,
then the sums of a step; then, if the weights of the state are int8, what
`interpret_dynamic` or `interpret_row_words` says.
"""

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.borrowing import borrowed
from mdtensor.kernels.cpu.generic.recurrent import (
    add_f32,
    clear,
    copy_row,
    gru_f32,
    lstm_f32,
    reset_f32,
    rnn_f32,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.interpret_dynamic import multiply_floats
from mdtensor.kernels.cpu.program.interpret_floats import floats_at
from mdtensor.kernels.cpu.program.interpret_row_words import multiply_words
from mdtensor.kernels.cpu.program.kinds import ALIGN, COMPUTED, ITEM

gemm_from_f32 = kernel_set.compiled(kernel_set.HOST.name).gemm_from_f32

#: Places in the header of a layer; its lengths follow.
FLAG, HAS_LENGTHS, HAS_HOLES, READS_STATES, FUNCTIONS, LENGTHS = 0, 1, 2, 3, 4, 8
#: The place behind the functions: what the layer multiplies. It is 0 for floats.
MULTIPLIES, CODES, WORDS = 7, 1, 2
#: Numbers of a layer: the limit, then two factors of each function.
FACTORS = 7


@kernel
def header_of(step, constants):
    """Return the header of a layer, int64, followed by the lengths."""
    size = (LENGTHS + step.images) * 8
    return constants[np.uintp(step.operands) :][: np.uintp(size)].view(np.int64)


# The order of the sums is that of every product (decision 0066). They begin at the
# products of the inputs, which needs no pass of its own (decision 0113).
@kernel
def add_states(step, states, place, first, columns, start, pitch, out, constants, rest):
    """Set out[n, columns] = start + states · weights.

    Args:
        place: of the weights, in the constants.
        first: how many scales come before those of these weights, if they are int8.
        pitch: of the rows of `start`.
        rest: the scratch behind that of the layer.
    """
    k, n, padded = step.columns, step.images, -(-columns // 16) * 16
    if header_of(step, constants)[MULTIPLIES] == WORDS:
        codes = constants[np.uintp(place) :].view(np.int8)
        scales = floats_at(constants[np.uintp(step.multipliers) :], first, columns)
        multiply_words(step, codes, scales, states, n, columns, start, pitch, out, rest)
        return
    weights = floats_at(constants[np.uintp(place) :], 0, k * padded)
    gemm_from_f32(states, k, n, k, weights, columns, start, pitch, out, columns)


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
def lengths_of(step, count, y, constants):
    """Return the computed lengths, which follow the first states; else nothing.

    Args: count: of the states.
    """
    if header_of(step, constants)[HAS_LENGTHS] != COMPUTED:
        return floats_at(y, 0, 0)
    return floats_at(y, count * step.images * step.columns, step.images)


@kernel
def goes_on(header, lengths, sample, t):
    """Return whether a sample has a step t."""
    if header[HAS_LENGTHS] == COMPUTED:
        return np.float32(t) < lengths[np.uintp(sample)]
    return header[HAS_LENGTHS] == 0 or t < header[LENGTHS + sample]


@kernel
def behind(scratch, floats):
    """Return the scratch behind the states and sums of a layer, at a line."""
    return scratch[np.uintp(-(-floats * ITEM // ALIGN) * ALIGN) :]


@kernel
def run_lstm(steps, i, x, y, out, scratch, constants):
    """Run an LSTM; the result ends with the last states of h and c."""
    x, out, scratch = borrowed(x), borrowed(out), borrowed(scratch)
    constants = borrowed(constants)
    step = steps[i]
    k, n, header = step.columns, step.images, header_of(step, constants)
    functions = header[FUNCTIONS:MULTIPLIES]
    factors = floats_at(constants[np.uintp(step.numbers) :], 0, FACTORS)
    size = 3 * k if header[HAS_HOLES] != 0 else 0
    rest = behind(scratch, 6 * n * k)
    holes = floats_at(constants[np.uintp(step.limbs) :], 0, size)
    states = begin(step, 2, y, scratch, constants)
    lengths = lengths_of(step, 2, y, constants)
    hidden, gates = states[: n * k], floats_at(scratch, 2 * n * k, 4 * n * k)
    for t in range(step.rows):
        part, place = floats_at(x, t * n * 4 * k, 4 * n * k), step.weights
        if header[MULTIPLIES] == CODES:
            multiply_floats(step, hidden, n, 4 * k, factors[:0], gates, rest, constants)
            add_f32(gates, part)
        else:
            add_states(
                *(step, hidden, place, 0, 4 * k, part, 4 * k, gates, constants, rest),
            )
        for s in range(n):
            row = floats_at(out, (t * n + s) * k, k)
            if not goes_on(header, lengths, s, t):
                clear(row)
                continue
            h = floats_at(scratch, s * k, k)
            lstm_f32(
                *(floats_at(scratch, (2 * n + 4 * s) * k, 4 * k), holes, functions),
                *(factors, header[FLAG] != 0, floats_at(scratch, (n + s) * k, k), h),
            )
            copy_row(h, row)
    copy_row(states, floats_at(out, step.rows * n * k, 2 * n * k))


@kernel
def new_states(step, t, x, scratch, constants, rest):
    """Compute the sums of the gates and of the new state of a GRU, in the scratch."""
    k, n, header = step.columns, step.images, header_of(step, constants)
    functions = header[FUNCTIONS:LENGTHS]
    factors = floats_at(constants[np.uintp(step.numbers) :], 0, FACTORS)
    hidden, new = floats_at(scratch, 0, n * k), floats_at(scratch, 3 * n * k, n * k)
    gates, part = (
        floats_at(scratch, n * k, 2 * n * k),
        x[np.uintp(t * n * 3 * k * ITEM) :],
    )
    start = floats_at(part, 0, 3 * n * k)
    place = step.weights
    add_states(
        *(step, hidden, place, 0, 2 * k, start, 3 * k, gates, constants, rest),
    )
    place = step.gains
    if header[FLAG] != 0:
        bias = floats_at(constants[np.uintp(step.guard) :], 0, k)
        add_states(step, hidden, place, 2 * k, k, bias, 0, new, constants, rest)
        return
    reset = floats_at(scratch, 4 * n * k, n * k)
    for s in range(n):
        sums = gates[np.uintp((2 * s + 1) * k) :][: np.uintp(k)]
        row = reset[np.uintp(s * k) :][: np.uintp(k)]
        reset_f32(sums, functions, factors, hidden[np.uintp(s * k) :], row)
    start = floats_at(part, 2 * k, (3 * n - 2) * k)
    add_states(step, reset, place, 2 * k, k, start, 3 * k, new, constants, rest)


@kernel
def run_gru(steps, i, x, y, out, scratch, constants):
    """Run a GRU; the result ends with the last state.

    The header's flag says that the reset gate comes after the product of the state.
    """
    x, out, scratch = borrowed(x), borrowed(out), borrowed(scratch)
    constants = borrowed(constants)
    step = steps[i]
    k, n, header = step.columns, step.images, header_of(step, constants)
    functions = header[FUNCTIONS:LENGTHS]
    factors = floats_at(constants[np.uintp(step.numbers) :], 0, FACTORS)
    hidden, rest = begin(step, 1, y, scratch, constants), behind(scratch, 5 * n * k)
    lengths = lengths_of(step, 1, y, constants)
    for t in range(step.rows):
        new_states(step, t, x, scratch, constants, rest)
        for s in range(n):
            row = floats_at(out, (t * n + s) * k, k)
            if not goes_on(header, lengths, s, t):
                clear(row)
                continue
            h = floats_at(scratch, s * k, k)
            gru_f32(
                *(floats_at(scratch, (n + 2 * s) * k, 2 * k),),
                *(floats_at(scratch, (3 * n + s) * k, k),),
                *(floats_at(x, ((t * n + s) * 3 + 2) * k, k), functions, factors),
                *(header[FLAG] != 0, h),
            )
            copy_row(h, row)
    copy_row(hidden, floats_at(out, step.rows * n * k, n * k))


@kernel
def run_rnn(steps, i, x, y, out, scratch, constants):
    """Run a plain layer; the result ends with the last state."""
    x, out, scratch = borrowed(x), borrowed(out), borrowed(scratch)
    constants = borrowed(constants)
    step = steps[i]
    k, n, header = step.columns, step.images, header_of(step, constants)
    functions = header[FUNCTIONS:LENGTHS]
    factors = floats_at(constants[np.uintp(step.numbers) :], 0, FACTORS)
    hidden = begin(step, 1, y, scratch, constants)
    sums, rest = floats_at(scratch, n * k, n * k), behind(scratch, 2 * n * k)
    lengths = lengths_of(step, 1, y, constants)
    for t in range(step.rows):
        part, place = floats_at(x, t * n * k, n * k), step.weights
        add_states(step, hidden, place, 0, k, part, k, sums, constants, rest)
        for s in range(n):
            row = floats_at(out, (t * n + s) * k, k)
            if not goes_on(header, lengths, s, t):
                clear(row)
                continue
            h = floats_at(scratch, s * k, k)
            rnn_f32(floats_at(scratch, (n + s) * k, k), functions, factors, h)
            copy_row(h, row)
    copy_row(hidden, floats_at(out, step.rows * n * k, n * k))


INVOKE = tuple(globals()[name] for name in kinds.OF_SEQUENCES)
#: Functions that `INVOKE` calls and that call kernels.
HELPERS = (add_states,)
