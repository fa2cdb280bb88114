"""im2col: the pixels under the kernel, copied side by side as rows of a product."""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu.dot8 import simd
from mdtensor.kernels.cpu.dot8.epilogue import lane_mask
from mdtensor.kernels.cpu.dot8.simd import I8
from mdtensor.kernels.cpu.jit import kernel


@intrinsic(prefer_literal=True)
def copy_windows(typingctx, width, job):
    """Copy the kernel rows of `count` neighbouring outputs side by side.

    Args:
        width: literal, 16 or 64: bytes copied for each row, of which `span` remain.
        job: source, pixel_step, row_step, rows, count, span, gap (after the rows of an
            output), target; steps and sizes in bytes, arrays by address.
    """
    shape = simd.literals(width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[1])
        source, pixel_step, row_step, rows, count, span, gap, target = job

        def copy_pixel(_, carried):
            pixel, out = carried

            def copy_row(_, carried):
                line, out = carried
                kind = ir.VectorType(I8, shape[0])
                simd.store(b, simd.load(b, line, kind), out)
                return [b.add(line, row_step), b.add(out, span)]

            _, out = simd.repeat(b, rows, [pixel, out], copy_row)
            return [b.add(pixel, pixel_step), b.add(out, gap)]

        simd.repeat(b, count, [source, target], copy_pixel)
        return context.get_dummy_value()

    return types.void(width, types.UniTuple(types.int64, 8)), emit


@kernel
def _copy(source, target, size):
    """Copy `size` bytes without touching any other."""
    for i in range(0, size, 64):
        simd.copy_bytes(64, source + i, target + i, lane_mask(size - i))


@kernel
def inner_columns(window):
    """Return (first, end) of the output columns whose kernel rows need no padding."""
    w, kw = window.width, window.kernel_w
    stride, left = window.stride_w, window.pad_left
    first = (left + stride - 1) // stride
    end = min((w - kw + left) // stride + 1, window.out_w) if w + left >= kw else 0
    return (first, end) if first < end else (0, 0)


@kernel
def _copy_columns(x, window, part, columns, y, outside, pitch, target):
    """Copy the rows of output columns first .. end, tap by tap."""
    h, w, c = window.height, window.width, window.channels
    kw, stride = window.kernel_w, window.stride_w
    first_channel, channels = part
    for px in range(columns[0], columns[1]):
        at = target + (px - columns[0]) * pitch
        for i in range(window.kernel_h):
            row = y + i * window.dilation_h
            line = simd.address_of(x, row * w * c + first_channel)
            for j in range(kw):
                column = px * stride - window.pad_left + j * window.dilation_w
                is_inside = 0 <= row < h and 0 <= column < w
                border = simd.address_of(outside, 0)
                source = line + column * c if is_inside else border
                _copy(source, at, channels)
                at += channels


@kernel
def im2col_u8(x, window, first_channel, channels, x_zero_point, pitch, out):
    """out[p, (i, j, c)] = x[row of p at i, column of p at j, c], padding x_zero_point.

    Args: as in the generic kernel.
    """
    h, w, c = window.height, window.width, window.channels
    kh, kw = window.kernel_h, window.kernel_w
    oh, ow, span = window.out_h, window.out_w, kw * channels
    stride, left, step = window.stride_w, window.pad_left, window.dilation_h
    part = first_channel, channels
    outside = np.full(channels, x_zero_point, np.uint8)
    first, end = inner_columns(window)
    is_short = window.dilation_w == 1 and channels == c and span <= 64
    for py in range(oh):
        y = py * window.stride_h - window.pad_top
        start = py * ow * pitch
        last = y + (kh - 1) * step
        # A kernel row is copied by a whole vector. The excess is overwritten later, as
        # `out` is filled in order. Near the ends of `x` and `out` rows lack the room.
        read = (last * w + (end - 1) * stride - left) * c + 64
        is_inside = y >= 0 and last < h and read <= h * w * c
        has_room = (oh - py - 1) * ow * pitch >= 64
        if not (is_short and is_inside and has_room and end > 0):
            target = simd.address_of(out, start)
            _copy_columns(x, window, part, (0, ow), y, outside, pitch, target)
            continue
        target = simd.address_of(out, start)
        _copy_columns(x, window, part, (0, first), y, outside, pitch, target)
        target += first * pitch
        source = simd.address_of(x, (y * w + first * stride - left) * c)
        gap = pitch - kh * span
        job = (source, stride * c, step * w * c, kh, end - first, span, gap, target)
        # Short copies cross fewer cache lines.
        if span <= 16:
            copy_windows(16, job)
        else:
            copy_windows(64, job)
        target += (end - first) * pitch
        _copy_columns(x, window, part, (end, ow), y, outside, pitch, target)
