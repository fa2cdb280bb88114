"""Products of float32 matrices on AVX2 with FMA: tiles of 6 rows by 16 columns.

A tile keeps its 12 vectors of sums in registers and takes two vectors of weights and 6
numbers of `a`, each in all lanes, a step. Blocks of k and of rows keep what the tiles
read in the caches; between two blocks of k the sums rest in `out`.

Source: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication",
2008.
"""

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.simd import FLOATS, LANES
from mdtensor.kernels.cpu.float_matmul import PANEL, pack_f32 as pack_f32
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import F32, I64

ROWS = 6
LINE = 4 * PANEL  # bytes of one step of k in a panel
DEPTH = 512  # steps of a block: 32 KiB of weights
BLOCK = 192  # rows of a block: with DEPTH steps they fill 3/4 of the second cache


def load_floats(b, address, count):
    """`count` vectors of 8 numbers, one after the other."""
    return [vectors.load(b, b.add(address, I64(32 * v)), FLOATS) for v in range(count)]


def add_products(b, sums, lines, offset, weights):
    """sums[r][v] + a[r] * weights[v], rounded once; `lines` say where a[r] lies."""
    width, added = len(weights), []
    for r, line in enumerate(lines):
        number = vectors.load(b, b.add(line, offset), F32)
        x = vectors.splat(b, number, LANES)
        row = sums[r * width : (r + 1) * width]
        pairs = zip(weights, row, strict=True)
        added += [simd.multiply_add(b, x, w, s) for w, s in pairs]
    return added


