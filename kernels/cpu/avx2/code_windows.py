"""Convolutions of codes with vpmaddubsw, see `generic/code_windows.py`.

The instruction multiplies 32 codes by 32 weights and adds pairs of products in 16 bits,
where an unsafe pair would saturate; `pair_packing.py` makes none. A tile is 6 outputs
by 16 columns, or 12 by 8 in a last panel. A table has the address of the window of each
output.

Source: Intel Intrinsics Guide.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.epilogue import (
    load_multipliers,
    load_vectors,
    resolve,
)
from mdtensor.kernels.cpu.avx2.matmul import (
    TILE,
    copy_rows,
    next_tiles,
    panel_shape,
    store_codes,
)
from mdtensor.kernels.cpu.avx2.simd import BYTES, LANES, S32, WORDS
from mdtensor.kernels.cpu.generic.pair_packing import GROUP_BYTES, PANEL
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import offset_of
from mdtensor.kernels.cpu.vectors import I32, I64, address_of

#: Outputs whose windows are multiplied by all panels before the next ones.
LEAST_ROWS, BLOCK = 96, 1 << 16


def _accumulate(b, rows, width, table, places, count, packed, bias):
    """Return bias[j] + the sum of window r times w[j] as vectors, row-major."""
    windows = [vectors.load(b, b.add(table, I64(8 * r)), I64) for r in range(rows)]
    biases = load_vectors(b, bias, width, S32)
    ones = ir.Constant(WORDS, [1] * WORDS.count)

    def step(i, sums):
        sums = list(sums)
        # As in `matmul.py`: LLVM would load weights early and spill a sum.
        b.fence("acq_rel", "singlethread")
        at = vectors.load(b, b.add(places, b.mul(i, I64(4))), I32)
        place = b.add(packed, b.mul(i, I64(GROUP_BYTES)))
        weights = load_vectors(b, place, width, BYTES)
        for r in range(rows):
            source = b.add(windows[r], b.sext(at, I64))
            codes = b.bitcast(simd.load_broadcast(b, source), BYTES)
            for v in range(width):
                words = simd.multiply_bytes(b, codes, weights[v])
                found = simd.multiply_pairs(b, words, ones)
                sums[r * width + v] = b.add(sums[r * width + v], found)
        return sums

    return vectors.repeat(b, count, biases * rows, step)


@intrinsic(prefer_literal=True)
def tiles_windows_u8(typingctx, rows, width, job):
    """Compute tiles of `windows_u8s8u8` downwards, up to one with a lane near a tie.

    Args:
        rows, width: literals; a tile has `rows` outputs and 8 * `width` columns.
        job: count, table, places, groups, packed, bias, ldc, out, multiplier, lo, hi,
            offset; arrays by address, pitches in bytes.

    Returns: 2 * tiles done, + 1 if the last one has such a lane.
    """
    shape = vectors.literals(rows, width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, table, *rest = cgutils.unpack_tuple(b, arguments[2])
        places, groups, packed, bias, ldc, out, multiplier, lo, hi, offset = rest
        rounding = load_multipliers(b, multiplier, shape[1]), offset, lo, hi

        def tile(table, out):
            sums = _accumulate(b, *shape, table, places, groups, packed, bias)
            return store_codes(b, sums, rounding, out, ldc)

        steps = [I64(8 * shape[0]), b.mul(ldc, I64(shape[0]))]
        return vectors.advance(b, count, [table, out], steps, tile)

    kinds = [*[types.int64] * 11, types.float32]
    return types.int64(rows, width, types.Tuple(kinds)), emit


@intrinsic(prefer_literal=True)
def sum_windows(typingctx, width, job):
    """Store the int32 sums of one output after the other.

    Args: job: count, table, places, groups, packed, bias, out.
    """
    shape = vectors.literals(width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, table, *rest, out = cgutils.unpack_tuple(b, arguments[1])

        def tile(table, out):
            for v, value in enumerate(_accumulate(b, 1, *shape, table, *rest)):
                vectors.store(b, value, b.add(out, I64(32 * v)))
            return I64(0)

        steps = [I64(8), I64(32 * shape[0])]
        return vectors.advance(b, count, [table, out], steps, tile)

    return types.int64(width, types.UniTuple(types.int64, 7)), emit


@kernel
def run_windows_u8(width, rows, job):
    """Run `tiles_windows_u8` for a shape from `next_tiles`."""
    if width == 2:
        if rows == 6:
            return tiles_windows_u8(6, 2, job)
        if rows == 4:
            return tiles_windows_u8(4, 2, job)
        if rows == 2:
            return tiles_windows_u8(2, 2, job)
        return tiles_windows_u8(1, 2, job)
    if rows == 12:
        return tiles_windows_u8(12, 1, job)
    if rows == 4:
        return tiles_windows_u8(4, 1, job)
    return tiles_windows_u8(1, 1, job)


@kernel
def find_windows(a, rows, first, count, table):
    """Set table[i] to the address of the window of output first + i, i < count."""
    _, lines, columns, image_pitch, line_pitch, pitch, _ = rows
    y, x = first // columns, first % columns
    image, y = y // lines, y % lines
    start = address_of(a, 0)
    for i in range(np.uintp(count)):
        table[i] = start + image * image_pitch + y * line_pitch + x * pitch
        x += 1
        if x == columns:
            x, y = 0, y + 1
        if y == lines:
            y, image = 0, image + 1


@kernel
def find_places(entries, first, groups, tap_pitch, places):
    """Set places[i] to the bytes from a window to the codes of group first + i."""
    pitch, begin = np.int32(tap_pitch), np.uintp(first)
    lines, own = entries[0, begin:], entries[1, begin:]
    for i in range(np.uintp(groups)):
        places[i] = np.int32(np.int32(lines[i] * pitch) + own[i])


@kernel
def most_groups(starts):
    """Return the groups of the longest panel."""
    most = np.int64(0)
    for i in range(len(starts) - 1):
        most = max(most, starts[i + 1] - starts[i])
    return most


@kernel
def multiply_panel(
    table, count, at, groups, weights, column, n, rounding, stage, spill, out,
    first, ldc,
):  # fmt: skip
    """Multiply `count` windows by a panel, and round the sums to codes.

    Args:
        at, weights: addresses of the places of the groups, and of their weights.
        column: its first column, of `n`.
        rounding: bias, multiplier, limbs, zero_point, lo, hi.
        stage: uint8, for columns that do not fill a panel; spill: int32, of a tile.
        first: the place in `out` of the first output.
    """
    bias, multiplier, limbs, zero_point, lo, hi = rounding
    width, is_cut = panel_shape(n - column)
    dc = width * LANES if is_cut else ldc
    target = address_of(stage, 0) if is_cut else address_of(out, first + column)
    biases, scales = address_of(bias, column), address_of(multiplier, column)
    offset, row = offset_of(zero_point), 0
    while row < count:
        rows, begin, tiles = next_tiles(width, row, count)
        job = (tiles, address_of(table, begin), at, groups, weights, biases, dc,
               target + begin * dc, scales, lo, hi, offset)  # fmt: skip
        done = run_windows_u8(width, rows, job)
        row = begin + rows * (done >> 1)
        if done & 1:
            again = (rows, address_of(table, row - rows), at, groups, weights, biases,
                     address_of(spill, 0))  # fmt: skip
            if width == 2:
                sum_windows(2, again)
            else:
                sum_windows(1, again)
            place = (row - rows) * dc
            if is_cut:
                resolve(spill, rows, width, column, n, multiplier, limbs, zero_point,
                        lo, hi, stage, place - column, dc)  # fmt: skip
            else:
                resolve(spill, rows, width, column, n, multiplier, limbs, zero_point,
                        lo, hi, out, first + place, dc)  # fmt: skip
    if is_cut:
        copy_rows(stage, dc, count, n - column, out, first + column, ldc)


@kernel
def windows_u8s8u8(
    a, rows, starts, entries, packed, n, bias, multiplier, limbs, zero_point, lo, hi,
    out, ldc,
):  # fmt: skip
    """Compute `windows_u8s8u8` of `generic/code_windows.py`."""
    total = rows[0] * rows[1] * rows[2]
    step = min(total, max(LEAST_ROWS, BLOCK // max(1, rows[5]) // TILE * TILE))
    table, spill = np.empty(step, np.int64), np.empty(TILE * LANES, np.int32)
    stage = np.empty(step * 2 * LANES, np.uint8)
    places = np.empty(most_groups(starts) if rows[6] > 0 else 0, np.int32)
    rounding = bias, multiplier, limbs, zero_point, lo, hi
    for first in range(0, total, step):
        count = min(step, total - first)
        find_windows(a, rows, first, count, table)
        for column in range(0, n, PANEL):
            begin = starts[column // PANEL]
            groups = starts[column // PANEL + 1] - begin
            at = address_of(entries, entries.shape[1] + begin)
            if rows[6] > 0:
                find_places(entries, begin, groups, rows[6], places)
                at = address_of(places, 0)
            weights = address_of(packed, begin * GROUP_BYTES)
            multiply_panel(
                *(table, count, at, groups, weights, column, n, rounding),
                *(stage, spill, out, first * ldc, ldc),
            )
    vectors.keep((a, table, entries, places, packed, bias, multiplier, spill, stage))
