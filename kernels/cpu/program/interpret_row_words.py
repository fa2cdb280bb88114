"""Functions that run products of float32 with int8 weights, with words for each row.

Scratch, each part from a multiple of 64 bytes, for a strip of rows: the scales of the
rows; their words, padded to fours; their sums, padded to panels.
"""

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.borrowing import borrowed
from mdtensor.kernels.cpu.generic.row_words import (
    PANEL,
    add_words_f32,
    most_word,
    words_f32s16,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.interpret_floats import floats_at
from mdtensor.kernels.cpu.program.kinds import ALIGN, ITEM, SLACK

gemm_s16s8s32 = kernel_set.compiled(kernel_set.HOST.name).gemm_s16s8s32


@kernel
def multiply_words(step, weights, scales, values, m, n, start, lds, out, scratch):
    """Set out[m, n] = start + words of values[m, k] · weights · scales.

    Args:
        weights: bytes, by `pack_words`.
        scales: float32 [>= n].
        start: float32, rows at multiples of `lds`; 0 for one row.
    """
    k, strip, most = step.depth, step.strip, most_word(step.depth)
    wide, padded = -(-k // 4) * 4, -(-n // PANEL) * PANEL
    own = floats_at(scratch, 0, strip)
    place = -(-strip * ITEM // ALIGN) * ALIGN
    room = -(-(2 * strip * wide + SLACK) // ALIGN) * ALIGN
    words = scratch[np.uintp(place) :][: np.uintp(room)].view(np.int16)
    size = strip * padded * ITEM
    sums = scratch[np.uintp(place + room) :][: np.uintp(size)].view(np.int32)
    for first in range(0, m, strip):
        rows = min(strip, m - first)
        for r in range(rows):
            row = values[np.uintp((first + r) * k) :][: np.uintp(k)]
            target = words[np.uintp(r * wide) :]
            own[np.uintp(r)] = words_f32s16(row, most, target)
        gemm_s16s8s32(words, wide, rows, k, weights, n, sums, padded)
        before = start[np.uintp(first * lds) :]
        target = out[np.uintp(first * n) :]
        add_words_f32(sums, padded, rows, n, own, scales, before, lds, target)


@kernel
def run_word_linear(steps, i, x, y, out, scratch, constants):
    """Run a WordLinear."""
    x, out, scratch = borrowed(x), borrowed(out), borrowed(scratch)
    constants, step = borrowed(constants), steps[i]
    m, n = step.rows, step.columns
    weights = constants[np.uintp(step.weights) :].view(np.int8)
    scales = floats_at(constants[np.uintp(step.multipliers) :], 0, n)
    bias = floats_at(constants[np.uintp(step.bias) :], 0, n)
    values, target = floats_at(x, 0, m * step.depth), floats_at(out, 0, m * n)
    multiply_words(step, weights, scales, values, m, n, bias, 0, target, scratch)


INVOKE = tuple(globals()[name] for name in kinds.OF_WORDS)
#: Functions that `INVOKE` calls and that call kernels.
HELPERS = (multiply_words,)
