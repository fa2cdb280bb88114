"""Matrix products with vpmaddwd: rows widened to int16, weights packed as byte pairs.

A block of rows is widened once. Then it is multiplied by one panel of 16 columns after
another, in tiles of 6 rows: 12 accumulators, two vectors of weights, one broadcast pair
of codes and one product fill the 16 registers. A last panel of 8 columns has tiles of
12 rows. Weights are widened as they are loaded: as bytes they take half the memory
traffic.

Source: GotoBLAS's panels.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.epilogue import (
    QUAD,
    Rescaler,
    load_multipliers,
    load_vectors,
    resolve,
)
from mdtensor.kernels.cpu.avx2.packing import (
    pack_s8 as pack_s8,
)
from mdtensor.kernels.cpu.avx2.simd import LANES, S32, WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import offset_of, requantize_rows
from mdtensor.kernels.cpu.vectors import I8, I64, address_of

# Codes that are widened at once.
PART = 16


# Rows are widened once per block, since every tile of the block reads them (decision
# 0023).
@intrinsic
def widen(typingctx, job):
    """Widen codes: block[r, i] = a[r, i] as int16, 16 at a time, in order.

    Args:
        job: a, lda, rows, parts (of 16 in a row), block, pitch; arrays by address,
            lda and pitch in bytes.
    """

    def emit(context, b, signature, arguments):
        a, lda, rows, parts, block, pitch = cgutils.unpack_tuple(b, arguments[0])
        codes = ir.VectorType(I8, PART)

        def row(_, places):
            a, block = places

            def part(i, nothing):
                source = vectors.load(b, b.add(a, b.mul(i, I64(PART))), codes)
                place = b.add(block, b.mul(i, I64(2 * PART)))
                vectors.store(b, b.zext(source, WORDS), place)
                return nothing

            vectors.repeat(b, parts, [], part)
            return [b.add(a, lda), b.add(block, pitch)]

        vectors.repeat(b, rows, [a, block], row)
        return context.get_dummy_value()

    return types.void(types.UniTuple(types.int64, 6)), emit


@kernel
def widen_rows(a, lda, first, count, k, pitch, block):
    """Widen rows to int16: block[r, i] = a[first + r, i]; block rows have `pitch`.

    The values after the k values of a row are undefined; their weights are 0. Up to 15
    codes after the last row are read, and as many values of the block are written.
    """
    source = address_of(a, first * lda)
    # Rows without gaps are one row.
    if lda == pitch:
        k, count = count * pitch, 1
    parts = (k + PART - 1) // PART
    widen((source, lda, count, parts, address_of(block, 0), 2 * pitch))


# Accumulators of a full tile. With two vectors of weights, one of codes and one product
# they fill 16 registers.
TILE = 12
# int16 values of a block of rows, which stay in the second cache.
BLOCK = 1 << 15


# Flips the top bit of a code, which subtracts 128 modulo 256.
FLIP = np.uint8(128)
#: The most codes in a row whose sum two int16 hold.
MOST_TERM_DEPTH = 2 * 32767 // 255


# LLVM would store the pairs byte by byte.
@intrinsic
def interleave_rows(typingctx, job):
    """Set target[p, c] = (y[2 * p, c], y[2 * p + 1, c]) - 128 for 16 columns c.

    Args:
        job: y, pitch, pairs, target; arrays by address, pitch in bytes.
    """

    def emit(context, b, signature, arguments):
        y, pitch, pairs, target = cgutils.unpack_tuple(b, arguments[0])
        row, flips = ir.VectorType(I8, PART), vectors.constant(I8, [128] * 2 * PART)
        places = [i // 2 + PART * (i % 2) for i in range(2 * PART)]

        def pair(_, carried):
            y, target = carried
            rows = [vectors.load(b, y, row), vectors.load(b, b.add(y, pitch), row)]
            line = b.shuffle_vector(*rows, vectors.constant(vectors.I32, places))
            vectors.store(b, b.xor(line, flips), target)
            step = b.add(y, b.mul(pitch, I64(2)))
            return [step, b.add(target, I64(2 * PART))]

        vectors.repeat(b, pairs, [y, target], pair)
        return context.get_dummy_value()

    return types.void(types.UniTuple(types.int64, 4)), emit


@kernel
def term_groups(k, zero):
    """Return how many groups of 4 weights the term of a row takes: 0 or 1."""
    return 1 if zero != 0 and k <= MOST_TERM_DEPTH else 0


# The sum of a row, as two int16 behind its codes, times the two halves of -zero is the
# term of the row; so tiles round by themselves (decision 0052).
@kernel
def pack_codes(y, by_k, by_n, k, n, zero, packed):
    """Set packed = pack_s8(w), w[j, i] = y[i * by_k + j * by_n] - 128, i < k, j < n.

    If `term_groups`, each column has four weights more: -zero // 2 twice, and twice
    what -zero is more.

    Args:
        y: uint8 1-D.
        zero: the zero point of y, minus 128.
        packed: uint8 1-D, written, `packed_column_bytes(k)` + TERM_BYTES for each
            column, with columns padded to 8.
    """
    codes = (k + 3) // 4 * 4
    rows = codes + 4 * term_groups(k, zero)
    for j in range(0, n, 2 * LANES):
        width, _ = panel_shape(n - j)
        columns = min(width * LANES, n - j)
        for i in range(codes, rows, 2):
            start = j * rows + i * width * LANES
            half = -zero // 2
            weight = np.uint8((half if i == codes else -zero - half) & 255)
            for c in range(np.uintp(start), np.uintp(start + 2 * width * LANES)):
                packed[c] = weight
        done = 0
        if by_n == 1 and columns == 2 * LANES:
            done = k // 2 * 2
            source, target = address_of(y, j), address_of(packed, j * rows)
            interleave_rows((source, by_k, done // 2, target))
        for i in range(done, codes, 2):
            start = j * rows + i * width * LANES
            target = packed[np.uintp(start) : np.uintp(start + 2 * width * LANES)]
            if i + 2 > k or columns < width * LANES:
                pack_edge(y, i * by_k + j * by_n, by_k, by_n, k - i, columns, target)
                continue
            upper = y[np.uintp(i * by_k + j * by_n) :]
            lower = y[np.uintp((i + 1) * by_k + j * by_n) :]
            for c in range(np.uintp(columns)):
                target[2 * c] = upper[c * np.uintp(by_n)] ^ FLIP
                target[2 * c + 1] = lower[c * np.uintp(by_n)] ^ FLIP


@kernel
def pack_edge(y, start, by_k, by_n, rows, columns, target):
    """Pack two rows of a panel of which only some rows and columns exist."""
    for i in range(len(target)):
        target[i] = np.uint8(0)
    for i in range(min(2, rows)):
        for c in range(columns):
            target[2 * c + i] = y[np.uintp(start + i * by_k + c * by_n)] ^ FLIP


def _accumulate(b, rows, width, a, pitch, k4, packed, bias):
    """Return bias[j] + sum over k of a[r, k] * w[k, j] as vectors, row-major."""
    starts = [b.add(a, b.mul(pitch, I64(r))) for r in range(rows)]
    biases = load_vectors(b, bias, width, S32)

    def step(i, sums):
        sums = list(sums)
        offset = b.mul(i, I64(8))
        line = b.add(packed, b.mul(i, I64(32 * width)))
        for pair in range(2):
            # This emits no instruction, but without it LLVM loads weights early and
            # spills a sum.
            b.fence("acq_rel", "singlethread")
            place = b.add(line, I64(16 * width * pair))
            weights = simd.load_words(b, place, width)
            for r in range(rows):
                place = b.add(b.add(starts[r], offset), I64(4 * pair))
                codes = simd.load_broadcast(b, place)
                for v in range(width):
                    product = simd.multiply_pairs(b, codes, weights[v])
                    sums[r * width + v] = b.add(sums[r * width + v], product)
        return sums

    return vectors.repeat(b, k4, biases * rows, step)


def _quads(accumulators):
    """Yield (first, vectors, quad) for each four of the accumulators.

    `quad` is four vectors: if fewer are left, they are repeated.
    """
    for q in range(0, len(accumulators), QUAD):
        part = accumulators[q : q + QUAD]
        yield q, part, part * (QUAD // len(part))


def store_codes(b, sums, rounding, out, ldc):
    """Round the sums of a tile to codes; return 1 if one is near a tie, else 0.

    Args:
        sums: vectors, row-major.
        rounding: a vector of multipliers for each vector of a row; offset, lo, hi.
    """
    multipliers, *limits = rounding
    width = len(multipliers)
    scales, rescaler = multipliers * (QUAD // width), Rescaler(b, *limits)
    for q, part, quad in _quads(sums):
        codes = rescaler.codes(b, quad, scales)
        for i in range(0, len(part), width):
            row = b.add(out, b.mul(ldc, I64((q + i) // width)))
            vectors.store(b, vectors.slice_bytes(b, codes, 8 * i, 8 * width), row)
    return rescaler.has_near_tie(b)


@intrinsic(prefer_literal=True)
def tiles_u8(typingctx, rows, width, job):
    """Compute tiles of `gemm_u8s8u8` downwards, up to one with a lane near a tie.

    Args:
        rows, width: literals; a tile has `rows` rows and 8 * `width` columns.
        job: count, a, pitch, k4, packed, bias, ldc, out, multiplier, lo, hi,
            offset; arrays by address, `a` int16, pitches in bytes.

    Returns: 2 * tiles done, + 1 if the last one has such a lane.
    """
    shape = vectors.literals(rows, width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, a, *rest = cgutils.unpack_tuple(b, arguments[2])
        pitch, k4, packed, bias, ldc, out, multiplier, lo, hi, offset = rest
        rounding = load_multipliers(b, multiplier, shape[1]), offset, lo, hi

        def tile(a, out):
            sums = _accumulate(b, *shape, a, pitch, k4, packed, bias)
            return store_codes(b, sums, rounding, out, ldc)

        steps = [b.mul(step, I64(shape[0])) for step in (pitch, ldc)]
        return vectors.advance(b, count, [a, out], steps, tile)

    kinds = [*[types.int64] * 11, types.float32]
    return types.int64(rows, width, types.Tuple(kinds)), emit


@intrinsic(prefer_literal=True)
def tiles_s32(typingctx, rows, width, job):
    """Store the int32 sums of tiles; the job ends with `out`."""
    shape = vectors.literals(rows, width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, a, pitch, k4, packed, bias, ldc, out = cgutils.unpack_tuple(
            b, arguments[2]
        )

        def tile(a, out):
            sums = _accumulate(b, *shape, a, pitch, k4, packed, bias)
            for i, accumulator in enumerate(sums):
                r, v = divmod(i, shape[1])
                place = b.add(b.add(out, b.mul(ldc, I64(r))), I64(32 * v))
                vectors.store(b, accumulator, place)
            return I64(0)

        steps = [b.mul(step, I64(shape[0])) for step in (pitch, ldc)]
        return vectors.advance(b, count, [a, out], steps, tile)

    return types.int64(rows, width, types.UniTuple(types.int64, 8)), emit


@kernel
def next_tiles(width, row, count):
    """Return (rows of a tile, first row, tiles) at row `row` of `count`.

    The tiles start before `row` if fewer rows are left than a larger tile has.
    """
    full, left = TILE // width, count - row
    if left >= full:
        return full, row, left // full
    # A tile that repeats a finished row is faster than two smaller tiles.
    if width == 2 and left == 5 and row > 0:
        return full, row - 1, 1
    if left >= 4:
        return 4, row, left // 4
    if left == 3 and row > 0:
        return 4, row - 1, 1
    if width == 2 and left >= 2:
        return 2, row, 1
    return 1, row, left


@kernel
def block_rows(pitch):
    """Return how many rows are widened at once, in whole tiles."""
    return max(TILE, BLOCK // pitch // TILE * TILE)


@kernel
def copy_rows(stage, width, rows, columns, out, at, ldc):
    """Set out[at + r * ldc + j] = stage[r, j] for j < columns."""
    for r in range(rows):
        source = stage[np.uintp(r * width) :]
        target = out[np.uintp(at + r * ldc) :]
        for j in range(np.uintp(columns)):
            target[j] = source[j]


# Codes are widened to 16 bits, because `vpmaddubsw` saturates at 32,767 (decision
# 0023).
@kernel
def gemm_u8s8u8(
    a, lda, m, k, packed, n, bias, multiplier, limbs, exception_sums,
    zero_point, lo, hi, out, ldc,
):  # fmt: skip
    """out[i, j] = clamp(rhe((bias[j] + sum_k a[i, k] * w[j, k]) * P/Q) + zp, lo, hi).

    Args:
        a: uint8, row i starts at i * lda; readable 64 bytes past its last row.
        packed: int8, by `pack_s8`.
        bias: int32 [n padded to 16], holds b - x_zero_point * sum_k w[j, k].
        multiplier, limbs: float32 [n padded to 16], int64 [>= n, 8], from `rescale`.
        exception_sums: int32 [0]; this kernel finds sums near ties instead.
        zero_point, lo, hi: ints in 0 .. 255, output codes.
        out: uint8, row i starts at i * ldc, written, must not alias `a`.

    Rounding: half to even (rhe) of the exact rational. Overflow: k <= 65,793.
    """
    _round_products(a, lda, m, k, 0, packed, n, bias, multiplier, limbs,
                    zero_point, lo, hi, out, ldc)  # fmt: skip


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
        sums: int32 [>= m * n], written if rows are long.
    """
    groups, weights = term_groups(k, zero), packed.view(np.int8)
    if groups != 0:
        _round_products(a, k, m, k, groups, weights, n, bias, multiplier, limbs,
                        zero_point, lo, hi, out, n)  # fmt: skip
        return
    gemm_u8s8s32(a, k, m, k, weights, n, bias, sums, n)
    # Every column lacks the same term: the zero point times the sum of the row.
    requantize_rows(
        *(sums[: np.uintp(m * n)], a, k, -zero, multiplier, limbs),
        *(zero_point, lo, hi, n, out),
    )


