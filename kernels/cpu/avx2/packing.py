"""How AVX2 packs weights, and the sizes that its kernels want."""

import numpy as np

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic.packing import DEPTHWISE_BITS

#: Lanes of 32 bits of a vector.
LANES = 8
#: Packed weights can be divided only at multiples of this many columns.
PANEL_COLUMNS = 16
#: Bytes of a packed column of codes for the terms of rows, see `gemm_u8u8u8`.
TERM_BYTES = 4
#: Kernels find sums near ties instead of exception sums.
PRODUCTS_TAKE_EXCEPTION_SUMS = DEPTHWISE_TAKES_EXCEPTION_SUMS = False
#: The largest factor of depthwise weights, which are int16, see
#: `multipliers.multiples`.
MOST_FACTOR = 1 << (16 - DEPTHWISE_BITS)
#: Sums of two codes are as `program/checked_sums.py` has them, if their guard is 0.
SUMS_TAKE_CHECKED_MULTIPLIERS = True
#: Products of pairs are exact for known weights, see `generic/pair_packing.py`.
MULTIPLIES_PAIRS = True
#: ISAs whose float products have vectors of 512 bits.
WIDE = ("avx512", "vnni")
#: A process has one vector size, so that all its float products give the same bytes.
IS_WIDE = isa.ISA in WIDE
#: AVX-512 has other tiles, which were not measured, so it keeps im2col.
MULTIPLIES_WINDOWS = not IS_WIDE


def packed_column_bytes(k):
    """Return the bytes of a packed column of k weights."""
    return 4 * ((k + 3) // 4)


def pack_s8(w):
    """Pack w[n, k] as panels [K/4][2][width][8][2]; K and columns padded with 0.

    Args:
        w: int8 [n, k].

    Returns: int8 1-D.
    """
    n, k = w.shape
    k4, columns = (k + 3) // 4, (n + 7) // 8 * 8
    padded = np.zeros((columns, 4 * k4), np.int8)
    padded[:n, :k] = w
    pairs = padded.reshape(columns, 2 * k4, 2)
    parts = []
    for first in range(0, columns, 16):
        panel = pairs[first : first + 16].transpose(1, 0, 2)
        parts.append(np.ascontiguousarray(panel).reshape(-1))
    return np.concatenate([*parts, np.zeros(0, np.int8)])


def im2col_pitch(k):
    """Return the bytes from one row of k codes to the next, in whole copies."""
    # Rows at multiples of four codes are widened all at once (decision 0035).
    return (k + 3) // 4 * 4


def pack_depthwise(w):
    """Pack w[c, kh, kw] as int16 [c / 8][kh // 2 + 1][kw][2][8][2].

    Line q holds kernel rows 2q and 2q + 1 for the upper row of outputs, and rows 2q - 1
    and 2q for the lower one. Missing rows and channels are 0.

    Args:
        w: integers [c, kh, kw] in the range of int16.

    Returns: int8 1-D, a view of the int16.
    """
    c, kh, kw = w.shape
    lines, blocks = kh // 2 + 1, (c + LANES - 1) // LANES
    rows = np.zeros((blocks * LANES, 2 * lines + 1, kw), np.int16)
    rows[:c, 1 : kh + 1] = w
    # Pairs for the upper and for the lower outputs.
    pairs = np.stack([rows[:, 1:], rows[:, :-1]])
    pairs = pairs.reshape(2, blocks, LANES, lines, 2, kw).transpose(1, 3, 5, 0, 2, 4)
    return np.ascontiguousarray(pairs).reshape(-1).view(np.int8)
