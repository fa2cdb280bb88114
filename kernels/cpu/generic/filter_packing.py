"""Weights of float32 convolutions, packed in one pass.

Filters come as [n, channels, taps]. A sum takes its taps in order and the channels of
each tap, as the rows of im2col lie, so packing turns channels and taps around.

    panels    [groups][n / 16][taps][channels][16]    of dense convolutions
    blocks    [c / 8][taps][8]                        of depthwise ones

Biases follow, at a cache line.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.generic import float_packing
from mdtensor.kernels.cpu.generic.float_packing import BLOCK, PANEL
from mdtensor.kernels.cpu.jit import kernel

first_channel = kernel(float_packing.first_channel)
#: Filters, and elements of each, of a tile that is transposed in registers.
TILE = 8


def turn_tile(w, source, pitch, places, first, out, base):
    """Set out[base + places[first + i] + j] = w[source + j * pitch + i], i, j < 8."""
    for j in range(TILE):
        for i in range(TILE):
            out[base + places[first + i] + j] = w[source + j * pitch + i]


@overload(turn_tile, inline="always")
def _turn_tile(w, source, pitch, places, first, out, base):
    def turn(w, source, pitch, places, first, out, base):
        turn_floats(
            vectors.address_of(w, np.int64(source)),
            np.int64(pitch),
            vectors.address_of(places, np.int64(first)),
            vectors.address_of(out, np.int64(base)),
        )

    return turn


@intrinsic
def turn_floats(typingctx, source, pitch, places, target):
    """Transpose 8 x 8 floats: rows `pitch` floats apart go to eight places."""

    def emit(context, b, signature, arguments):
        source, pitch, places, target = arguments
        kind, size = ir.VectorType(vectors.F32, TILE), vectors.I64(4)
        step = b.mul(pitch, size)
        rows = [
            vectors.load(b, b.add(source, b.mul(step, vectors.I64(r))), kind)
            for r in range(TILE)
        ]
        low, high = (
            [half * TILE // 2 + i // 2 + TILE * (i % 2) for i in range(TILE)]
            for half in (0, 1)
        )
        # Three rounds that interleave halves swap row and column.
        for _ in range(3):
            pairs = zip(rows[: TILE // 2], rows[TILE // 2 :], strict=True)
            rows = [
                b.shuffle_vector(x, y, vectors.constant(vectors.I32, order))
                for x, y in pairs
                for order in (low, high)
            ]
        for r, row in enumerate(rows):
            place = vectors.load(b, b.add(places, vectors.I64(8 * r)), vectors.I64)
            vectors.store(b, row, b.add(target, b.mul(place, size)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit


@kernel
def pack_panels_f32(w, bias, groups, channels, taps, out):
    """Pack filters as panels of 16, then a bias for each; missing filters are 0.

    Args:
        w: float32 1-D [groups][n][channels][taps].
        bias: float32 1-D [groups][n], or empty for zeros.
        out: float32 1-D, written: panels of each group, biases of each group in whole
            panels, then zeros.
    """
    k = channels * taps
    n = len(w) // (groups * k)
    places = np.empty(k, np.int64)
    for c in range(channels):
        for t in range(taps):
            places[c * taps + t] = (t * channels + c) * PANEL
    at = 0
    for g in range(groups):
        for first in range(0, n, PANEL):
            pack_panel(w, (g * n + first) * k, min(PANEL, n - first), places, out, at)
            at += PANEL * k
    padded = (n + PANEL - 1) // PANEL * PANEL
    rest = out[np.uintp(at) :]
    rest[:] = np.float32(0)
    for i in range(len(bias)):
        rest[np.uintp(i // n * padded + i % n)] = bias[np.uintp(i)]


@kernel
def pack_panel(w, source, filters, places, out, at):
    """Pack up to 16 filters, which lie at element `source`, as the panel at `at`."""
    k = len(places)
    turned = k // TILE * TILE if filters == PANEL else 0
    for first in range(0, turned, TILE):
        for half in range(0, PANEL, TILE):
            start = source + half * k + first
            turn_tile(w, start, k, places, first, out, at + half)
    for i in range(turned, k):
        target = out[np.uintp(at + places[i]) :]
        for j in range(filters):
            target[j] = w[np.uintp(source + j * k + i)]
        for j in range(filters, PANEL):
            target[j] = np.float32(0)


@kernel
def pack_blocks_f32(w, bias, c, out):
    """Pack filters of one channel as blocks of 8, then their biases.

    Args:
        w: float32 1-D [c][taps].
        bias: float32 1-D [c], or empty for zeros.
        out: float32 1-D, written: blocks, up to a cache line, biases, then zeros.
    """
    taps, width = len(w) // c, min(c, BLOCK)
    blocks = (c + BLOCK - 1) // BLOCK
    for block in range(blocks):
        first = first_channel(block, c)
        for t in range(taps):
            target = out[np.uintp((block * taps + t) * BLOCK) :]
            for j in range(width):
                target[j] = w[np.uintp((first + j) * taps + t)]
            for j in range(width, BLOCK):
                target[j] = np.float32(0)
    size = blocks * taps * BLOCK
    rest = out[np.uintp(size) :]
    rest[:] = np.float32(0)
    start = (size + PANEL - 1) // PANEL * PANEL - size
    for i in range(len(bias)):
        rest[np.uintp(start + i)] = bias[np.uintp(i)]
