"""Blocks of channels of depthwise convolution, and how their constants lie.

A block has 64 channels. Up to 32 that are left are a half block: vectors hold them
twice, for outputs in the left part of a row and in the right one. Where more are left,
the last block overlaps the one before.
"""

import numpy as np

from mdtensor.kernels.cpu.dot8 import simd
from mdtensor.kernels.cpu.dot8.conv_tile import BLOCK, GROUP, HALF, arrange
from mdtensor.kernels.cpu.dot8.epilogue import QUAD
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import address_of

OFFSET = simd.PRODUCT.offset
HAS_HALVES = simd.IS_WIDE


@kernel
def block_count(c):
    """Blocks of c channels, a half one counted."""
    return max(1, (c + BLOCK - 1) // BLOCK)


# Up to 32 left-over channels share a vector twice, or half of it would be computed for
# nothing (decision 0043).
@kernel
def is_half(c, i):
    """Is block i of c channels a half one?"""
    return HAS_HALVES and 0 < c - BLOCK * i <= HALF


@kernel
def block_start(c, i):
    """First channel of block i: the last one ends with the channels."""
    return max(0, min(BLOCK * i, c - (HALF if is_half(c, i) else BLOCK)))


def lanes_of(values, i):
    """values[c, ..] of block i as [64, ..], 0 where no channel is."""
    c, first = len(values), block_start(len(values), i)
    size = HALF if is_half(c, i) else BLOCK
    own = values[first : first + size]
    half = np.zeros((size, *values.shape[1:]), values.dtype)
    half[: len(own)] = own
    return np.concatenate([half] * (BLOCK // size))


def parts_of(w):
    """int8 arrays whose sum is w, as few as there can be."""
    parts, rest = [], w.astype(np.int32)
    while rest.any() or not parts:
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return parts


def pack_depthwise(w):
    """w[c, kh, kw] as [block][part][kh][kw + 3][4][16][4], each block with its sums.

    Vector i of a kernel row meets pixels that lie s = i + 1 - kw left of the output's
    first pixel: its byte p holds tap p - s, or 0. Sums are int32 [4][16], of `OFFSET`
    times all weights. Channels are those of a tile, see `conv_tile.group_of`.

    Args:
        w: integers [c, kh, kw] of DEPTHWISE_BITS.

    Returns: int8, 1-D.
    """
    parts, blocks = parts_of(w), []
    sums = w.astype(np.int32).sum((1, 2), dtype=np.int32) * np.int32(OFFSET)
    for i in range(block_count(len(w))):
        rows = [shifted_rows(lanes_of(part, i)) for part in parts]
        rows.append(in_tiles(lanes_of(sums[:, None], i)[None]).view(np.int8))
        blocks += [part.reshape(-1) for part in rows]
    return np.concatenate(blocks)


def shifted_rows(w):
    """w[64, kh, kw] of a block as [kh, kw + 3, 4, 16, 4], see `pack_depthwise`."""
    _, kh, kw = w.shape
    rows = np.zeros((kh, kw + GROUP - 1, BLOCK, GROUP), np.int8)
    for i in range(kw + GROUP - 1):
        for p in range(GROUP):
            tap = p - (i + 1 - kw)
            if 0 <= tap < kw:
                rows[:, i, :, p] = w[:, :, tap].T
    return in_tiles(rows)


def in_tiles(values):
    """[.., 64, n] as [.., 4, 16, n], in the order of a tile's channels."""
    split = values.reshape(*values.shape[:-2], QUAD, QUAD, QUAD, -1)
    return np.ascontiguousarray(np.swapaxes(split, -4, -3))


@kernel
def arranged(values, c, missing):
    """[block][4][16] of values[c], in the order of a tile's channels.

    Args: missing: what stands for a channel that does not exist.
    """
    found = np.empty(block_count(c) * BLOCK, values.dtype)
    lanes = np.full(BLOCK, missing, values.dtype)
    for i in range(block_count(c)):
        first = block_start(c, i)
        source, size = address_of(values, first), HALF if is_half(c, i) else BLOCK
        if size == HALF or c < BLOCK:
            for n in range(min(size, c)):
                lanes[n] = lanes[BLOCK - size + n] = values[first + n]
            source = address_of(lanes, 0)
        arrange(source, address_of(found, i * BLOCK))
    return found


@kernel
def arranged_bias(packed, bias, c):
    """int32 [block][4][16]: the bias of a block and what products leave out."""
    size = len(packed) // block_count(c)
    found = arranged(bias, c, 0)
    if OFFSET:
        for i in range(block_count(c)):
            sums = packed[(i + 1) * size - 4 * BLOCK : (i + 1) * size].view(np.int32)
            for n in range(BLOCK):
                found[i * BLOCK + n] += sums[n]
    return found
