"""Products of float32 activations with quantized weights, on any CPU.

    out[i, j] = bias[j] + sum_k a[i, k] * w[j, k]        as in `float_matmul.py`
    w[j, k] = float32(scale * (code[j, k] - zero))       rounded once

Each panel of 16 columns is dequantized just before it is multiplied. The result has the
same bytes as the product with weights that were dequantized before.

    8-bit codes     int8 [n / 16][k][16]
    4-bit codes     uint8 [n / 16][ceil(k / 2)][16], the even k in the low nibble
    scales, zeros   float32 [n / 16][ceil(k / size)][16], each for `size` neighbours
                    along k; zeros are integers
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.generic.activation import KEEP, ZERO
from mdtensor.kernels.cpu.generic.float_matmul import multiply_panel
from mdtensor.kernels.cpu.generic.float_packing import (
    PANEL,
    pack_grid as pack_grid,
    pack_rows as pack_rows,
    pad_rows as pad_rows,
)
from mdtensor.kernels.cpu.jit import kernel


def transpose_block(rows, first, i, panels, p):
    """Set panels[p, i : i + 16] = rows[first : first + 16, i : i + 16].T; all bytes."""
    panels[p, i : i + PANEL] = rows[first : first + PANEL, i : i + PANEL].T


@overload(transpose_block, inline="always")
def _transpose_block(rows, first, i, panels, p):
    def transpose(rows, first, i, panels, p):
        width = np.int64(rows.shape[1])
        source = vectors.address_of(rows, np.int64(first) * width + np.int64(i))
        at = (np.int64(p) * width + np.int64(i)) * PANEL
        transpose_bytes(source, width, vectors.address_of(panels, at))

    return transpose


@intrinsic
def transpose_bytes(typingctx, source, pitch, target):
    """Transpose 16 x 16 bytes: rows `pitch` bytes apart become 256 adjacent bytes."""

    def emit(context, b, signature, arguments):
        source, pitch, target = arguments
        kind = ir.VectorType(vectors.I8, PANEL)
        rows = [
            vectors.load(b, b.add(source, b.mul(pitch, vectors.I64(r))), kind)
            for r in range(PANEL)
        ]
        low, high = [
            [half * PANEL // 2 + i // 2 + PANEL * (i % 2) for i in range(PANEL)]
            for half in (0, 1)
        ]
        # Each round interleaves halves, which rotates the 8 bits of every byte's place
        # by one. Four rounds swap row and column.
        for _ in range(4):
            pairs = zip(rows[: PANEL // 2], rows[PANEL // 2 :], strict=True)
            rows = [
                b.shuffle_vector(x, y, vectors.constant(vectors.I32, order))
                for x, y in pairs
                for order in (low, high)
            ]
        for r, row in enumerate(rows):
            vectors.store(b, row, b.add(target, vectors.I64(PANEL * r)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


@kernel
def interleave(rows, panels):
    """Set panels[p, i, j] = rows[16 * p + j, i]; bytes, C-contiguous."""
    width = panels.shape[1]
    whole = width // PANEL * PANEL
    for p in range(panels.shape[0]):
        for i in range(0, whole, PANEL):
            transpose_block(rows, p * PANEL, i, panels, p)
        for i in range(whole, width):
            for j in range(PANEL):
                panels[p, i, j] = rows[p * PANEL + j, i]


@kernel
def unpack_s8(packed, k, first, start, stop, scales, zeros, size, weights):
    """Set weights[i - start, j] = scale * (code - zero), in the panel at `first`.

    Args:
        first: the first column of the panel.
        start, stop: the part of k.
    """
    codes = packed[np.uintp(first * k) :]
    blocks = (k + size - 1) // size
    i = start
    while i < stop:
        block = i // size
        end = min(stop, (block + 1) * size)
        at = first * blocks + block * PANEL
        scale, zero = scales[np.uintp(at) :], zeros[np.uintp(at) :]
        source = codes[np.uintp(i * PANEL) :]
        target = weights[np.uintp((i - start) * PANEL) :]
        for r in range(np.uintp(end - i)):
            for j in range(np.uintp(PANEL)):
                place = r * np.uintp(PANEL) + j
                step = np.float32(np.float32(source[place]) - zero[j])
                target[place] = np.float32(step * scale[j])
        i = end


@kernel
def unpack_u4(packed, k, first, start, stop, scales, zeros, size, weights):
    """Unpack 4-bit codes as `unpack_s8` does 8-bit codes; `start` is even."""
    codes = packed[np.uintp(first * ((k + 1) // 2)) :]
    blocks = (k + size - 1) // size
    i = start
    while i < stop:
        block = i // size
        end = min(stop, (block + 1) * size)
        at = first * blocks + block * PANEL
        scale, zero = scales[np.uintp(at) :], zeros[np.uintp(at) :]
        source = codes[np.uintp(i // 2 * PANEL) :]
        target = weights[np.uintp((i - start) * PANEL) :]
        for r in range(np.uintp(end - i)):
            line = source[(r >> np.uintp(1)) * np.uintp(PANEL) :]
            row = target[r * np.uintp(PANEL) :]
            # One branch per row, not per code, leaves loops that vectorize.
            if r & np.uintp(1):
                for j in range(np.uintp(PANEL)):
                    step = np.float32(np.float32(line[j] >> np.uint8(4)) - zero[j])
                    row[j] = np.float32(step * scale[j])
            else:
                for j in range(np.uintp(PANEL)):
                    step = np.float32(np.float32(line[j] & np.uint8(15)) - zero[j])
                    row[j] = np.float32(step * scale[j])
        i = end


@kernel
def gemm_f32s8f32(a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc):
    """Set out[i, j] = bias[j] + sum_k a[i, k] * scale * (code[j, k] - zero).

    Args:
        a: float32, row i starts at i * lda.
        packed: int8 codes, by `pack_rows`.
        scales, zeros: by `pack_grid`, each for `size` neighbours along k.
        bias: float32 [n padded to 16].
        out: float32, row i starts at i * ldc, written, must not alias `a`.

    Rounding: each weight once; then as in `gemm_f32f32f32`.
    """
    weights = np.empty(k * PANEL, np.float32)
    for first in range(0, n, PANEL):
        unpack_s8(packed, k, first, 0, k, scales, zeros, size, weights)
        start = bias[np.uintp(first) : np.uintp(first + PANEL)]
        after = start[:0], KEEP, ZERO, ZERO
        multiply_panel(
            *(a, lda, m, k, weights, start, after),
            *(out, first, ldc, min(PANEL, n - first)),
        )


@kernel
def gemm_f32u4f32(a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc):
    """Multiply as `gemm_f32s8f32` does, with two 4-bit codes in a byte.

    `size` is even or at least k.
    """
    weights = np.empty(k * PANEL, np.float32)
    for first in range(0, n, PANEL):
        unpack_u4(packed, k, first, 0, k, scales, zeros, size, weights)
        start = bias[np.uintp(first) : np.uintp(first + PANEL)]
        after = start[:0], KEEP, ZERO, ZERO
        multiply_panel(
            *(a, lda, m, k, weights, start, after),
            *(out, first, ldc, min(PANEL, n - first)),
        )
