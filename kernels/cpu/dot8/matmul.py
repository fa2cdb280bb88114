"""Matrix products with the four-byte dot product: unsigned codes, signed weights.

Activations are read in place: four bytes of a row are broadcast to all lanes, so only
weights are packed. Columns form panels of up to 6 vectors of 16, each computed in
tiles of 24 accumulators. Some hundred rows stay in the second cache while all panels
pass over them. If registers hold only 4 accumulators, every panel has 16 columns and
every tile 4 rows.

Source: GotoBLAS's panels; oneDNN's vpdpbusd layout [K/4][N][4].
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.dot8 import packing, simd
from mdtensor.kernels.cpu.dot8.epilogue import (
    EPILOGUES,
    QUAD,
    epilogue_of,
    load_vectors,
    resolve,
)
from mdtensor.kernels.cpu.dot8.packing import (
    GROUP_BYTES,
    HAS_ONE_SHAPE,
    HEAD_BYTES,
    OFFSET as PRODUCT_OFFSET,
    TILE,
    pack_s8 as pack_s8,
)
from mdtensor.kernels.cpu.dot8.simd import I64, PRODUCT, S32
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import (
    exact_offset,
    limit_codes,
    offset_of,
    requantize_rows,
)

# Flips the top bit of a code, which subtracts 128 modulo 256.
FLIP = np.uint8(128)
panel_width = kernel(packing.panel_width)


@kernel
def pack_codes(y, by_k, by_n, k, n, zero, packed):
    """Set packed = pack_s8(w), w[j, i] = y[i * by_k + j * by_n] - 128, i < k, j < n.

    Args:
        y: uint8 1-D.
        zero: not read here, see AVX2.
        packed: uint8 1-D, written, `packed_column_bytes(k)` for each column, with
            columns padded to 16.
    """
    k4, vectors, first = (k + 3) // 4, (n + 15) // 16, 0
    column = HEAD_BYTES + GROUP_BYTES * k4
    while first < vectors:
        width = panel_width(first, vectors, k4)
        place = 16 * first * column
        panel = packed[np.uintp(place) : np.uintp(place + 16 * width * column)]
        source = y[np.uintp(16 * first * by_n) :]
        columns = min(16 * width, n - 16 * first)
        if HEAD_BYTES != 0:
            heads = panel[: np.uintp(16 * width * HEAD_BYTES)].view(np.int32)
            sum_columns(source, by_k, by_n, k, columns, heads)
            panel = panel[np.uintp(16 * width * HEAD_BYTES) :]
        for q in range(k4):
            size = 16 * width * GROUP_BYTES
            target = panel[np.uintp(q * size) : np.uintp((q + 1) * size)]
            rows = min(4, k - 4 * q)
            pack_group(
                source[np.uintp(4 * q * by_k) :], by_k, by_n, rows, columns, target
            )
        first += width


@kernel
def sum_columns(y, by_k, by_n, k, columns, heads):
    """Set heads[j] = offset * sum over i < k of (y[i * by_k + j * by_n] - 128)."""
    for j in range(len(heads)):
        total = 0
        if j < columns:
            for i in range(k):
                total += np.int64(y[np.uintp(i * by_k + j * by_n)]) - 128
        heads[j] = np.int32(total * PRODUCT_OFFSET)


@kernel
def pack_group(y, by_k, by_n, rows, columns, target):
    """Pack up to four weights of each column, as `PRODUCT.pack` does."""
    if rows < 4 or np.uintp(GROUP_BYTES * columns) < np.uintp(len(target)):
        for i in range(len(target)):
            target[i] = np.uint8(0)
    if GROUP_BYTES == 8:
        words = target.view(np.int16)
        for i in range(rows):
            for j in range(columns):
                # Vectors of 16 columns hold first the even rows, then the odd rows.
                at = 64 * (j // 16) + 32 * (i % 2) + 2 * (j % 16) + i // 2
                code = np.int16(y[np.uintp(i * by_k + j * by_n)])
                words[np.uintp(at)] = np.int16(code - np.int16(128))
        return
    for i in range(rows):
        source, lane = y[np.uintp(i * by_k) :], np.uintp(i)
        for j in range(np.uintp(columns)):
            target[4 * j + lane] = source[j * np.uintp(by_n)] ^ FLIP


#: `gemm_u8s8u8` compares sums with exception sums.
# Rows of a tile of 3 vectors if tiles of 8 rows would leave a single row, as with 49
# rows (decision 0043).
TALL = 9
SPILL = 16 * (TILE if HAS_ONE_SHAPE else 3 * TALL)
# Steps of k at once, because the address of each row costs an instruction.
UNROLLED = 2
# Rows of the smaller tile of each width.
FEW = 4
# Bytes of rows that stay in the second cache.
BLOCK = 1 << 18
# A multiple of the rows of every tile.
WHOLE = 120


# Tiles hold 24 sums, which keep both product pipes of VNNI busy (decision 0041).
@kernel
def tile_rows(width):
    """Return the rows of a tile: 24 accumulators, or 25."""
    if HAS_ONE_SHAPE:
        return FEW
    return 5 if width == 5 else TILE // width


def _accumulate(b, rows, width, a, lda, k4, packed, bias):
    """Return bias[j] + sum over k of a[r, k] * w[k, j] as vectors, row-major."""
    starts = [b.add(a, b.mul(lda, I64(r))) for r in range(rows)]
    sums = load_vectors(b, bias, width, S32)
    if HEAD_BYTES:
        heads = load_vectors(b, packed, width, S32)
        sums = [b.add(*pair) for pair in zip(sums, heads, strict=True)]
        packed = b.add(packed, I64(16 * HEAD_BYTES * width))
    vector = 16 * GROUP_BYTES

    def step(i, sums):
        line = b.add(packed, b.mul(i, I64(vector * width)))
        places = [b.add(line, I64(vector * v)) for v in range(width)]
        weights = [PRODUCT.load_weights(b, place) for place in places]
        offset, results = b.mul(i, I64(4)), []
        for r in range(rows):
            codes = PRODUCT.codes_at(b, b.add(starts[r], offset))
            for v in range(width):
                old = sums[r * width + v]
                results.append(PRODUCT.add(b, old, codes, weights[v]))
        return results

    def steps(i, sums):
        for part in range(UNROLLED):
            sums = step(b.add(b.mul(i, I64(UNROLLED)), I64(part)), sums)
        return sums

    whole = b.sdiv(k4, I64(UNROLLED))
    sums = simd.repeat(b, whole, sums * rows, steps)
    done = b.mul(whole, I64(UNROLLED))
    return simd.repeat(b, b.sub(k4, done), sums, lambda i, c: step(b.add(done, i), c))


def _bits(b, left, first, count):
    """Return a mask of 16 * count bits, one for each column that the matrix has.

    Args:
        left: columns of the matrix from the tile's first column on.
        first, count: vectors of the tile.
    """
    size = 16 * count
    rest = b.sub(left, I64(16 * first))
    rest = b.select(b.icmp_signed("<", rest, I64(0)), I64(0), rest)
    some = b.sub(b.shl(I64(1), rest), I64(1))
    bits = b.select(b.icmp_signed(">=", rest, I64(size)), I64(-1), some)
    return b.trunc(bits, ir.IntType(size)) if size < 64 else bits


def _runs(rows, width):
    """Return the vectors of a tile in groups of four.

    Each group is a list of runs (row, first vector, count), a run within one row.
    """
    whole = [[(r, v, QUAD)] for r in range(rows) for v in range(0, width - 3, QUAD)]
    for bit in (2, 1):
        first, count = width // (2 * bit) * (2 * bit), QUAD // bit
        runs = [(r, first, bit) for r in range(rows) if width & bit]
        whole += [runs[i : i + count] for i in range(0, len(runs), count)]
    return whole


def _store_runs(b, codes, runs, masks, ldc, out):
    """Store 16 codes of each vector of the runs, without columns beyond the matrix."""
    at = 0
    for r, first, count in runs:
        line = simd.slice_bytes(b, codes, at, 16 * count)
        row = b.add(out, b.mul(ldc, I64(r)))
        simd.store_lanes(b, line, b.add(row, I64(16 * first)), masks[first, count])
        at += 16 * count


@intrinsic(prefer_literal=True)
def tiles_u8(typingctx, rows, width, epilogue, job):
    """Compute tiles of `gemm_u8s8u8` downwards, up to one that integers decide.

    Args:
        rows, width: literals; a tile has `rows` rows and 16 * `width` columns.
        epilogue: literal, number of the epilogue, to which `offset` belongs.
        job: count, a, lda, k4, packed, bias, ldc, left (columns), out, multiplier,
            exception_sums, offset, spill; arrays by address.

    Returns: 2 * tiles done, + 1 if integers decide lanes of the last one; then its sums
        are in `spill`.
    """
    shape = simd.literals(rows, width, epilogue)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        rows, width, number = shape
        count, a, lda, *job = cgutils.unpack_tuple(b, arguments[3])
        k4, packed, bias, ldc, left, out, *constants, offset, spill = job
        kind = EPILOGUES[number]
        scales = kind.load(b, *constants, width)
        groups = _runs(rows, width)
        kinds = {(first, count) for runs in groups for _, first, count in runs}
        masks = {kind: _bits(b, left, *kind) for kind in sorted(kinds)}

        def tile(a, out):
            sums = _accumulate(b, rows, width, a, lda, k4, packed, bias)
            rescaler = kind(b, offset)
            for runs in groups:
                places = [(r, v + i) for r, v, count in runs for i in range(count)]
                whole = (places * QUAD)[:QUAD]
                quad = [sums[r * width + v] for r, v in whole]
                codes = rescaler.codes(b, quad, [scales[v] for _, v in whole])
                _store_runs(b, simd.in_order(b, codes), runs, masks, ldc, out)
            flag = rescaler.is_undecided(b)
            # 32 registers keep the sums while they are rounded, so they need not be
            # computed again for integers.
            with b.if_then(flag, likely=False):
                for i, accumulator in enumerate(sums):
                    simd.store(b, accumulator, b.add(spill, I64(64 * i)))
            return b.zext(flag, I64)

        steps = [b.mul(step, I64(rows)) for step in (lda, ldc)]
        return vectors.advance(b, count, [a, out], steps, tile)

    kinds = [*[types.int64] * 11, types.float32, types.int64]
    return types.int64(rows, width, epilogue, types.Tuple(kinds)), emit


@intrinsic(prefer_literal=True)
def tiles_s32(typingctx, rows, width, job):
    """Store the int32 sums of tiles; the job ends with `out`; `ldc` in bytes."""
    shape = simd.literals(rows, width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        rows, width = shape
        job = cgutils.unpack_tuple(b, arguments[2])
        count, a, lda, k4, packed, bias, ldc, left, out = job
        masks = [_bits(b, left, v, 1) for v in range(width)]

        def tile(a, out):
            sums = _accumulate(b, rows, width, a, lda, k4, packed, bias)
            for i, accumulator in enumerate(sums):
                r, v = divmod(i, width)
                place = b.add(b.add(out, b.mul(ldc, I64(r))), I64(64 * v))
                simd.store_lanes(b, accumulator, place, masks[v])
            return I64(0)

        steps = [b.mul(step, I64(rows)) for step in (lda, ldc)]
        return vectors.advance(b, count, [a, out], steps, tile)

    return types.int64(rows, width, types.UniTuple(types.int64, 9)), emit


@kernel
def next_tiles(full, m, row, end):
    """Return (rows of a tile, first row, tiles, row distance) from `row` to `end`.

    A tile that would pass row m overlaps the tile before. Fewer than 4 rows in all are
    computed one by one, each by all rows of a tile.
    """
    left = end - row
    if full == TALL - 1 and left > 1 and left % full == 1:
        if left == TALL:
            return TALL, row, 1, 1
        return full, row, left // full - 1, 1
    if row + full <= end:
        return full, row, (end - row) // full, 1
    if m >= full and m - row > FEW:
        return full, m - full, 1, 1
    if m >= FEW:
        return FEW, min(row, m - FEW), max(1, (m - row) // FEW), 1
    return FEW, row, 1, 0


def make_runner(name, epilogue):
    """Return a kernel `name` that runs `tiles_u8` for the shapes of `next_tiles`."""

    def run(width, rows, job):
        if HAS_ONE_SHAPE:
            return tiles_u8(4, 1, epilogue, job)
        if width == 6:
            return tiles_u8(4, 6, epilogue, job)
        if width == 5:
            if rows == 5:
                return tiles_u8(5, 5, epilogue, job)
            return tiles_u8(4, 5, epilogue, job)
        if width == 4:
            if rows == 6:
                return tiles_u8(6, 4, epilogue, job)
            return tiles_u8(4, 4, epilogue, job)
        if width == 3:
            if rows == TALL:
                return tiles_u8(9, 3, epilogue, job)
            if rows == 8:
                return tiles_u8(8, 3, epilogue, job)
            return tiles_u8(4, 3, epilogue, job)
        if width == 2:
            if rows == 12:
                return tiles_u8(12, 2, epilogue, job)
            return tiles_u8(4, 2, epilogue, job)
        if rows == 24:
            return tiles_u8(24, 1, epilogue, job)
        return tiles_u8(4, 1, epilogue, job)

    # Callers in other processes find the kernel by this name.
    run.__name__ = run.__qualname__ = name
    return kernel(run)


run_tiles = make_runner("run_tiles", 0)
run_excepting_tiles = make_runner("run_excepting_tiles", 1)
run_exact_tiles = make_runner("run_exact_tiles", 2)


@kernel
def run_any_tiles(epilogue, width, rows, job):
    """Run the tiles with one of three epilogues."""
    if epilogue == 0:
        return run_tiles(width, rows, job)
    if epilogue == 1:
        return run_excepting_tiles(width, rows, job)
    return run_exact_tiles(width, rows, job)


@kernel
def run_tiles_s32(width, rows, job):
    """Run `tiles_s32` for a shape from `next_tiles`."""
    if HAS_ONE_SHAPE:
        return tiles_s32(4, 1, job)
    if width == 6:
        return tiles_s32(4, 6, job)
    if width == 5:
        return tiles_s32(5, 5, job) if rows == 5 else tiles_s32(4, 5, job)
    if width == 4:
        return tiles_s32(6, 4, job) if rows == 6 else tiles_s32(4, 4, job)
    if width == 3:
        if rows == TALL:
            return tiles_s32(9, 3, job)
        return tiles_s32(8, 3, job) if rows == 8 else tiles_s32(4, 3, job)
    if width == 2:
        return tiles_s32(12, 2, job) if rows == 12 else tiles_s32(4, 2, job)
    return tiles_s32(24, 1, job) if rows == 24 else tiles_s32(4, 1, job)


@kernel
def block_rows(k):
    """Return the number of rows in a block.

    Every panel of weights is multiplied by one block before the next block starts.
    """
    return max(1, BLOCK // max(k, 1) // WHOLE) * WHOLE


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
        exception_sums: int32 [n padded to 16], or [0] if a channel has several.
        zero_point, lo, hi: ints in 0 .. 255, output codes.
        out: uint8, row i starts at i * ldc, written, must not alias `a`.

    Rounding: half to even (rhe) of the exact rational. Overflow: k <= 65,793.
    """
    k4 = (k + 3) // 4
    column = HEAD_BYTES + GROUP_BYTES * k4
    epilogue = epilogue_of(exception_sums, n)
    offset = exact_offset(zero_point) if epilogue else offset_of(zero_point)
    spill = np.empty(SPILL, np.int32)
    step, count = block_rows(k), (n + 15) // 16
    for start in range(0, m, step):
        end = min(m, start + step)
        v = 0
        while v < count:
            width = panel_width(v, count, k4)
            weights = vectors.address_of(packed, 16 * v * column)
            biases = vectors.address_of(bias, 16 * v)
            scales = vectors.address_of(multiplier, 16 * v)
            known = vectors.address_of(exception_sums, 16 * v)
            sums = vectors.address_of(spill, 0)
            row = start
            while row < end:
                rows, first, tiles, apart = next_tiles(tile_rows(width), m, row, end)
                row = first + rows * tiles if apart else row + 1
                while tiles > 0:
                    x = vectors.address_of(a, first * lda)
                    y = vectors.address_of(out, first * ldc + 16 * v)
                    job = (tiles, x, apart * lda, k4, weights, biases, apart * ldc,
                           n - 16 * v, y, scales, known, offset,
                           sums)  # fmt: skip
                    ended = run_any_tiles(epilogue, width, rows, job)
                    tiles -= ended >> 1
                    first += rows * (ended >> 1)
                    if ended & 1:
                        at = (first - rows) * ldc
                        resolve(spill, rows, width, 16 * v, n, multiplier, limbs,
                                exception_sums, zero_point, lo, hi, out, at,
                                apart * ldc)  # fmt: skip
            v += width
    # Packing saturates at 0 and 255, so only other limits need a pass (decision 0042).
    if lo > 0 or hi < 255:
        for row in range(m):
            limit_codes(out, row * ldc, n, lo, hi)


@kernel
def gemm_u8s8s32(a, lda, m, k, packed, n, bias, out, ldc):
    """out[i, j] = bias[j] + sum_k a[i, k] * w[j, k], exact in int32.

    Args: as `gemm_u8s8u8`; out: int32, row i starts at i * ldc (elements).
    """
    k4 = (k + 3) // 4
    column = HEAD_BYTES + GROUP_BYTES * k4
    step, count = block_rows(k), (n + 15) // 16
    for start in range(0, m, step):
        end = min(m, start + step)
        v = 0
        while v < count:
            width = panel_width(v, count, k4)
            weights = vectors.address_of(packed, 16 * v * column)
            biases = vectors.address_of(bias, 16 * v)
            row = start
            while row < end:
                rows, first, tiles, apart = next_tiles(tile_rows(width), m, row, end)
                x = vectors.address_of(a, first * lda)
                y = vectors.address_of(out, first * ldc + 16 * v)
                job = (tiles, x, apart * lda, k4, weights, biases, 4 * apart * ldc,
                       n - 16 * v, y)  # fmt: skip
                ended = run_tiles_s32(width, rows, job)
                row = first + rows * (ended >> 1) if apart else row + 1
            v += width


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
