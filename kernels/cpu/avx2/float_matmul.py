"""Products of float32 matrices on AVX2 with FMA: tiles of 6 rows by 16 columns.

A tile keeps its 12 vectors of sums in registers and takes two vectors of weights and 6
numbers of `a`, each in all lanes, a step. Some panels of weights stay in the second
cache while all rows pass over them, 6 in the first cache at a time; between two blocks
of k the sums rest in `out`.

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
DEPTH = 1024  # steps of a block: 6 rows of `a` stay in the first cache
PANELS = 4  # of a block: with DEPTH steps they fill half of the second cache


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
    """`count` tiles side by side, of the same rows.

    Args:
        rows: a literal; a tile has `rows` rows and 16 columns.
        job: count, packed, start, out, a, pitch, k, panel, start_pitch, ldc; arrays by
            address, pitches in bytes. `panel` is the way to the next panel; `start` is
            the bias, with a pitch of 0, or `out`.
    """
    shape = vectors.literals(rows)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, packed, start, out, *rest = cgutils.unpack_tuple(b, arguments[1])
        a, pitch, k, panel, start_pitch, ldc = rest

        def tile(packed, start, out):
            _tile(b, shape[0], (pitch, k, packed, start_pitch, ldc), a, start, out)
            return I64(0)

        steps = [panel, I64(LINE), I64(LINE)]
        return vectors.advance(b, count, [packed, start, out], steps, tile)

    return types.int64(rows, types.UniTuple(types.int64, 10)), emit


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
def copy_columns(source, first, pitch, rows, columns, target, at, ldc):
    """target[at + r * ldc + j] = source[first + r * pitch + j], j < columns."""
    for r in range(rows):
        line = source[np.uintp(first + r * pitch) :]
        row = target[np.uintp(at + r * ldc) :]
        for j in range(np.uintp(columns)):
            row[j] = line[j]


@kernel
def multiply_block(a, lda, m, block, weights, panel, n, bias, out, ldc, stage):
    """All rows by some panels, over a part of k; sums go on from the bias or `out`.

    Args:
        block: k: first, steps; columns: first.
        weights: of the first panel at the first step, by address; `panel` bytes on is
            the next panel. They are of columns up to `n`.
        stage: float32 [6 * 16], for columns that do not fill a panel.
    """
    begin, depth, first = block
    whole, cut = (n - first) // PANEL, (n - first) % PANEL
    for i in range(0, m, ROWS):
        rows = min(ROWS, m - i)
        x = vectors.address_of(a, i * lda + begin)
        at = i * ldc + first
        y = vectors.address_of(out, at)
        start, start_pitch = y, 4 * ldc
        if begin == 0:
            start, start_pitch = vectors.address_of(bias, first), 0
        if whole > 0:
            run_tiles(rows, (whole, weights, start, y, x, 4 * lda, depth, panel,
                             start_pitch, 4 * ldc))  # fmt: skip
        if cut > 0:
            at += whole * PANEL
            y = vectors.address_of(stage, 0)
            start += whole * LINE
            if begin > 0:
                copy_columns(out, at, ldc, rows, cut, stage, 0, PANEL)
                start, start_pitch = y, LINE
            run_tiles(rows, (1, weights + whole * panel, start, y, x, 4 * lda, depth,
                             panel, start_pitch, LINE))  # fmt: skip
            copy_columns(stage, 0, PANEL, rows, cut, out, at, ldc)


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
    stage = np.empty(ROWS * PANEL, np.float32)
    for begin in range(0, max(k, 1), DEPTH):
        depth = min(DEPTH, k - begin)
        for j in range(0, n, PANELS * PANEL):
            weights = vectors.address_of(packed, j * k + begin * PANEL)
            last = min(n, j + PANELS * PANEL)
            multiply_block(a, lda, m, (begin, depth, j), weights, k * LINE, last, bias,
                           out, ldc, stage)  # fmt: skip
