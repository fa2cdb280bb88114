"""Products of words with int8 weights, by vpmaddwd; see `generic/row_words.py`.

`matmul.py` widens codes to words; these words have 16 bits of their own, at the same
speed. A tile has 12 sums of vectors: 6 rows by a panel of 16 columns, or fewer rows by
more panels, so that additions do not wait for one another.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.simd import BYTES, S32, WORDS
from mdtensor.kernels.cpu.generic.row_words import PANEL
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I8, I16, I64

#: Vectors of a panel, and the bytes of its four weights for each column.
WIDTH, LINE = 2, 4 * PANEL


# vpmovsxbw widens 16 bytes in a cycle. A product with 1 and 0 and a shift widen 32, on
# pipes of their own (decision 0086).
def _load_half(b, address, half):
    """Load 8 columns by four weights; return the first two of each, or the last two.

    Weights are bytes in the order 0, 2, 1, 3, so two are the even bytes of 16 bits.
    """
    line = vectors.load(b, address, BYTES)
    if half == 0:
        evens = vectors.constant(I8, [1, 0] * (BYTES.count // 2))
        return simd.multiply_bytes(b, evens, line)
    return b.ashr(b.bitcast(line, WORDS), vectors.constant(I16, [8] * WORDS.count))


# LLVM would add the products of both halves first, and keep the first ones in memory.
def _kept(b, x):
    """Return x, computed where it is; the instruction is empty."""
    kind = ir.FunctionType(x.type, [x.type])
    return b.asm(kind, "", "=x,0", [x], False)


def _sums(b, rows, panels, job):
    """Return the sums of a tile as vectors, by row, panel and vector."""
    a, pitch, k4, packed = job
    starts = [b.add(a, b.mul(pitch, I64(r))) for r in range(rows)]
    size = b.mul(k4, I64(LINE))
    tops = [b.add(packed, b.mul(size, I64(p))) for p in range(panels)]

    def step(i, sums):
        sums, offset, line = list(sums), b.mul(i, I64(8)), b.mul(i, I64(LINE))
        for half in range(2):
            places = [b.add(b.add(x, offset), I64(4 * half)) for x in starts]
            # Two rows stay in registers for all panels; six would not.
            words = [simd.load_broadcast(b, x) for x in places if panels > 1]
            for p, top in enumerate(tops):
                # As in `matmul.py`: without it LLVM loads weights early.
                b.fence("acq_rel", "singlethread")
                weights = [
                    _load_half(b, b.add(b.add(top, line), I64(32 * v)), half)
                    for v in range(WIDTH)
                ]
                for r, place in enumerate(places):
                    row = words[r] if words else simd.load_broadcast(b, place)
                    for v in range(WIDTH):
                        at = (r * panels + p) * WIDTH + v
                        product = simd.multiply_pairs(b, row, weights[v])
                        sums[at] = _kept(b, b.add(sums[at], product))
        return sums

    nothing = ir.Constant(S32, None)
    return vectors.repeat(b, k4, [nothing] * (rows * panels * WIDTH), step)


@intrinsic(prefer_literal=True)
def tiles_words(typingctx, rows, panels, job):
    """Store the sums of tiles downwards.

    Args:
        rows, panels: literals, the shape of a tile.
        job: count, a, pitch, k4, packed, ldc, out; arrays by address, pitches in bytes.
    """
    shape = vectors.literals(rows, panels)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, a, pitch, k4, packed, ldc, out = cgutils.unpack_tuple(b, arguments[2])

        def tile(a, out):
            sums = _sums(b, *shape, (a, pitch, k4, packed))
            for at, found in enumerate(sums):
                row, vector = divmod(at, shape[1] * WIDTH)
                place = b.add(b.add(out, b.mul(ldc, I64(row))), I64(32 * vector))
                vectors.store(b, found, place)
            return I64(0)

        steps = [b.mul(step, I64(shape[0])) for step in (pitch, ldc)]
        return vectors.advance(b, count, [a, out], steps, tile)

    return types.int64(rows, panels, types.UniTuple(types.int64, 7)), emit


@kernel
def run_words(rows, panels, job):
    """Run `tiles_words`, for a shape that `gemm_s16s8s32` chooses."""
    if panels == 4:
        return tiles_words(1, 4, job)
    if panels == 2:
        return tiles_words(2, 2, job)
    if rows == 6:
        return tiles_words(6, 1, job)
    if rows == 4:
        return tiles_words(4, 1, job)
    if rows == 2:
        return tiles_words(2, 1, job)
    return tiles_words(1, 1, job)


@kernel
def rows_of_words(left):
    """Return the rows of the next tile of one panel, and how many such tiles."""
    if left >= 6:
        return 6, left // 6
    if left >= 4:
        return 4, 1
    return (2, 1) if left >= 2 else (1, 1)


@kernel
def gemm_s16s8s32(a, lda, m, k, packed, n, out, ldc):
    """out[i, j] = sum_k a[i, k] * w[j, k], see `generic/row_words.py`."""
    k4, j = (k + 3) // 4, 0
    panels = 4 // m if m <= 2 else 1
    while j < n:
        several = panels if n - j > (panels - 1) * PANEL else 1
        weights = vectors.address_of(packed, j * 4 * k4)
        row = 0
        while row < m:
            rows, tiles = (m, 1) if several > 1 else rows_of_words(m - row)
            x = vectors.address_of(a, row * lda)
            y = vectors.address_of(out, row * ldc + j)
            job = (tiles, x, 2 * lda, k4, weights, 4 * ldc, y)
            run_words(rows, several, job)
            row += rows * tiles
        j += several * PANEL
