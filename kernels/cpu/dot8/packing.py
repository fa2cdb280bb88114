"""How the kernels on dot products pack weights, and the sizes that they want.

The product of an ISA, see `products.py`, says how its operands lie in memory: a group
of 4 weights takes GROUP_BYTES, and codes minus OFFSET are multiplied.
"""

import numpy as np

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic.packing import (
    DEPTHWISE_BITS as DEPTHWISE_BITS,
    TERM_BYTES as TERM_BYTES,
    im2col_pitch as im2col_pitch,
)

#: True with 32 registers of 512 bits; otherwise there are as many bits as in 8 of them.
IS_WIDE = isa.DOT_ISA in ("avx512", "vnni")
# Fewer sums would wait for each other, as a product takes several cycles.
#: Accumulators that fit the registers next to the operands.
TILE = 24 if IS_WIDE else 4
#: Whether bytes are multiplied as 16-bit words.
HAS_WORDS = isa.DOT_ISA == "avx512"
#: Bytes of 4 packed weights of a column.
GROUP_BYTES = 8 if HAS_WORDS else 4
# `sdot` takes signed codes, so sums start at 128 times the weights (decision 0034).
OFFSET = 128 if isa.DOT_ISA == "neon" else 0
#: Kernels compare sums with exception sums.
PRODUCTS_TAKE_EXCEPTION_SUMS = DEPTHWISE_TAKES_EXCEPTION_SUMS = True
#: Weights are bytes, which a multiple would exceed.
MOST_FACTOR = 0


def split_bytes(groups):
    """Split weights [.., 16, 4] into the even and the odd ones, as int16."""
    # Splitting bytes in the loop instead would be slower (decision 0034).
    halves = [groups[..., first::2].astype(np.int16) for first in (0, 1)]
    return np.stack(halves, axis=-3)


# Panels of packed weights.

# With few registers only one shape of tiles is compiled.
HAS_ONE_SHAPE = TILE == 4
# A column starts with offset * sum of its weights, if the product has an offset.
HEAD_BYTES = 4 if OFFSET else 0
# From this many groups of k on, narrow panels pay, since they stay in the first cache.
DEEP = 40
# Vectors of a panel of fewer groups.
WIDEST = 6
#: Packed weights can be divided only at multiples of this many columns.
PANEL_COLUMNS = 16 if HAS_ONE_SHAPE else 16 * WIDEST