@kernel
def add_terms(block, k, rows, pitch):
    """Put the sum of the k codes of each row into its last four values.

    The sum is a + b with int16 a and b, which are there twice.
    """
    for r in range(np.uintp(rows)):
        row = block[r * np.uintp(pitch) : (r + np.uintp(1)) * np.uintp(pitch)]
        total = np.int32(0)
        for i in range(np.uintp(k)):
            total = np.int32(total + np.int32(row[i]))
        first = np.int16(min(total, np.int32(32767)))
        second = np.int16(total - np.int32(first))
        at = np.uintp(pitch - 4)
        row[at], row[at + np.uintp(2)] = first, first
        row[at + np.uintp(1)], row[at + np.uintp(3)] = second, second


@kernel
def _round_products(
    a, lda, m, k, terms, packed, n, bias, multiplier, limbs,
    zero_point, lo, hi, out, ldc,
):  # fmt: skip
    """Compute `gemm_u8s8u8`, or with one group of `terms` `gemm_u8u8u8`."""
    k4 = (k + 3) // 4 + terms
    offset = offset_of(zero_point)
    step = max(1, min(block_rows(4 * k4), m))
    block = np.empty(step * 4 * k4 + PART, np.int16)
    spill = np.empty(TILE * LANES, np.int32)
    stage = np.empty(step * 2 * LANES, np.uint8)
    for start in range(0, m, step):
        count = min(step, m - start)
        widen_rows(a, lda, start, count, k, 4 * k4, block)
        if terms != 0:
            add_terms(block, k, count, 4 * k4)
        for j in range(0, n, 2 * LANES):
            width, is_cut = panel_shape(n - j)
            target = vectors.address_of(out, start * ldc + j)
            # Tiles store whole vectors, so columns that do not fill a panel are copied.
            if is_cut:
                target = vectors.address_of(stage, 0)
            dc = width * LANES if is_cut else ldc
            weights = vectors.address_of(packed, j * 4 * k4)
            biases = vectors.address_of(bias, j)
            scales = vectors.address_of(multiplier, j)
            row = 0
            while row < count:
                rows, first, tiles = next_tiles(width, row, count)
                x = vectors.address_of(block, first * 4 * k4)
                y = target + first * dc
                job = (tiles, x, 8 * k4, k4, weights, biases, dc, y, scales, lo, hi,
                       offset)  # fmt: skip
                done = run_tiles_u8(width, rows, job)
                row = first + rows * (done >> 1)
                # The tile is summed again, because 16 registers cannot keep the sums
                # while they are rounded (decision 0023).
                if done & 1:
                    x = vectors.address_of(block, (row - rows) * 4 * k4)
                    sums = vectors.address_of(spill, 0)
                    again = (1, x, 8 * k4, k4, weights, biases, 32 * width, sums)
                    run_tiles_s32(width, rows, again)
                    at = (row - rows) * dc
                    if is_cut:
                        resolve(spill, rows, width, j, n, multiplier, limbs,
                                zero_point, lo, hi, stage, at - j, dc)  # fmt: skip
                    else:
                        resolve(spill, rows, width, j, n, multiplier, limbs,
                                zero_point, lo, hi, out, start * ldc + at,
                                dc)  # fmt: skip
            if is_cut:
                copy_rows(stage, dc, count, n - j, out, start * ldc + j, ldc)


