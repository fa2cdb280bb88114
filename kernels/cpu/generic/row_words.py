"""Rows of float32 as 16-bit words, each row on a grid of its own.

    most = min(32767, floor((2**31 - 1) / (128 k)))     for rows of k elements
    scale = max |x| / most        word = round(x / scale)

So a sum of k words times int8 weights stays in int32. Every operation rounds to
float32, halves to even. A row whose scale would be subnormal has the scale 1, and its
words are 0. A row with a NaN or an infinity has the scale NaN, and its words are 0.
The bytes are those of `kernels/numpy/row_words.py` on every ISA.

Source: this project; symmetric grids as in "Quantizing deep convolutional networks for
efficient inference" (Krishnamoorthi 2018), with 16 bits.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ONE
from mdtensor.kernels.cpu.generic.dynamic import MAGIC, MAGNITUDE, TOP
from mdtensor.kernels.cpu.generic.float_functions import SMALLEST
from mdtensor.kernels.cpu.jit import kernel

#: Columns of a panel of weights, see `pack_words`.
PANEL = 16
#: The magnitude of int8, and of int16, and what int32 holds.
WEIGHT, WORD, SUM = 128, 32767, 2**31 - 1


@kernel
def most_word(k):
    """Return the largest word of rows of k elements."""
    return min(WORD, SUM // (WEIGHT * max(k, 1)))


# Words lose next to nothing, and cost no more than codes (decision 0086). Bits of
# magnitudes have the order of the magnitudes, and vectors of maxima.
@kernel
def words_f32s16(x, most, out):
    """Set out to the words of a row; return its scale.

    Args:
        x: float32 1-D.
        most: from `most_word`.
        out: int16, as long as x, written.
    """
    count, bits = np.uintp(len(x)), x.view(np.int32)
    high = np.int32(0)
    for i in range(count):
        magnitude = np.int32(bits[i] & MAGNITUDE)
        high = magnitude if magnitude > high else high
    largest = np.int32(high).view(np.float32)
    scale = np.float32(largest / np.float32(most))
    if high >= TOP or scale < SMALLEST:
        for i in range(count):
            out[i] = np.int16(0)
        return np.float32(np.nan) if high >= TOP else ONE
    for i in range(count):
        rounded = np.float32(np.float32(np.float32(x[i] / scale) + MAGIC) - MAGIC)
        out[i] = np.int16(np.int32(rounded))
    return scale


@kernel
def add_words_f32(sums, pitch, rows, n, row_scales, scales, start, lds, out):
    """out[i, j] = start[i, j] + float32(sums[i, j]) · (row_scales[i] · scales[j]).

    Each operation rounds.

    Args:
        sums: int32, rows at multiples of `pitch`.
        row_scales: float32 [>= rows].
        scales: float32 [>= n].
        start: float32, rows at multiples of `lds`; 0 for one row.
        out: float32 [rows * n], written, must not alias the others.
    """
    for i in range(np.uintp(rows)):
        row, first = sums[i * np.uintp(pitch) :], start[i * np.uintp(lds) :]
        target, scale = out[i * np.uintp(n) :], row_scales[i]
        for j in range(np.uintp(n)):
            factor = np.float32(scale * scales[j])
            product = np.float32(np.float32(row[j]) * factor)
            target[j] = np.float32(first[j] + product)


@kernel
def gemm_s16s8s32(a, lda, m, k, packed, n, out, ldc):
    """out[i, j] = sum_k a[i, k] * w[j, k], exact in int32.

    Args:
        a: int16, row i starts at i * lda; readable up to a multiple of 4 words, and 64
            bytes past its last row.
        packed: int8, by `pack_words`.
        out: int32, row i starts at i * ldc, a multiple of 16 that is at least n;
            written up to a multiple of 16, must not alias `a`.

    Overflow: none for words up to `most_word(k)`.
    """
    fours = np.uintp((k + 3) // 4)
    for i in range(np.uintp(m)):
        row = a[i * np.uintp(lda) :]
        for j in range(0, n, PANEL):
            sums = out[i * np.uintp(ldc) + np.uintp(j) :][: np.uintp(PANEL)]
            panel = packed[np.uintp(4 * j) * fours :]
            for c in range(np.uintp(PANEL)):
                sums[c] = np.int32(0)
            for q in range(fours):
                x0, x1 = np.int32(row[4 * q]), np.int32(row[4 * q + 1])
                x2, x3 = np.int32(row[4 * q + 2]), np.int32(row[4 * q + 3])
                line = panel[q * np.uintp(4 * PANEL) :][: np.uintp(4 * PANEL)]
                for c in range(np.uintp(PANEL)):
                    first = np.int32(x0 * np.int32(line[4 * c]))
                    first = np.int32(first + np.int32(x1 * np.int32(line[4 * c + 2])))
                    last = np.int32(x2 * np.int32(line[4 * c + 1]))
                    last = np.int32(last + np.int32(x3 * np.int32(line[4 * c + 3])))
                    sums[c] = np.int32(sums[c] + np.int32(first + last))
