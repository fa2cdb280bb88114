"""Products of float32 activations with quantized weights, on AVX2 with FMA.

Up to 4 rows (3 for 4-bit codes) read codes straight into registers, since reading the
weights takes most of the time. For more rows a block of panels is dequantized to
float32 in the second-level cache, and multiplied by the tiles of `float_matmul.py`.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2.float_matmul import (
    BLOCK,
    DEPTH,
    FLOATS,
    LANES,
    LINE,
    ROWS,
    WIDTH,
    add_products,
    block_columns,
    copy_columns,
    load_floats,
    multiply_block,
)
from mdtensor.kernels.cpu.generic.activation import KEEP, ZERO
from mdtensor.kernels.cpu.generic.float_packing import PANEL
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I8, I32, I64

# Most rows that read codes straight into registers, for 8-bit and 4-bit codes.
FEW_S8, FEW_U4 = 4, 3
CODES = ir.VectorType(I8, LANES)
S32 = ir.VectorType(I32, LANES)


class Grid:
    """Scales and zero points of the columns of a tile, in one block of k."""

    def __init__(self, b, scales, zeros, panels, panel_bytes):
        ways = [b.mul(panel_bytes, I64(p)) for p in range(panels)]
        self.scales = [v for w in ways for v in load_floats(b, b.add(scales, w), WIDTH)]
        self.zeros = [v for w in ways for v in load_floats(b, b.add(zeros, w), WIDTH)]

    def numbers(self, b, codes):
        """Return scale * (code - zero) of vectors of int32 codes, rounded once."""
        found = []
        for code, zero, scale in zip(codes, self.zeros, self.scales, strict=True):
            # The difference of two small integers is exact, so only the product rounds.
            steps = b.fsub(b.sitofp(code, FLOATS), zero)
            found.append(b.fmul(steps, scale))
        return found


def _load_codes(b, panels, offset):
    """Load 16 bytes from each of `panels`, as vectors."""
    firsts = [b.add(panel, offset) for panel in panels]
    places = [b.add(p, I64(LANES * v)) for p in firsts for v in range(WIDTH)]
    return [vectors.load(b, place, CODES) for place in places]


def _bytes_block(b, grid, panels, first, count, carried, use):
    """Call use(k, weights, carried) for `count` steps of k from `first` on; int8."""

    def step(i, carried):
        at = b.add(first, i)
        loaded = _load_codes(b, panels, b.mul(at, I64(PANEL)))
        return use(at, grid.numbers(b, [b.sext(x, S32) for x in loaded]), carried)

    return vectors.repeat(b, count, carried, step)


def _nibbles_block(b, grid, panels, first, count, carried, use):
    """Call `use` as `_bytes_block` does, with two codes a byte; `first` is even."""
    low = ir.Constant(S32, [15] * LANES)
    shift = ir.Constant(S32, [4] * LANES)
    pairs = b.ashr(first, I64(1))

    def halves(i, take, carried):
        place = b.add(pairs, i)
        loaded = _load_codes(b, panels, b.mul(place, I64(PANEL)))
        wide = [b.zext(x, S32) for x in loaded]
        split = ([b.and_(x, low) for x in wide], [b.lshr(x, shift) for x in wide])
        for half in range(take):
            at = b.add(b.mul(place, I64(2)), I64(half))
            carried = use(at, grid.numbers(b, split[half]), carried)
        return carried

    whole = b.ashr(count, I64(1))
    carried = vectors.repeat(b, whole, carried, lambda i, c: halves(i, 2, c))
    odd = b.and_(count, I64(1))
    return vectors.repeat(b, odd, carried, lambda i, c: halves(whole, 1, c))


BLOCKS = {8: _bytes_block, 4: _nibbles_block}


@intrinsic(prefer_literal=True)
def tile_few(typingctx, bits, rows, panels, job):
    """Compute one tile of few rows, over all of k.

    Args:
        bits, rows, panels: literals; a tile has `rows` rows and 16 * `panels` columns.
        job: a, pitch, packed, panel_bytes, scales, zeros, grid_bytes, size, k, bias,
            out, ldc; arrays by address, pitches in bytes.
    """
    shape = vectors.literals(bits, rows, panels)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        bits, rows, panels = shape
        job = cgutils.unpack_tuple(b, arguments[3])
        a, pitch, packed, panel_bytes, scales, zeros, grid_bytes, size, k = job[:9]
        bias, out, ldc = job[9:]
        width = WIDTH * panels
        lines = [b.add(a, b.mul(pitch, I64(r))) for r in range(rows)]
        places = [b.add(packed, b.mul(panel_bytes, I64(p))) for p in range(panels)]

        def use(at, weights, sums):
            return add_products(b, sums, lines, b.mul(at, I64(4)), weights)

        def on_grid(i, sums):
            at, start = b.mul(i, I64(LINE)), b.mul(i, size)
            grid = Grid(b, b.add(scales, at), b.add(zeros, at), panels, grid_bytes)
            left = b.sub(k, start)
            count = b.select(b.icmp_signed("<", left, size), left, size)
            return BLOCKS[bits](b, grid, places, start, count, sums, use)

        blocks = b.sdiv(b.sub(b.add(k, size), I64(1)), size)
        first = load_floats(b, bias, width) * rows
        sums = vectors.repeat(b, blocks, first, on_grid)
        for i, value in enumerate(sums):
            row = b.add(out, b.mul(ldc, I64(i // width)))
            vectors.store(b, value, b.add(row, I64(4 * LANES * (i % width))))
        return context.get_dummy_value()

    kinds = types.UniTuple(types.int64, 12)
    return types.void(bits, rows, panels, kinds), emit


@intrinsic(prefer_literal=True)
def unpack_block(typingctx, bits, panel, first, count, scales, zeros, weights):
    """Set weights[i, j] = scale[j] * (code - zero[j]) for `count` steps.

    Args:
        bits: literal, bits of a code.
        first: the first index of k.
        panel, scales, zeros, weights: arrays of 16 columns, by address.
    """
    shape = vectors.literals(bits)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        panel, first, count, scales, zeros, weights = arguments[1:]

        def use(at, numbers, carried):
            place = b.add(weights, b.mul(b.sub(at, first), I64(LINE)))
            for v, number in enumerate(numbers):
                vectors.store(b, number, b.add(place, I64(4 * LANES * v)))
            return carried

        grid = Grid(b, scales, zeros, 1, I64(0))
        BLOCKS[shape[0]](b, grid, [panel], first, count, [], use)
        return context.get_dummy_value()

    return types.void(bits, *[types.int64] * 6), emit


@kernel
def unpack(bits, panel, scales, zeros, size, begin, stop, weights):
    """Set weights[k - begin, j] for begin <= k < stop, of one panel; by address."""
    first = begin
    while first < stop:
        block = first // size
        count = min(stop, (block + 1) * size) - first
        s, z = scales + block * LINE, zeros + block * LINE
        w = weights + (first - begin) * LINE
        if bits == 8:
            unpack_block(8, panel, first, count, s, z, w)
        else:
            unpack_block(4, panel, first, count, s, z, w)
        first += count


@kernel
def run_tile(bits, rows, panels, job):
    """Run `tile_few` for `few_rows`: two panels for one row of 8 bits."""
    # One row has one or two sums a panel, which wait for their own multiply-adds.
    if bits == 4:
        if rows == 1:
            tile_few(4, 1, 1, job)
        elif rows == 2:
            tile_few(4, 2, 1, job)
        else:
            tile_few(4, 3, 1, job)
    elif panels == 2:
        tile_few(8, 1, 2, job)
    elif rows == 1:
        tile_few(8, 1, 1, job)
    elif rows == 2:
        tile_few(8, 2, 1, job)
    elif rows == 3:
        tile_few(8, 3, 1, job)
    else:
        tile_few(8, 4, 1, job)


@kernel
def few_rows(bits, a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc):
    """Compute the product for few rows, reading codes straight into registers."""
    stage = np.empty(FEW_S8 * PANEL, np.float32)
    column = k if bits == 8 else (k + 1) // 2
    blocks = (k + size - 1) // size
    x = vectors.address_of(a, 0)
    j = 0
    while j < n and m > 0:
        panels = 2 if bits == 8 and m == 1 and n - j >= 2 * PANEL else 1
        is_cut = n - j < PANEL
        y, dc = vectors.address_of(out, j), 4 * ldc
        if is_cut:
            y, dc = vectors.address_of(stage, 0), LINE
        codes = vectors.address_of(packed, j * column)
        scale = vectors.address_of(scales, j * blocks)
        zero = vectors.address_of(zeros, j * blocks)
        job = (
            *(x, 4 * lda, codes, column * PANEL, scale, zero, blocks * LINE),
            *(size, k, vectors.address_of(bias, j), y, dc),
        )
        run_tile(bits, m, panels, job)
        if is_cut:
            copy_columns(stage, 0, PANEL, m, n - j, out, j, ldc)
        j += panels * PANEL


@kernel
def many_rows(bits, a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc):
    """Compute the product for more rows: unpack a block of panels, run tiles."""
    weights = allocate_f32(
        min(BLOCK // 4, (n + PANEL - 1) // PANEL * PANEL * min(k, DEPTH))
    )
    stage = np.empty(ROWS * PANEL, np.float32)
    blocks = (k + size - 1) // size
    column = k if bits == 8 else (k + 1) // 2
    after = bias[:0], KEEP, ZERO, ZERO
    for begin in range(0, max(k, 1), DEPTH):
        depth = min(DEPTH, k - begin)
        columns = block_columns(depth)
        for j in range(0, n, columns):
            last = min(n, j + columns)
            # A block is dequantized once, and then all rows read it (decision 0029).
            numbers = vectors.address_of(weights, 0)
            for i in range(j, last, PANEL):
                panel = vectors.address_of(packed, i * column)
                scale = vectors.address_of(scales, i * blocks)
                zero = vectors.address_of(zeros, i * blocks)
                unpack(bits, panel, scale, zero, size, begin, begin + depth,
                       numbers + 4 * (i - j) * depth)  # fmt: skip
            multiply_block(a, lda, (0, m), (begin, depth, j), numbers, depth * LINE,
                           last, bias, after, out, ldc, stage)  # fmt: skip


@kernel
def allocate_f32(size):
    """Allocate uninitialized float32 [size] that begin at a cache line."""
    # Vectors that cross a cache line would be read twice.
    room = np.empty(size + 16, np.float32)
    return room[(-vectors.address_of(room, 0) & 63) // 4 :]


@kernel
def gemm_f32s8f32(a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc):
    """out[i, j] = bias[j] + sum_k a[i, k] * scale * (code[j, k] - zero).

    Args:
        a: float32, row i starts at i * lda.
        packed: int8 codes, by `pack_rows`.
        scales, zeros: by `pack_grid`, for `size` neighbours along k.
        bias: float32 [n padded to 16].
        out: float32, row i starts at i * ldc, written, must not alias `a`.

    Rounding: a weight once; then as `gemm_f32f32f32`.
    """
    if m <= FEW_S8:
        few_rows(8, a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc)
    else:
        many_rows(8, a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc)


@kernel
def gemm_f32u4f32(a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc):
    """Compute `gemm_f32s8f32` with two codes a byte; `size` is even or at least k."""
    if m <= FEW_U4:
        few_rows(4, a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc)
    else:
        many_rows(4, a, lda, m, k, packed, n, scales, zeros, size, bias, out, ldc)
