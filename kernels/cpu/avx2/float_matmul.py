"""Products of float32 matrices on AVX2 with FMA, or on AVX-512.

A tile of AVX2 has 6 rows by two vectors, 4 rows by three, 12 rows by one or one row by
eight; a tile of AVX-512 has 8 rows by three vectors. 8 to 24 vectors of sums stay in
registers. A step, one index of k, reads the vectors of weights and broadcasts one
element of each row of `a`. Some panels of weights stay in the second-level cache while
some hundred rows are multiplied by them. Between two blocks of k the sums are stored in
`out`. A tile prefetches the cache lines of its neighbours in `out`.

Source: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication",
2008.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2.activation import activate, add_residual
from mdtensor.kernels.cpu.avx2.packing import IS_WIDE
from mdtensor.kernels.cpu.generic.activation import KEEP, ZERO
from mdtensor.kernels.cpu.generic.float_matmul import copy_rows, finish_columns
from mdtensor.kernels.cpu.generic.float_packing import PANEL
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import F32, I64

LANES = 16 if IS_WIDE else 8
FLOATS = ir.VectorType(F32, LANES)
WIDTH = PANEL // LANES  # vectors of a panel
ROWS = 8 if IS_WIDE else 6
MOST = 3 if IS_WIDE else 1  # panels of a tile
# Steps at once, because the addresses of the rows cost instructions.
UNROLLED = 2 if IS_WIDE else 4
LINE = 4 * PANEL  # bytes of one step of k in a panel
# Steps of a block: its panels must fit the second cache.
DEPTH = 2048 if IS_WIDE else 1024
# Bytes of panels that stay in the second cache.
BLOCK = (384 if IS_WIDE else 256) << 10
# Bytes of rows that stay in the third cache while all panels pass over them.
HEIGHT = 2 << 20


@kernel
def block_columns(depth):
    """Return the columns of a block of `depth` steps."""
    panels = BLOCK // (LINE * max(depth, 1))
    return PANEL * MOST * max(panels // MOST, 1)


def load_floats(b, address, count):
    """Load `count` vectors of float32, one after the other."""
    places = [b.add(address, I64(4 * LANES * v)) for v in range(count)]
    return [vectors.load(b, place, FLOATS) for place in places]


def add_products(b, sums, lines, offset, weights):
    """Return sums[r][v] + a[r] * weights[v], rounded once; `lines` hold a[r]."""
    width, added = len(weights), []
    for r, line in enumerate(lines):
        # Rows are not packed: one number is broadcast to all lanes.
        number = vectors.load(b, b.add(line, offset), F32)
        x = vectors.splat(b, number, LANES)
        row = sums[r * width : (r + 1) * width]
        pairs = zip(weights, row, strict=True)
        added += [multiply_add(b, x, w, s) for w, s in pairs]
    return added


def multiply_add(b, x, y, z):
    """Return x * y + z per float32 lane, rounded once."""
    return vectors.call(b, f"llvm.fma.v{LANES}f32", FLOATS, x, y, z)


def repeat_steps(b, count, sums, step):
    """Emit sums = step(i, sums) for i < count, UNROLLED steps in one iteration."""

    def steps(i, sums):
        for part in range(UNROLLED):
            sums = step(b.add(b.mul(i, I64(UNROLLED)), I64(part)), sums)
        return sums

    whole = b.sdiv(count, I64(UNROLLED))
    sums, done = vectors.repeat(b, whole, sums, steps), b.mul(whole, I64(UNROLLED))
    rest = b.sub(count, done)
    return vectors.repeat(b, rest, sums, lambda i, s: step(b.add(done, i), s))


def prefetch_neighbours(b, rows, panels, out, ldc):
    """Prefetch the cache lines of `out` to the right of a tile and below it."""
    for r in range(rows):
        right = b.add(b.add(out, b.mul(ldc, I64(r))), I64(LINE * panels))
        below = b.add(out, b.mul(ldc, I64(rows + r)))
        for p in range(panels):
            vectors.prefetch(b, b.add(right, I64(LINE * p)))
            vectors.prefetch(b, b.add(below, I64(LINE * p)))


def _tile(b, rows, width, job, limits, a, packed, start, out, residual):
    """Compute one tile of `width` vectors and write it to `out`.

    It adds products to the sums at `start`, then the residual, and activates.
    """
    pitch, k, panel, start_pitch, ldc, activation = job
    lines = [b.add(a, b.mul(pitch, I64(r))) for r in range(rows)]
    begins = [b.add(start, b.mul(start_pitch, I64(r))) for r in range(rows)]
    first = [v for begin in begins for v in load_floats(b, begin, width)]
    # A tile may end inside a panel.
    panels = [b.add(packed, b.mul(panel, I64(v // WIDTH))) for v in range(width)]
    places = [b.add(p, I64(4 * LANES * (v % WIDTH))) for v, p in enumerate(panels)]

    def step(i, sums):
        at = b.mul(i, I64(LINE))
        weights = [vectors.load(b, b.add(place, at), FLOATS) for place in places]
        return add_products(b, sums, lines, b.mul(i, I64(4)), weights)

    # The next tiles write there, and the prefetch hides the latency (decision 0042).
    prefetch_neighbours(b, rows, -(-width // WIDTH), out, ldc)
    sums = repeat_steps(b, k, first, step)
    offsets = [
        b.add(b.mul(ldc, I64(i // width)), I64(4 * LANES * (i % width)))
        for i in range(len(sums))
    ]
    sums = add_residual(b, sums, activation, residual, offsets)
    for offset, value in zip(
        offsets, activate(b, sums, activation, *limits), strict=True
    ):
        vectors.store(b, value, b.add(out, offset))


@intrinsic(prefer_literal=True)
def tiles_f32(typingctx, rows, width, job, low, high):
    """Compute `count` tiles side by side, of the same rows.

    Args:
        rows, width: literals; a tile has `rows` rows and `width` vectors.
        job: count, packed, start, out, a, residual, pitch, k, panel, start_pitch, ldc,
            activation; arrays by address, pitches in bytes. `panel` is the distance to
            the next panel; `start` is the bias, with a pitch of 0, or `out`; `residual`
            has the pitch of `out`, or is 0. A tile that ends inside a panel is the
            only one.
    """
    shape = vectors.literals(rows, width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, packed, start, out, a, residual, *job = cgutils.unpack_tuple(
            b, arguments[2]
        )

        def tile(packed, start, out, residual):
            _tile(b, *shape, job, arguments[3:], a, packed, start, out, residual)
            return I64(0)

        side = I64(4 * LANES * shape[1])
        has_residual = b.icmp_signed("!=", residual, I64(0))
        steps = [b.mul(job[2], I64(max(shape[1] // WIDTH, 1))), side, side]
        steps.append(b.select(has_residual, side, I64(0)))
        places = [packed, start, out, residual]
        return vectors.advance(b, count, places, steps, tile)

    kinds = types.UniTuple(types.int64, 12), types.float32, types.float32
    return types.int64(rows, width, *kinds), emit


@kernel
def block_rows(depth):
    """Return the rows of a block of `depth` steps, in whole tiles."""
    return max(ROWS, HEIGHT // (4 * max(depth, 1)) // ROWS * ROWS)


@kernel
def tile_rows(left):
    """Return the rows of the next tile, with `left` rows left."""
    if not IS_WIDE:
        # Tiles of one or two rows wait for their sums, so two tiles share what is left.
        most = (left + 1) // 2 if left < 2 * ROWS else ROWS
        return left if left <= ROWS else most
    if left >= ROWS:
        return ROWS
    return 4 if left >= 4 else min(left, 2)


@kernel
def run_narrow(rows, width, job, low, high):
    """Run `tiles_f32` on AVX2, for the rows that `tile_rows` or `tail_rows` return."""
    if width == 3:
        if rows == 4:
            return tiles_f32(4, 3, job, low, high)
        if rows == 2:
            return tiles_f32(2, 3, job, low, high)
        return tiles_f32(1, 3, job, low, high)
    if width == 1:
        if rows == 12:
            return tiles_f32(12, 1, job, low, high)
        if rows == 4:
            return tiles_f32(4, 1, job, low, high)
        if rows == 2:
            return tiles_f32(2, 1, job, low, high)
        return tiles_f32(1, 1, job, low, high)
    if rows == 6:
        return tiles_f32(6, 2, job, low, high)
    if rows == 5:
        return tiles_f32(5, 2, job, low, high)
    if rows == 4:
        return tiles_f32(4, 2, job, low, high)
    return tiles_f32(3, 2, job, low, high)


# With two or four sums each multiply-add would wait for the one before it
# (decision 0066).
@kernel
def run_few(rows, job, low, high):
    """Run tiles of one or two rows over job[0] panels on AVX2, as `run_tiles`."""
    count, packed, start, out, a, residual, pitch, k, panel = job[:9]
    more = pitch, k, panel, job[9], job[10], job[11]
    panels = 4 if rows == 1 else 2
    tiles = count // panels
    done = tiles * panels
    at = done * LINE
    if tiles > 0:
        all_of_it = tiles, packed, start, out, a, residual, *more
        if rows == 1:
            tiles_f32(1, 8, all_of_it, low, high)
        else:
            tiles_f32(2, 4, all_of_it, low, high)
    if count > done:
        other = residual + at if residual != 0 else residual
        places = packed + done * panel, start + at, out + at, a, other
        if rows == 1:
            tiles_f32(1, 2, (count - done, *places, *more), low, high)
        else:
            tiles_f32(2, 2, (count - done, *places, *more), low, high)
    return 2 * count


@kernel
def run_wide(rows, panels, job, low, high):
    """Run `tiles_f32` of up to 3 panels, for `tile_rows` on AVX-512."""
    if panels == 3:
        if rows == 8:
            return tiles_f32(8, 3, job, low, high)
        if rows == 4:
            return tiles_f32(4, 3, job, low, high)
        if rows == 2:
            return tiles_f32(2, 3, job, low, high)
        return tiles_f32(1, 3, job, low, high)
    if panels == 2:
        if rows == 8:
            return tiles_f32(8, 2, job, low, high)
        if rows == 4:
            return tiles_f32(4, 2, job, low, high)
        if rows == 2:
            return tiles_f32(2, 2, job, low, high)
        return tiles_f32(1, 2, job, low, high)
    if rows == 8:
        return tiles_f32(8, 1, job, low, high)
    if rows == 4:
        return tiles_f32(4, 1, job, low, high)
    if rows == 2:
        return tiles_f32(2, 1, job, low, high)
    return tiles_f32(1, 1, job, low, high)


@kernel
def run_tiles(rows, job, low, high):
    """Run tiles over job[0] panels."""
    if not IS_WIDE:
        if rows <= 2:
            return run_few(rows, job, low, high)
        return run_narrow(rows, 2, job, low, high)
    count, packed, start, out, a, residual, pitch, k, panel = job[:9]
    start_pitch, ldc, activation = job[9:]
    # A tile of one panel is slow.
    is_one_over = count % MOST == 1 and count > MOST
    tiles = count // MOST - is_one_over
    left, done = count - MOST * tiles, MOST * tiles
    more = pitch, k, panel, start_pitch, ldc, activation
    if tiles > 0:
        run_wide(rows, MOST, (tiles, packed, start, out, a, residual, *more), low, high)
    if left > 0:
        width, at = min(left, 2), done * LINE
        other = residual + at if residual != 0 else residual
        places = packed + done * panel, start + at, out + at, a, other
        run_wide(rows, width, (left // width, *places, *more), low, high)
    return 2 * count


@kernel
def copy_columns(source, first, pitch, rows, columns, target, at, ldc):
    """Set target[at + r * ldc + j] = source[first + r * pitch + j], j < columns."""
    for r in range(rows):
        line = source[np.uintp(first + r * pitch) :]
        row = target[np.uintp(at + r * ldc) :]
        for j in range(np.uintp(columns)):
            row[j] = line[j]


@kernel
def tail_rows(left, width):
    """Return the rows of the next tile of one or three vectors on AVX2."""
    most = 12 if width == 1 else 4
    if left >= most:
        return most
    return 4 if left >= 4 else min(left, 2)


@kernel
def multiply_block(
    a, lda, rows, block, weights, panel, n, bias, after, out, ldc, stage
):
    """Multiply rows by some panels, over a part of k.

    The sums start at the bias; if it is empty, or behind the first part, they continue
    the sums in `out`.

    Args:
        rows: (first, end).
        block: k: first, steps; columns: first.
        weights: address of the first panel at the first step; the next panel lies
            `panel` bytes on. The panels have columns up to `n`.
        after: residual, activation, low, high, see `gemm_act_f32`.
        stage: float32 [ROWS * 16], for columns that do not fill a panel.
    """
    begin, depth, first = block
    residual, activation, low, high = after
    whole, cut = (n - first) // PANEL, (n - first) % PANEL
    # On AVX2 half a panel is one vector; with the panel before it, it fills a tile.
    tail = 0
    if not IS_WIDE and cut == LANES:
        tail = min(whole, 1)
        whole, cut, tail = whole - tail, 0, 1 + 2 * tail
    continues = begin > 0 or len(bias) == 0
    i, end = rows
    while i < end and whole + cut > 0:
        height = tile_rows(end - i)
        x = vectors.address_of(a, i * lda + begin)
        at = i * ldc + first
        y = vectors.address_of(out, at)
        start, start_pitch = y, 4 * ldc
        if not continues:
            start, start_pitch = vectors.address_of(bias, first), 0
        if whole > 0:
            other = vectors.address_of(residual, at) if len(residual) > 0 else 0
            run_tiles(height, (whole, weights, start, y, x, other, 4 * lda, depth,
                               panel, start_pitch, 4 * ldc, activation),
                      low, high)  # fmt: skip
        if cut > 0:
            at += whole * PANEL
            y = vectors.address_of(stage, 0)
            start += whole * LINE
            # `out` holds the sums of earlier blocks; its rows end inside the panel.
            if continues:
                copy_columns(out, at, ldc, height, cut, stage, 0, PANEL)
                start, start_pitch = y, LINE
            run_tiles(height, (1, weights + whole * panel, start, y, x, 0, 4 * lda,
                               depth, panel, start_pitch, LINE, KEEP),
                      low, high)  # fmt: skip
            finish_columns(stage, 0, PANEL, height, cut, after, out, at, ldc)
        i += height
    if tail > 0:
        i, end = rows
    while i < end:
        height = tail_rows(end - i, tail)
        x = vectors.address_of(a, i * lda + begin)
        at = i * ldc + first + whole * PANEL
        y = vectors.address_of(out, at)
        start, start_pitch = y, 4 * ldc
        if not continues:
            start, start_pitch = vectors.address_of(bias, first + whole * PANEL), 0
        other = vectors.address_of(residual, at) if len(residual) > 0 else 0
        run_narrow(height, tail, (1, weights + whole * panel, start, y, x, other,
                                  4 * lda, depth, panel, start_pitch, 4 * ldc,
                                  activation), low, high)  # fmt: skip
        i += height


@kernel
def gemm_act_f32(
    a, lda, m, k, packed, n, bias, residual, activation, low, high, out, ldc
):
    """out[i, j] = act(bias[j] + sum_k a[i, k] * w[j, k] + residual[i, j]).

    Args:
        a: float32, row i starts at i * lda.
        packed: float32, by `pack_f32`.
        bias: float32 [n padded to 16]; empty: the sums begin at `out`.
        residual: float32, row i starts at i * ldc; empty: nothing is added.
        activation, low, high: see `generic/activation.py`.
        out: float32, row i starts at i * ldc, written, must not alias `a`.

    Rounding: each step of the sum once, half to even, k in ascending order; then the
    residual and the activation. NaN and infinities are as in IEEE 754.
    """
    stage = np.empty(ROWS * PANEL, np.float32)
    nothing = residual[:0]
    for begin in range(0, max(k, 1), DEPTH):
        depth = min(DEPTH, k - begin)
        after = nothing, KEEP, ZERO, ZERO
        if begin + depth == k:
            after = residual, activation, low, high
        columns, height = block_columns(depth), block_rows(depth)
        # A block of rows meets all panels before the next rows do, so that rows come
        # from the third cache and panels from the second (decision 0042).
        for i in range(0, m, height):
            rows = i, min(m, i + height)
            for j in range(0, n, columns):
                weights = vectors.address_of(packed, j * k + begin * PANEL)
                last = min(n, j + columns)
                multiply_block(a, lda, rows, (begin, depth, j), weights, k * LINE,
                               last, bias, after, out, ldc, stage)  # fmt: skip


@kernel
def gemm_f32f32f32(a, lda, m, k, packed, n, bias, out, ldc):
    """Set out[i, j] = bias[j] + sum_k a[i, k] * w[j, k], as `gemm_act_f32`."""
    nothing = bias[:0]
    gemm_act_f32(a, lda, m, k, packed, n, bias, nothing, KEEP, ZERO, ZERO, out, ldc)


@kernel
def gemm_from_f32(a, lda, m, k, packed, n, start, lds, out, ldc):
    """Set out[i, j] = start[i, j] + sum_k a[i, k] * w[j, k]; the sum begins at `start`.

    Args:
        start: float32, row i starts at i * lds; must not alias `out`.
        a, packed, out: as for `gemm_act_f32`.
    """
    if n % PANEL > 0 or k > DEPTH:
        copy_rows(start, lds, m, n, out, ldc)
        nothing = start[:0]
        gemm_act_f32(
            a, lda, m, k, packed, n, nothing, nothing, KEEP, ZERO, ZERO, out, ldc
        )
        return
    # A step of a recurrent layer has no time for more than its tiles.
    columns = block_columns(k)
    for first in range(0, n, columns):
        count, i = min(columns, n - first) // PANEL, 0
        weights = vectors.address_of(packed, first * k)
        while i < m:
            rows = tile_rows(m - i)
            x = vectors.address_of(a, i * lda)
            begin = vectors.address_of(start, i * lds + first)
            y = vectors.address_of(out, i * ldc + first)
            run_tiles(rows, (count, weights, begin, y, x, 0, 4 * lda, k, k * LINE,
                             4 * lds, 4 * ldc, KEEP), ZERO, ZERO)  # fmt: skip
            i += rows