@kernel
def panel_shape(columns):
    """Return (vectors of the next panel, whether it is wider than the columns left)."""
    width = 2 if columns > LANES else 1
    return width, columns < width * LANES


@kernel
def run_tiles_u8(width, rows, job):
    """Run `tiles_u8` for a shape from `next_tiles`."""
    # A tile is compiled for literal sizes, so each shape is a call of its own.
    if width == 2:
        if rows == 6:
            return tiles_u8(6, 2, job)
        if rows == 4:
            return tiles_u8(4, 2, job)
        if rows == 2:
            return tiles_u8(2, 2, job)
        return tiles_u8(1, 2, job)
    if rows == 12:
        return tiles_u8(12, 1, job)
    if rows == 4:
        return tiles_u8(4, 1, job)
    return tiles_u8(1, 1, job)


@kernel
def run_tiles_s32(width, rows, job):
    """Run `tiles_s32` for a shape from `next_tiles`."""
    if width == 2:
        if rows == 6:
            return tiles_s32(6, 2, job)
        if rows == 4:
            return tiles_s32(4, 2, job)
        if rows == 2:
            return tiles_s32(2, 2, job)
        return tiles_s32(1, 2, job)
    if rows == 12:
        return tiles_s32(12, 1, job)
    if rows == 4:
        return tiles_s32(4, 1, job)
    return tiles_s32(1, 1, job)