def _tile(b, rows, job, a, start, out):
    """One tile: its sums go on from `start`, and are written to `out`."""
    pitch, k, packed, start_pitch, ldc = job
    lines = [b.add(a, b.mul(pitch, I64(r))) for r in range(rows)]
    begins = [b.add(start, b.mul(start_pitch, I64(r))) for r in range(rows)]
    first = [v for begin in begins for v in load_floats(b, begin, 2)]

    def step(i, sums):
        weights = load_floats(b, b.add(packed, b.mul(i, I64(LINE))), 2)
        return add_products(b, sums, lines, b.mul(i, I64(4)), weights)

    sums = vectors.repeat(b, k, first, step)
    for i, value in enumerate(sums):
        row = b.add(out, b.mul(ldc, I64(i // 2)))
        vectors.store(b, value, b.add(row, I64(32 * (i % 2))))


@intrinsic(prefer_literal=True)
def tiles_f32(typingctx, rows, job):
    """`count` tiles of one panel, one below the other.

    Args:
        rows: a literal; a tile has `rows` rows and 16 columns.
        job: count, a, start, out, ahead, lines, pitch, k, packed, start_pitch, ldc;
            arrays by address, pitches in bytes. `start` is the bias, with a pitch of 0,
            or `out`. Each tile asks for `lines` lines of the cache from `ahead` on.
    """
    shape = vectors.literals(rows)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, a, start, out, ahead, lines, *rest = cgutils.unpack_tuple(
            b, arguments[1]
        )
        pitch, _, _, start_pitch, ldc = rest

        def tile(a, start, out, ahead):
            below = b.add(out, b.mul(ldc, I64(shape[0])))
            for r in range(shape[0]):
                vectors.prefetch(b, b.add(below, b.mul(ldc, I64(r))))
            prefetch_lines(b, ahead, lines)
            _tile(b, shape[0], rest, a, start, out)
            return I64(0)

        steps = [b.mul(step, I64(shape[0])) for step in (pitch, start_pitch, ldc)]
        steps.append(b.mul(lines, I64(64)))
        return vectors.advance(b, count, [a, start, out, ahead], steps, tile)

    return types.int64(rows, types.UniTuple(types.int64, 11)), emit


def prefetch_lines(b, address, count):
    """Ask for `count` lines of the cache from `address` on."""

    def line(i, carried):
        vectors.prefetch(b, b.add(address, b.mul(i, I64(64))))
        return carried

    vectors.repeat(b, count, [], line)


@kernel
def run_tiles(rows, job):
    """`tiles_f32` for 1 to 6 rows."""
    if rows == 6:
        return tiles_f32(6, job)
    if rows == 5:
        return tiles_f32(5, job)
    if rows == 4:
        return tiles_f32(4, job)
    if rows == 3:
        return tiles_f32(3, job)
    if rows == 2:
        return tiles_f32(2, job)
    return tiles_f32(1, job)


@kernel
def multiply_panel(a, pitch, rows, depth, weights, start, start_pitch, out, ldc, ahead):
    """out[i] = start[i] + sum_k a[i, k] * weights[k], 16 columns; all by address.

    Args:
        ahead: what is needed next, as long as `weights`; 0 for nothing.
    """
    tiles = rows // ROWS
    if tiles > 0:
        lines = depth // tiles if ahead else 0
        job = (
            *(tiles, a, start, out, ahead, lines),
            *(pitch, depth, weights, start_pitch, ldc),
        )
        run_tiles(ROWS, job)
    left = rows - tiles * ROWS
    if left > 0:
        done = tiles * ROWS
        x, begin = a + done * pitch, start + done * start_pitch
        rest = (
            *(1, x, begin, out + done * ldc, ahead, 0),
            *(pitch, depth, weights, start_pitch, ldc),
        )
        run_tiles(left, rest)


@kernel
def aligned_f32(size):
    """Numbers, not set, that begin at a line of the cache."""
    room = np.empty(size + 16, np.float32)
    return room[(-vectors.address_of(room, 0) & 63) // 4 :]


@kernel
def copy_rows(a, lda, first, rows, start, depth, block):
    """block[r, i] = a[first + r, start + i]."""
    for r in range(rows):
        source = a[np.uintp((first + r) * lda + start) :]
        target = block[np.uintp(r * depth) :]
        for i in range(np.uintp(depth)):
            target[i] = source[i]


@kernel
def copy_columns(stage, rows, columns, out, at, ldc):
    """out[at + r * ldc + j] = stage[r, j] for the `columns` that exist."""
    for r in range(rows):
        source = stage[np.uintp(r * PANEL) :]
        target = out[np.uintp(at + r * ldc) :]
        for j in range(np.uintp(columns)):
            target[j] = source[j]


@kernel
def panel_target(out, at, ldc, columns, stage):
    """(address, bytes of a row) of a panel's sums: `out`, or `stage` if it is cut."""
    if columns < PANEL:
        return vectors.address_of(stage, 0), LINE
    return vectors.address_of(out, at), 4 * ldc


@kernel
def gemm_f32f32f32(a, lda, m, k, packed, n, bias, out, ldc):
    """out[i, j] = bias[j] + sum_k a[i, k] * w[j, k], one fused step after the other.

    Args:
        a: float32, row i starts at i * lda.
        packed: float32, by `pack_f32`.
        bias: float32 [n padded to 16].
        out: float32, row i starts at i * ldc, written, must not alias `a`.

    Rounding: each step once, half to even; k in ascending order. NaN and infinities
    are as in IEEE 754.
    """
    block = aligned_f32(min(m, BLOCK) * min(k, DEPTH))
    stage = np.empty(min(m, BLOCK) * PANEL, np.float32)
    for top in range(0, m, BLOCK):
        rows = min(BLOCK, m - top)
        for begin in range(0, max(k, 1), DEPTH):
            depth = min(DEPTH, k - begin)
            copy_rows(a, lda, top, rows, begin, depth, block)
            x = vectors.address_of(block, 0)
            for j in range(0, n, PANEL):
                at = top * ldc + j
                y, dc = panel_target(out, at, ldc, n - j, stage)
                start, start_pitch = y, dc
                if begin == 0:
                    start, start_pitch = vectors.address_of(bias, j), 0
                weights = vectors.address_of(packed, j * k + begin * PANEL)
                multiply_panel(x, 4 * depth, rows, depth, weights, start, start_pitch,
                               y, dc, weights + k * LINE)  # fmt: skip
                if n - j < PANEL and begin + depth == k:
                    copy_columns(stage, rows, n - j, out, at, ldc)
