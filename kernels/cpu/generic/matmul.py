"""Matrix products of unsigned codes with signed weights, on any CPU.

The sums are formed in float32, because plain loops over float32 fill the vector
units of every ISA. A partial sum of 512 products is an integer below 2**24, so it is
exact in any order. Chunks of 512 products are added in int32.
"""

import numpy as np

from mdtensor.kernels.cpu.generic import packing
from mdtensor.kernels.cpu.generic.packing import (
    pack_s8 as pack_s8,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import requantize_row, requantize_rows

# Float32 represents every integer up to 2**24, and 512 * 255 * 128 is less.
CHUNK = 512
# Lanes that are rounded together; fewer would leave vectors partly empty.
BLOCK_LANES = 256
# All values are exact integers, so neither contraction nor order changes a bit.
EXACT_MATH = {"contract", "reassoc", "nsz"}


padded_columns = kernel(packing.padded_columns)


@kernel
def pack_codes(y, by_k, by_n, k, n, zero, packed):
    """Set packed = pack_s8(w), w[j, i] = y[i * by_k + j * by_n] - 128, i < k, j < n.

    Args:
        y: uint8 1-D.
        zero: not read here, see AVX2.
        packed: uint8 1-D, written, `packed_column_bytes(k)` for each padded column.
    """
    columns, one = np.uintp(padded_columns(n)), np.uintp(by_n)
    panel = packed.view(np.float32)
    for i in range(np.uintp(-(-k // 4) * 4)):
        target = panel[i * columns : (i + np.uintp(1)) * columns]
        for j in range(columns):
            target[j] = np.float32(0)
        if i < np.uintp(k):
            source = y[i * np.uintp(by_k) :]
            for j in range(np.uintp(n)):
                target[j] = np.float32(source[j * one]) - np.float32(128)


@kernel
def block_rows(columns):
    """Return how many rows are rounded together: several if a row is short."""
    return max(4, BLOCK_LANES // columns // 4 * 4)


@kernel
def _load_rows(a, lda, row, m, first, k, width, count, rows):
    """Set rows[r, i] = a[row + r, first + i] as float32.

    Row m - 1 is repeated for rows from m on.
    """
    k = np.uintp(k)
    width = np.uintp(width)
    # Rows without gaps are one long row.
    if np.uintp(lda) == width and row + np.uintp(count) <= np.uintp(m):
        source = a[row * width : (row + np.uintp(count)) * width]
        for i in range(np.uintp(count) * width):
            rows[i] = np.float32(source[i])
        return
    for r in range(np.uintp(count)):
        at = np.uintp(min(row + r, np.uintp(m - 1))) * np.uintp(lda) + np.uintp(first)
        line = a[at : at + k]
        target = rows[r * width : (r + np.uintp(1)) * width]
        for i in range(k):
            target[i] = np.float32(line[i])
        for i in range(k, width):
            target[i] = np.float32(0)


@kernel(fastmath=EXACT_MATH)
def _four_rows_f32(rows, width, w, n, sums):
    """Set sums[r, j] = sum over i of rows[r, i] * w[i, j]; 4 rows, width % 4 == 0."""
    # Four rows share each load of the weights, and four steps each store of a sum.
    one = np.uintp(1)
    s0, s1 = sums[:n], sums[n : n * np.uintp(2)]
    s2, s3 = sums[n * np.uintp(2) : n * np.uintp(3)], sums[n * np.uintp(3) :]
    r0, r1 = rows[:width], rows[width : width * np.uintp(2)]
    r2 = rows[width * np.uintp(2) : width * np.uintp(3)]
    r3 = rows[width * np.uintp(3) :]
    for j in range(n * np.uintp(4)):
        sums[j] = np.float32(0)
    for q in range(width // np.uintp(4)):
        i = q * np.uintp(4)
        i1, i2, i3 = i + one, i + np.uintp(2), i + np.uintp(3)
        w0, w1 = w[i * n : i1 * n], w[i1 * n : i2 * n]
        w2, w3 = w[i2 * n : i3 * n], w[i3 * n : (i3 + one) * n]
        a0, a1, a2, a3 = r0[i], r0[i1], r0[i2], r0[i3]
        b0, b1, b2, b3 = r1[i], r1[i1], r1[i2], r1[i3]
        c0, c1, c2, c3 = r2[i], r2[i1], r2[i2], r2[i3]
        d0, d1, d2, d3 = r3[i], r3[i1], r3[i2], r3[i3]
        for j in range(n):
            s0[j] += a0 * w0[j] + a1 * w1[j] + a2 * w2[j] + a3 * w3[j]
            s1[j] += b0 * w0[j] + b1 * w1[j] + b2 * w2[j] + b3 * w3[j]
            s2[j] += c0 * w0[j] + c1 * w1[j] + c2 * w2[j] + c3 * w3[j]
            s3[j] += d0 * w0[j] + d1 * w1[j] + d2 * w2[j] + d3 * w3[j]


@kernel
def _rows_s32(a, lda, row, m, k, panel, n, rows, sums, acc, count):
    """Set acc[r, j] = sum over k of a[row + r, k] * w[k, j] in int32, r < count."""
    four = np.uintp(4)
    for j in range(np.uintp(count) * n):
        acc[j] = np.int32(0)
    first = 0
    while first < k:
        chunk = min(k - first, CHUNK)
        width = np.uintp((chunk + 3) // 4 * 4)
        _load_rows(a, lda, row, m, first, chunk, width, count, rows)
        w = panel[np.uintp(first) * n : (np.uintp(first) + width) * n]
        for r in range(np.uintp(count) // four):
            part = rows[r * four * width : (r + np.uintp(1)) * four * width]
            _four_rows_f32(part, width, w, n, sums)
            target = acc[r * four * n : (r + np.uintp(1)) * four * n]
            for j in range(four * n):
                target[j] = np.int32(target[j] + np.int32(sums[j]))
        first += CHUNK


@kernel
def gemm_u8s8u8(
    a, lda, m, k, packed, n, bias, multiplier, limbs, exception_sums,
    zero_point, lo, hi, out, ldc,
):  # fmt: skip
    """Set out = clamp(rhe((a @ w.T + bias) * ratio) + zero_point, lo, hi).

    Args:
        a: uint8 1-D, row i starts at i * lda; readable 64 bytes past its last row.
        packed: w int8 [n, k] from `pack_s8`.
        bias: int32 [padded n], holds b - x_zero_point * sum of the row of w.
        multiplier, limbs: float32 [padded n], int64 [padded n, 8], from `rescale`.
        exception_sums: int32 [0]; this kernel finds sums near ties instead.
        zero_point, lo, hi: int in 0 .. 255.
        out: uint8 1-D, row i at i * ldc, n written per row; must not alias `a`.

    Rounding: half to even (rhe) of the exact rational. Overflow: int32 holds sums of
    k <= 65,793 products; the result saturates.
    """
    columns = np.uintp(padded_columns(n))
    count = np.uintp(block_rows(columns))
    lanes = count * columns
    rows = np.empty(int(count) * (min(k, CHUNK) + 3), np.float32)
    sums = np.empty(np.uintp(4) * columns, np.float32)
    acc = np.empty(lanes, np.int32)
    codes = np.empty(lanes, np.uint8)
    tiled_bias = np.empty(lanes, np.int32)
    tiled_multiplier = np.empty(lanes, np.float32)
    for r in range(count):
        for j in range(columns):
            tiled_bias[r * columns + j] = bias[j]
            tiled_multiplier[r * columns + j] = multiplier[j]
    panel = packed.view(np.float32)
    row = np.uintp(0)
    while row < np.uintp(m):
        _rows_s32(a, lda, row, m, k, panel, columns, rows, sums, acc, count)
        requantize_row(
            *(acc, tiled_bias, tiled_multiplier, limbs, columns),
            *(zero_point, lo, hi, codes),
        )
        for r in range(min(count, np.uintp(m) - row)):
            at = (row + r) * np.uintp(ldc)
            line = codes[r * columns : r * columns + np.uintp(n)]
            target = out[at : at + np.uintp(n)]
            for j in range(np.uintp(n)):
                target[j] = line[j]
        row += count


@kernel
def gemm_u8s8s32(a, lda, m, k, packed, n, bias, out, ldc):
    """Set out = a @ w.T + bias, exact in int32.

    Args: as `gemm_u8s8u8`; out: int32 1-D, row i at i * ldc, n written per row.
    """
    columns = np.uintp(padded_columns(n))
    rows = np.empty(4 * (min(k, CHUNK) + 3), np.float32)
    sums = np.empty(np.uintp(4) * columns, np.float32)
    acc = np.empty(np.uintp(4) * columns, np.int32)
    panel = packed.view(np.float32)
    row = np.uintp(0)
    while row < np.uintp(m):
        _rows_s32(a, lda, row, m, k, panel, columns, rows, sums, acc, np.uintp(4))
        for r in range(min(np.uintp(4), np.uintp(m) - row)):
            at = (row + r) * np.uintp(ldc)
            line = acc[r * columns : r * columns + np.uintp(n)]
            target = out[at : at + np.uintp(n)]
            for j in range(np.uintp(n)):
                target[j] = np.int32(line[j] + bias[j])
        row += np.uintp(4)


@kernel
def gemm_u8u8u8(
    a, m, k, packed, n, bias, zero, multiplier, limbs, zero_point, lo, hi, sums, out
):
    """out[i, j] = clamp(rhe((bias[j] + sum_k a[i, k] * (w[j, k] - zero)) * P/Q) + zp).

    Args: as `gemm_u8s8u8`, but for
        a, out: uint8 1-D, rows without gaps.
        packed: uint8 1-D, by `pack_codes` with this `zero`.
        zero: the zero point of its codes, minus 128.
        multiplier, limbs: the same for all columns.
        sums: int32 [>= m * n], written.
    """
    gemm_u8s8s32(a, k, m, k, packed.view(np.int8), n, bias, sums, n)
    # Every column lacks the same term: the zero point times the sum of the row.
    requantize_rows(
        *(sums[: np.uintp(m * n)], a, k, -zero, multiplier, limbs),
        *(zero_point, lo, hi, n, out),
    )
