"""Dense convolutions of float32 images on AVX2 with FMA, see `generic/float_conv.py`.

A tile is 6 outputs by 16 columns, as in `float_matmul.py`. Its outputs may lie in
several lines of the image, so a table has the address of the window of each. Some
kernel lines of some panels stay in the second cache while all outputs pass over them.
"""

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2.activation import activate, add_residual
from mdtensor.kernels.cpu.avx2.float_matmul import (
    BLOCK,
    DEPTH,
    LANES,
    LINE,
    WIDTH,
    add_products,
    copy_columns,
    load_floats,
    prefetch_neighbours,
    repeat_steps,
)
from mdtensor.kernels.cpu.generic.activation import KEEP, ZERO
from mdtensor.kernels.cpu.generic.float_matmul import finish_columns
from mdtensor.kernels.cpu.generic.float_packing import PANEL
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I64

ROWS = 6


def _tile(b, rows, job, limits, packed, start, out, residual):
    """Compute one tile of a panel and write it to `out`."""
    table, lines, tap_pitch, depth, start_pitch, ldc, activation = job
    windows = [vectors.load(b, b.add(table, I64(8 * r)), I64) for r in range(rows)]
    begins = [b.add(start, b.mul(start_pitch, I64(r))) for r in range(rows)]
    first = [v for begin in begins for v in load_floats(b, begin, WIDTH)]
    size = b.mul(depth, I64(LINE))

    def line(i, sums):
        skipped = b.mul(i, tap_pitch)
        runs = [b.add(window, skipped) for window in windows]
        own = b.add(packed, b.mul(i, size))

        def step(k, sums):
            weights = load_floats(b, b.add(own, b.mul(k, I64(LINE))), WIDTH)
            return add_products(b, sums, runs, b.mul(k, I64(4)), weights)

        return repeat_steps(b, depth, sums, step)

    prefetch_neighbours(b, rows, 1, out, ldc)
    sums = vectors.repeat(b, lines, first, line)
    offsets = [
        b.add(b.mul(ldc, I64(i // WIDTH)), I64(4 * LANES * (i % WIDTH)))
        for i in range(len(sums))
    ]
    sums = add_residual(b, sums, activation, residual, offsets)
    found = activate(b, sums, activation, *limits)
    for offset, value in zip(offsets, found, strict=True):
        vectors.store(b, value, b.add(out, offset))


@intrinsic(prefer_literal=True)
def tiles_windows(typingctx, rows, job, low, high):
    """Compute tiles of the same `rows` outputs (a literal) for `count` panels.

    Args:
        job: count, packed, start, out, residual, panel, table, lines, tap_pitch, depth,
            start_pitch, ldc, activation; arrays by address, pitches in bytes. `panel`
            is the distance to the next panel; `start` is the bias, with a pitch of 0,
            or `out`; `residual` has the pitch of `out`, or is 0.
    """
    shape = vectors.literals(rows)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, packed, start, out, residual, panel, *job = cgutils.unpack_tuple(
            b, arguments[1]
        )

        def tile(packed, start, out, residual):
            _tile(b, *shape, job, arguments[2:], packed, start, out, residual)
            return I64(0)

        has_residual = b.icmp_signed("!=", residual, I64(0))
        steps = [panel, I64(LINE), I64(LINE)]
        steps.append(b.select(has_residual, I64(LINE), I64(0)))
        places = [packed, start, out, residual]
        return vectors.advance(b, count, places, steps, tile)

    kinds = types.UniTuple(types.int64, 13), types.float32, types.float32
    return types.int64(rows, *kinds), emit


@kernel
def run_windows(rows, job, low, high):
    """Run `tiles_windows` for 6, 4, 2 or 1 outputs."""
    if rows == 6:
        return tiles_windows(6, job, low, high)
    if rows == 4:
        return tiles_windows(4, job, low, high)
    if rows == 2:
        return tiles_windows(2, job, low, high)
    return tiles_windows(1, job, low, high)


@kernel
def tile_outputs(left):
    """Return the outputs of the next tile, with `left` outputs left."""
    if left >= ROWS:
        return ROWS
    return 4 if left >= 4 else min(left, 2)


@kernel
def multiply_windows(first, rows, taps, panels, weights, at, bias, after, out, stage):
    """Multiply all windows by some panels, over some kernel lines.

    The sums start at the bias, or continue the sums in `out`.

    Args:
        first: address of the first tap of these kernel lines in the window of output 0.
        rows: as in `windows_act_f32`.
        taps: kernel lines, line pitch and depth; whether they are the first lines.
        panels: first column, column after the last, bytes from one panel to the next.
        weights: address of the first panel at the first of these lines.
        at: elements from one row of `out` to the next.
        stage: float32 [ROWS * 16], for columns that do not fill a panel.
    """
    lines, columns, line_pitch, pitch = rows
    kernel_lines, tap_pitch, depth, is_first = taps
    begin, end, panel = panels
    residual, activation, low, high = after
    whole, cut = (end - begin) // PANEL, (end - begin) % PANEL
    table = np.empty(ROWS, np.int64)
    entries, p, m = vectors.address_of(table, 0), 0, lines * columns
    while p < m:
        height = tile_outputs(m - p)
        y, x = p // columns, p % columns
        for r in range(height):
            table[r] = first + 4 * (y * line_pitch + x * pitch)
            x += 1
            if x == columns:
                x, y = 0, y + 1
        place = p * at + begin
        target = vectors.address_of(out, place)
        start, start_pitch = target, 4 * at
        if is_first != 0:
            start, start_pitch = vectors.address_of(bias, begin), 0
        if whole > 0:
            other = vectors.address_of(residual, place) if len(residual) > 0 else 0
            run_windows(height, (whole, weights, start, target, other, panel, entries,
                                 kernel_lines, 4 * tap_pitch, depth, start_pitch,
                                 4 * at, activation), low, high)  # fmt: skip
        if cut > 0:
            place += whole * PANEL
            target = vectors.address_of(stage, 0)
            start += whole * LINE
            # `out` holds the sums of earlier lines; its rows end inside the panel.
            if is_first == 0:
                copy_columns(out, place, at, height, cut, stage, 0, PANEL)
                start, start_pitch = target, LINE
            run_windows(height, (1, weights + whole * panel, start, target, 0, panel,
                                 entries, kernel_lines, 4 * tap_pitch, depth,
                                 start_pitch, LINE, KEEP), low, high)  # fmt: skip
            finish_columns(stage, 0, PANEL, height, cut, after, out, place, at)
        p += height
    vectors.keep((table, stage, bias, residual, out))


@kernel
def windows_act_f32(
    a, rows, taps, packed, n, bias, residual, activation, low, high, out, ldc
):
    """Compute `windows_act_f32` of `generic/float_conv.py`."""
    kernel_lines, tap_pitch, depth = taps
    stage, nothing = np.empty(ROWS * PANEL, np.float32), residual[:0]
    step = max(1, DEPTH // depth)
    panel = kernel_lines * depth * LINE
    for line in range(0, kernel_lines, step):
        count = min(step, kernel_lines - line)
        after = nothing, KEEP, ZERO, ZERO
        if line + count == kernel_lines:
            after = residual, activation, low, high
        columns = PANEL * max(1, BLOCK // (LINE * count * depth))
        first = vectors.address_of(a, line * tap_pitch)
        for j in range(0, n, columns):
            place = j * kernel_lines * depth + line * depth * PANEL
            weights = vectors.address_of(packed, place)
            own = count, tap_pitch, depth, np.int64(line == 0)
            panels = j, min(n, j + columns), panel
            multiply_windows(
                first, rows, own, panels, weights, ldc, bias, after, out, stage
            )
    vectors.keep((a, packed))
