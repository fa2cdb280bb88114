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

# From this many groups of k on, narrow panels pay, since they stay in the first cache.
DEEP = 40
# Vectors of a panel of fewer groups.
WIDEST = 6


def split_bytes(groups):
    """Split weights [.., 16, 4] into the even and the odd ones, as int16."""
    # Splitting bytes in the loop instead would be slower (decision 0034).
    halves = [groups[..., first::2].astype(np.int16) for first in (0, 1)]
    return np.stack(halves, axis=-3)


# Panels of packed weights.


# Panels are narrow for long sums, because 6 vectors from the second cache take longer
# than their products (decision 0042).
def panel_of_several(first, count, k4):
    """Return the vectors of 16 columns in the panel from vector `first` on."""
    left = count - first
    if k4 < DEEP:
        return min(left, WIDEST)
    return left if left == 4 and first % WIDEST == 0 else min(left, WIDEST // 2)


def panel_of_one(first, count, k4):
    """Return the same for few registers, with which panels have one vector."""
    return 1


# Blocks of channels of a depthwise convolution: 64 each. Up to 32 left-over channels
# are a half block, which vectors hold twice: for outputs in the left part of a row and
# in the right part. If more are left, the last block overlaps the block before.

# Pixels of a group; their bytes of one channel share a dword.
GROUP = 4
# Channels of a tile, and of a tile in halves; vectors of a block.
BLOCK = 64
HALF, QUAD = BLOCK // 2, 4


def block_count(c):
    """Return the number of blocks of c channels, with a half block counted."""
    return max(1, (c + BLOCK - 1) // BLOCK)


# Up to 32 left-over channels share a vector twice, or half of it would be computed for
# nothing (decision 0043).
def is_half_block(c, i):
    """Return whether block i of c channels is a half block."""
    return 0 < c - BLOCK * i <= HALF


def is_never_half(c, i):
    """Return the same for an ISA without half blocks."""
    return False


# Numba compiles this function alone, so it does not call the one above.
def start_with_halves(c, i):
    """Return the first channel of block i; the last block ends with channel c - 1."""
    return max(0, min(BLOCK * i, c - (HALF if 0 < c - BLOCK * i <= HALF else BLOCK)))


def start_of_whole(c, i):
    """Return the same for an ISA without half blocks."""
    return max(0, min(BLOCK * i, c - BLOCK))


def parts_of(w):
    """Return as few int8 arrays as possible whose sum is w."""
    # A 9-bit weight is a sum of two int8, so the 8-bit kernel serves it.
    parts, rest = [], w.astype(np.int32)
    while rest.any() or not parts:
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return parts


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


# A plan for another CPU is packed here, so an ISA is an object and no constant of the
# process (decision 0095).
class Packing:
    """How one of these ISAs packs weights.

    Args: name: of the ISA.

    Attributes:
        IS_WIDE: True with 32 registers of 512 bits; otherwise there are as many bits as
            in 8 of them.
        TILE: accumulators that fit the registers next to the operands.
        HAS_ONE_SHAPE: with few registers only one shape of tiles is compiled.
        HAS_WORDS: whether bytes are multiplied as 16-bit words.
        GROUP_BYTES: bytes of 4 packed weights of a column.
        OFFSET: what products subtract from codes. `sdot` takes signed codes, so sums
            start at 128 times the weights (decision 0034).
        HEAD_BYTES: a column starts with OFFSET * sum of its weights, if there is one.
        PANEL_COLUMNS: packed weights can be divided only at multiples of it.
        HAS_HALVES: whether depthwise blocks may be half blocks.
    """

    #: Kernels compare sums with exception sums.
    PRODUCTS_TAKE_EXCEPTION_SUMS = DEPTHWISE_TAKES_EXCEPTION_SUMS = True
    #: Weights are bytes, which a multiple would exceed.
    MOST_FACTOR = 0
    #: Sums of two codes have fixed points.
    SUMS_TAKE_CHECKED_MULTIPLIERS = False
    #: An instruction adds four products in 32 bits.
    MULTIPLIES_PAIRS = False
    TERM_BYTES = TERM_BYTES
    im2col_pitch = staticmethod(im2col_pitch)

    def __init__(self, name):
        self.IS_WIDE = self.HAS_HALVES = name in ("avx512", "vnni")
        # Fewer sums would wait for each other, as a product takes several cycles.
        self.TILE = 24 if self.IS_WIDE else 4
        self.HAS_ONE_SHAPE = not self.IS_WIDE
        self.HAS_WORDS = name == "avx512"
        self.GROUP_BYTES = 8 if self.HAS_WORDS else 4
        self.OFFSET = 128 if name == "neon" else 0
        self.HEAD_BYTES = 4 if self.OFFSET else 0
        self.PANEL_COLUMNS = 16 if self.HAS_ONE_SHAPE else 16 * WIDEST
        self.panel_width = panel_of_one if self.HAS_ONE_SHAPE else panel_of_several
        self.is_half = is_half_block if self.HAS_HALVES else is_never_half
        self.block_start = start_with_halves if self.HAS_HALVES else start_of_whole

    def packed_column_bytes(self, k):
        """Return the bytes of a packed column of k weights."""
        return self.HEAD_BYTES + self.GROUP_BYTES * ((k + 3) // 4)

    def pack_s8(self, w):
        """Pack w[n, k] as panels [K/4][width][16][4]; K and columns padded with 0.

        `split_bytes` may change the last two axes. If products subtract an offset
        from codes, each panel starts with its heads, int32 [width][16]: the offset
        times the sum of each column of weights, which a kernel adds to the sums.

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
        heads = padded.sum(1, dtype=np.int32) * np.int32(self.OFFSET)
        parts, first = [np.zeros(0, np.int8)], 0
        while first < vectors:
            end = first + self.panel_width(first, vectors, k4)
            if self.HEAD_BYTES:
                parts.append(heads[16 * first : 16 * end].view(np.int8))
            panel = groups[:, first:end]
            panel = split_bytes(panel) if self.HAS_WORDS else panel
            parts.append(np.ascontiguousarray(panel).reshape(-1).view(np.int8))
            first = end
        return np.concatenate(parts)

    def pack_depthwise(self, w):
        """Pack w[c, kh, kw] as [block][part][kh][kw + 3][4][16][4], with sums.

        Each block starts with its sums: int32 [4][16], `OFFSET` times the weights'
        sum. Vector i of a kernel row is for pixels that lie s = i + 1 - kw left of the
        output's first pixel: its byte p holds tap p - s, or 0. For the order of
        channels see `conv_tile.group_of`.

        Args:
            w: integers [c, kh, kw] of DEPTHWISE_BITS.

        Returns: int8, 1-D.
        """
        parts, blocks = parts_of(w), []
        sums = w.astype(np.int32).sum((1, 2), dtype=np.int32) * np.int32(self.OFFSET)
        for i in range(block_count(len(w))):
            rows = [shift_rows(self._lanes_of(part, i)) for part in parts]
            rows.append(in_tiles(self._lanes_of(sums[:, None], i)[None]).view(np.int8))
            blocks += [part.reshape(-1) for part in rows]
        return np.concatenate(blocks)

    def _lanes_of(self, values, i):
        """Return values[c, ..] of block i as [64, ..]; missing channels are 0.

        A half block of 32 channels is repeated.
        """
        c, first = len(values), self.block_start(len(values), i)
        size = HALF if self.is_half(c, i) else BLOCK
        own = values[first : first + size]
        half = np.zeros((size, *values.shape[1:]), values.dtype)
        half[: len(own)] = own
        return np.concatenate([half] * (BLOCK // size))


#: How kernels of this process pack; they compile these as constants.
HERE = Packing(isa.DOT_ISA)
IS_WIDE, TILE, HAS_ONE_SHAPE = HERE.IS_WIDE, HERE.TILE, HERE.HAS_ONE_SHAPE
GROUP_BYTES, OFFSET, HEAD_BYTES = HERE.GROUP_BYTES, HERE.OFFSET, HERE.HEAD_BYTES
HAS_HALVES = HERE.HAS_HALVES
panel_width, is_half, block_start = HERE.panel_width, HERE.is_half, HERE.block_start
pack_s8, packed_column_bytes = HERE.pack_s8, HERE.packed_column_bytes
pack_depthwise, PANEL_COLUMNS = HERE.pack_depthwise, HERE.PANEL_COLUMNS
MOST_FACTOR = HERE.MOST_FACTOR
