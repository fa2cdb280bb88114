"""Matrix products by the product of four bytes: unsigned activations, signed weights.

The activations are read in place: four bytes of a row are broadcast to all lanes, so
only the weights are packed. Columns go in panels of 64, 32 or 16; a panel of w * 16
columns is computed in tiles of 16 / w rows, 16 accumulators in all. Where registers
hold 4 accumulators only, every panel has 16 columns and every tile 4 rows.
Source: GotoBLAS's panels; oneDNN's vpdpbusd layout [K/4][N][4].
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu.dot import simd
from mdtensor.kernels.cpu.dot.epilogue import (
    QUAD,
    Rescaler,
    lane_mask,
    limits,
    load_vectors,
    resolve,
)
from mdtensor.kernels.cpu.dot.simd import FLOATS, I64, PRODUCT, S32, TILE
from mdtensor.kernels.cpu.jit import kernel

SPILL = TILE * 16
WIDEST = TILE // 4  # vectors of a panel
HAS_ONE_SHAPE = WIDEST == 1  # of tiles; no other is compiled
GROUP_BYTES = PRODUCT.packed_bytes  # of 4 weights of a column
HEAD_BYTES = 4 if PRODUCT.offset else 0  # of a column: offset * sum of its weights


#: Columns of packed weights lie apart from those before only at multiples of this.
PANEL_COLUMNS = 16 * WIDEST


def packed_column_bytes(k):
    """Bytes of a packed column of k weights."""
    return HEAD_BYTES + GROUP_BYTES * ((k + 3) // 4)


@kernel
def panel_width(vectors_left):
    """Vectors of 16 columns in the next panel: 4, 2 or 1."""
    if vectors_left >= WIDEST:
        return WIDEST
    return 2 if vectors_left >= 2 else 1


def pack_s8(w):
    """w[n, k] as panels [K/4][width][16][4]; K and the columns are padded with 0.

    `PRODUCT.pack` may change the last two axes. A panel starts with its heads, int32
    [width][16], if there are any.

    Args:
        w: int8 [n, k].

    Returns: int8 1-D.
    """
    n, k = w.shape
    vectors, k4 = (n + 15) // 16, (k + 3) // 4
    padded = np.zeros((vectors * 16, 4 * k4), np.int8)
    padded[:n, :k] = w
    groups = padded.reshape(vectors, 16, k4, 4).transpose(2, 0, 1, 3)
    heads = padded.sum(1, dtype=np.int32) * np.int32(PRODUCT.offset)
    parts, first = [np.zeros(0, np.int8)], 0
    while first < vectors:
        end = first + panel_width(vectors - first)
        if HEAD_BYTES:
            parts.append(heads[16 * first : 16 * end].view(np.int8))
        panel = np.ascontiguousarray(PRODUCT.pack(groups[:, first:end]))
        parts.append(panel.reshape(-1).view(np.int8))
        first = end
    return np.concatenate(parts)


def _accumulate(b, rows, width, a, lda, k4, packed, bias):
    """bias[j] + sum over k of a[r, k] * w[k, j] as rows * width vectors, row-major."""
    starts = [b.add(a, b.mul(lda, I64(r))) for r in range(rows)]
    sums = load_vectors(b, bias, width, S32)
    if HEAD_BYTES:
        heads = load_vectors(b, packed, width, S32)
        sums = [b.add(*pair) for pair in zip(sums, heads, strict=True)]
        packed = b.add(packed, I64(16 * HEAD_BYTES * width))
    vector = 16 * GROUP_BYTES

    def step(i, accumulators):
        line = b.add(packed, b.mul(i, I64(vector * width)))
        places = [b.add(line, I64(vector * v)) for v in range(width)]
        weights = [PRODUCT.packed_at(b, place) for place in places]
        offset = b.mul(i, I64(4))
        results = []
        for r in range(rows):
            codes = PRODUCT.codes_at(b, b.add(starts[r], offset))
            for v in range(width):
                old = accumulators[r * width + v]
                results.append(PRODUCT.add(b, old, codes, weights[v]))
        return results

    return simd.repeat(b, k4, sums * rows, step)


@intrinsic(prefer_literal=True)
def tile_u8(typingctx, rows, width, job):
    """One tile of `gemm_u8s8u8` with `rows` rows and 16 * `width` columns, literals.

    Args:
        job: a, lda, k4, packed, bias, ldc, mask, out, multiplier, low, high,
            zero_point, spill; arrays by address, `mask` has a bit for each column.

    Returns: 1 if a lane is near a tie and the tile is in `spill` as well, else 0.
    """
    shape = simd.literals(rows, width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[2])
        ldc, mask, out, multiplier, low, high, zero_point, spill = job[5:]
        accumulators = _accumulate(b, *shape, *job[:5])
        w_count = shape[1]
        multipliers = load_vectors(b, multiplier, w_count, FLOATS)
        rescaler = Rescaler(b, low, high, zero_point)
        size = 16 * w_count
        mask = b.trunc(mask, ir.IntType(size)) if size < 64 else mask
        for q in range(0, len(accumulators), QUAD):
            scales = multipliers * (QUAD // w_count)
            codes = rescaler.codes(b, accumulators[q : q + QUAD], scales)
            for part in range(QUAD // w_count):
                row = b.mul(ldc, I64(q // w_count + part))
                line = simd.slice_bytes(b, codes, part * size, size)
                simd.store_masked(b, line, b.add(out, row), mask)
        return rescaler.spill_near_ties(b, accumulators, spill)

    whole, real = types.int64, types.float32
    kinds = [*[whole] * 9, real, real, whole, whole]
    return whole(rows, width, types.Tuple(kinds)), emit


@intrinsic(prefer_literal=True)
def tile_s32(typingctx, rows, width, job):
    """As `tile_u8` with the job up to `out`, where sums are written; `ldc` in bytes."""
    shape = simd.literals(rows, width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[2])
        ldc, mask, out = job[5:]
        for i, sums in enumerate(_accumulate(b, *shape, *job[:5])):
            r, v = divmod(i, shape[1])
            place = b.add(b.add(out, b.mul(ldc, I64(r))), I64(64 * v))
            bits = b.trunc(b.lshr(mask, I64(16 * v)), ir.IntType(16))
            simd.store_masked(b, sums, place, bits)
        return context.get_dummy_value()

    return types.void(rows, width, types.UniTuple(types.int64, 8)), emit


@kernel
def tile_rows(width, m, row):
    """(rows, first row, how far apart) of the next tile of `m` rows.

    The last tile overlaps the one before; below 4 rows one row fills all 4.
    """
    full = TILE // width
    if row + full <= m:
        return full, row, 1
    if m >= 4:
        return 4, min(row, m - 4), 1
    return 4, row, 0


@kernel
def gemm_u8s8u8(
    a, lda, m, k, packed, n, bias, multiplier, limbs, zero_point, lo, hi, out, ldc
):
    """out[i, j] = clamp(rhe((bias[j] + sum_k a[i, k] * w[j, k]) * P/Q) + zp, lo, hi).

    Args:
        a: uint8, row i starts at i * lda; readable 64 bytes past its last row.
        packed: int8, by `pack_s8`.
        bias: int32 [n padded to 16], holds b - x_zero_point * sum_k w[j, k].
        multiplier, limbs: float32 [n padded to 16], int64 [>= n, 8], from `rescale`.
        zero_point, lo, hi: ints in 0 .. 255; output steps.
        out: uint8, row i starts at i * ldc, written, must not alias `a`.

    Rounding: half to even (rhe) of the exact rational. Overflow: k <= 66,311.
    """
    k4 = (k + 3) // 4
    column = HEAD_BYTES + GROUP_BYTES * k4
    low, high = limits(zero_point, lo, hi)
    spill = np.empty(SPILL, np.int32)
    ties = simd.address_of(spill, 0)
    vectors = (n + 15) // 16
    v = 0
    while v < vectors:
        width = panel_width(vectors - v)
        mask = lane_mask(n - 16 * v)
        weights = simd.address_of(packed, 16 * v * column)
        biases = simd.address_of(bias, 16 * v)
        scales = simd.address_of(multiplier, 16 * v)
        row = 0
        while row < m:
            rows, first, apart = tile_rows(width, m, row)
            x = simd.address_of(a, first * lda)
            y = simd.address_of(out, first * ldc + 16 * v)
            dc = apart * ldc
            job = (x, apart * lda, k4, weights, biases, dc, mask, y, scales,
                   low, high, zero_point, ties)  # fmt: skip
            if HAS_ONE_SHAPE:
                near = tile_u8(4, 1, job)
            elif width == 4:
                near = tile_u8(4, 4, job)
            elif width == 2 and rows == 8:
                near = tile_u8(8, 2, job)
            elif width == 2:
                near = tile_u8(4, 2, job)
            elif rows == 16:
                near = tile_u8(16, 1, job)
            else:
                near = tile_u8(4, 1, job)
            if near:
                resolve(spill, rows, width, 16 * v, n, multiplier, limbs,
                        zero_point, lo, hi, out, first * ldc, dc)  # fmt: skip
            row = first + rows if apart else row + 1
        v += width


@kernel
def gemm_u8s8s32(a, lda, m, k, packed, n, bias, out, ldc):
    """out[i, j] = bias[j] + sum_k a[i, k] * w[j, k], exact in int32.

    Args: as `gemm_u8s8u8`; out: int32, row i starts at i * ldc (elements).
    """
    k4 = (k + 3) // 4
    column = HEAD_BYTES + GROUP_BYTES * k4
    vectors = (n + 15) // 16
    v = 0
    while v < vectors:
        width = panel_width(vectors - v)
        mask = lane_mask(n - 16 * v)
        weights = simd.address_of(packed, 16 * v * column)
        biases = simd.address_of(bias, 16 * v)
        row = 0
        while row < m:
            rows, first, apart = tile_rows(width, m, row)
            x = simd.address_of(a, first * lda)
            y = simd.address_of(out, first * ldc + 16 * v)
            job = (x, apart * lda, k4, weights, biases, apart * ldc * 4, mask, y)
            if HAS_ONE_SHAPE:
                tile_s32(4, 1, job)
            elif width == 4:
                tile_s32(4, 4, job)
            elif width == 2 and rows == 8:
                tile_s32(8, 2, job)
            elif width == 2:
                tile_s32(4, 2, job)
            elif rows == 16:
                tile_s32(16, 1, job)
            else:
                tile_s32(4, 1, job)
            row = first + rows if apart else row + 1
        v += width