def packed_column_bytes(k):
    """Return the bytes of a packed column of k weights."""
    return HEAD_BYTES + GROUP_BYTES * ((k + 3) // 4)


# Panels are narrow for long sums, because 6 vectors from the second cache take longer
# than their products (decision 0042).
def panel_width(first, count, k4):
    """Return the vectors of 16 columns in the panel from vector `first` on."""
    if HAS_ONE_SHAPE:
        return 1
    left = count - first
    if k4 < DEEP:
        return min(left, WIDEST)
    return left if left == 4 and first % WIDEST == 0 else min(left, WIDEST // 2)


def pack_s8(w):
    """Pack w[n, k] as panels [K/4][width][16][4]; K and columns padded with 0.

    `split_bytes` may change the last two axes. If products subtract an offset from
    codes, each panel starts with its heads, int32 [width][16]: the offset times the sum
    of each column of weights, which a kernel adds to the sums.

    Args:
        w: int8 [n, k].

    Returns: int8 1-D.
    """
    n, k = w.shape
    vectors, k4 = (n + 15) // 16, (k + 3) // 4
    padded = np.zeros((vectors * 16, 4 * k4), np.int8)
    padded[:n, :k] = w
    groups = padded.reshape(vectors, 16, k4, 4).transpose(2, 0, 1, 3)
    # Products subtract the offset from each code; a head adds that part again.
    heads = padded.sum(1, dtype=np.int32) * np.int32(OFFSET)
    parts, first = [np.zeros(0, np.int8)], 0
    while first < vectors:
        end = first + panel_width(first, vectors, k4)
        if HEAD_BYTES:
            parts.append(heads[16 * first : 16 * end].view(np.int8))
        panel = groups[:, first:end]
        panel = np.ascontiguousarray(split_bytes(panel) if HAS_WORDS else panel)
        parts.append(panel.reshape(-1).view(np.int8))
        first = end
    return np.concatenate(parts)


# Blocks of channels of a depthwise convolution: 64 each. Up to 32 left-over channels
# are a half block, which vectors hold twice: for outputs in the left part of a row and
# in the right part. If more are left, the last block overlaps the block before.

# Pixels of a group; their bytes of one channel share a dword.
GROUP = 4
# Channels of a tile, and of a tile in halves; vectors of a block.
BLOCK = 64
HALF, QUAD = BLOCK // 2, 4
HAS_HALVES = IS_WIDE


def block_count(c):
    """Return the number of blocks of c channels, with a half block counted."""
    return max(1, (c + BLOCK - 1) // BLOCK)


# Up to 32 left-over channels share a vector twice, or half of it would be computed for
# nothing (decision 0043).
def is_half(c, i):
    """Return whether block i of c channels is a half block."""
    return HAS_HALVES and 0 < c - BLOCK * i <= HALF


# Numba compiles this function alone, so it does not call the one above.
def block_start(c, i):
    """Return the first channel of block i; the last block ends with channel c - 1."""
    is_short = HAS_HALVES and 0 < c - BLOCK * i <= HALF
    return max(0, min(BLOCK * i, c - (HALF if is_short else BLOCK)))


def lanes_of(values, i):
    """Return values[c, ..] of block i as [64, ..]; missing channels are 0.

    A half block of 32 channels is repeated.
    """
    c, first = len(values), block_start(len(values), i)
    size = HALF if is_half(c, i) else BLOCK
    own = values[first : first + size]
    half = np.zeros((size, *values.shape[1:]), values.dtype)
    half[: len(own)] = own
    return np.concatenate([half] * (BLOCK // size))


def parts_of(w):
    """Return as few int8 arrays as possible whose sum is w."""
    # A 9-bit weight is a sum of two int8, so the 8-bit kernel serves it.
    parts, rest = [], w.astype(np.int32)
    while rest.any() or not parts:
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return parts


def pack_depthwise(w):
    """Pack w[c, kh, kw] as [block][part][kh][kw + 3][4][16][4], with sums.

    Each block starts with its sums: int32 [4][16], `OFFSET` times the weights' sum.
    Vector i of a kernel row is for pixels that lie s = i + 1 - kw left of the output's
    first pixel: its byte p holds tap p - s, or 0. For the order of channels see
    `conv_tile.group_of`.

    Args:
        w: integers [c, kh, kw] of DEPTHWISE_BITS.

    Returns: int8, 1-D.
    """
    parts, blocks = parts_of(w), []
    sums = w.astype(np.int32).sum((1, 2), dtype=np.int32) * np.int32(OFFSET)
    for i in range(block_count(len(w))):
        rows = [shift_rows(lanes_of(part, i)) for part in parts]
        rows.append(in_tiles(lanes_of(sums[:, None], i)[None]).view(np.int8))
        blocks += [part.reshape(-1) for part in rows]
    return np.concatenate(blocks)


def shift_rows(w):
    """Return w[64, kh, kw] of a block as [kh, kw + 3, 4, 16, 4]."""
    _, kh, kw = w.shape
    rows = np.zeros((kh, kw + GROUP - 1, BLOCK, GROUP), np.int8)
    for i in range(kw + GROUP - 1):
        for p in range(GROUP):
            tap = p - (i + 1 - kw)
            if 0 <= tap < kw:
                rows[:, i, :, p] = w[:, :, tap].T
    return in_tiles(rows)


def in_tiles(values):
    """Return [.., 64, n] as [.., 4, 16, n], in the order of a tile's channels."""
    split = values.reshape(*values.shape[:-2], QUAD, QUAD, QUAD, -1)
    return np.ascontiguousarray(np.swapaxes(split, -4, -3))