@kernel
def gemm_u8s8s32(a, lda, m, k, packed, n, bias, out, ldc):
    """out[i, j] = bias[j] + sum_k a[i, k] * w[j, k], exact in int32.

    Args: as `gemm_u8s8u8`; out: int32, row i starts at i * ldc (elements).
    """
    k4 = (k + 3) // 4
    step = max(1, min(block_rows(4 * k4), m))
    block = np.empty(step * 4 * k4 + PART, np.int16)
    stage = np.empty(step * 2 * LANES, np.int32)
    for start in range(0, m, step):
        count = min(step, m - start)
        widen_rows(a, lda, start, count, k, 4 * k4, block)
        for j in range(0, n, 2 * LANES):
            width, is_cut = panel_shape(n - j)
            target = vectors.address_of(out, start * ldc + j)
            if is_cut:
                target = vectors.address_of(stage, 0)
            dc = width * LANES if is_cut else ldc
            weights = vectors.address_of(packed, j * 4 * k4)
            biases = vectors.address_of(bias, j)
            row = 0
            while row < count:
                rows, first, tiles = next_tiles(width, row, count)
                x = vectors.address_of(block, first * 4 * k4)
                y = target + 4 * first * dc
                job = (tiles, x, 8 * k4, k4, weights, biases, 4 * dc, y)
                row = first + rows * (run_tiles_s32(width, rows, job) >> 1)
            if is_cut:
                copy_rows(stage, dc, count, n - j, out, start * ldc + j, ldc)
