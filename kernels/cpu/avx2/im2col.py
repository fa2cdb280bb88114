"""Rows for the matrix product: the pixels under the kernel, copied side by side."""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.generic.conv import im2col_pixel, im2col_u8 as plain_im2col
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I8, I64, address_of

WIDTH = 32  # bytes of a copy; what is too much is written again by the next one
NARROW = 16  # of a copy of short rows: fewer of them cross a line of the cache


@intrinsic(prefer_literal=True)
def copy_windows(typingctx, rows, width, job):
    """The kernel rows of neighbouring outputs, one after the other.

    Args:
        rows: literal, 3 for three rows of at most `width` bytes, 0 for all others.
        width: literal, bytes of a copy.
        job: source, pixel_step, row_step, rows, count (outputs), parts (of `width`
            bytes in a row), span (bytes in a row), gap (bytes behind the rows of an
            output), target; steps in bytes, arrays by address.
    """
    shape = vectors.literals(rows, width)
    if shape is None:
        return None
    part = ir.VectorType(I8, shape[1])

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[2])
        source, pixel_step, row_step, rows, count, parts, span, gap, target = job

        def copy_row(_, carried):
            line, out = carried

            def copy_part(i, nothing):
                at = b.mul(i, I64(shape[1]))
                vectors.store(b, vectors.load(b, b.add(line, at), part), b.add(out, at))
                return nothing

            if shape[0]:
                copy_part(I64(0), [])
            else:
                vectors.repeat(b, parts, [], copy_part)
            return [b.add(line, row_step), b.add(out, span)]

        def copy_pixel(_, carried):
            pixel, out = carried
            place = [pixel, out]
            for _ in range(shape[0]):
                place = copy_row(None, place)
            if not shape[0]:
                place = vectors.repeat(b, rows, place, copy_row)
            return [b.add(pixel, pixel_step), b.add(place[1], gap)]

        vectors.repeat(b, count, [source, target], copy_pixel)
        return context.get_dummy_value()

    return types.void(rows, width, types.UniTuple(types.int64, 9)), emit


@kernel
def inner(size, taps, stride, before, outputs):
    """(first, end) of the outputs along an axis whose taps all lie in the image."""
    first = min((max(before, 0) + stride - 1) // stride, outputs)
    if size + before < taps:
        return first, first
    return first, max(first, min((size - taps + before) // stride + 1, outputs))


@kernel
def im2col_pitch(k):
    """Bytes from one row of k codes to the next: whole rows are widened in one go."""
    return (k + 3) // 4 * 4


@kernel
def im2col_u8(x, window, first_channel, channels, x_zero_point, pitch, out):
    """out[p, (i, j, c)] = x[row of p at i, column of p at j, c], padding x_zero_point.

    Args: as in the generic kernel, which also serves groups and dilated columns.
    """
    h, w, c, kh, kw, sh, sw, top, left, dh, dw, oh, ow = window
    reach = (kh - 1) * dh + 1
    if channels != c or dw != 1:
        plain_im2col(x, window, first_channel, channels, x_zero_point, pitch, out)
        return
    first, end = inner(w, kw, sw, left, ow)
    upper, lower = inner(h, reach, sh, top, oh)
    span = kw * c
    gap, parts = pitch - kh * span, (span + WIDTH - 1) // WIDTH
    # the copies of the last outputs would write past the end
    most = oh * ow - (WIDTH + pitch - 1) // pitch
    for py in range(oh):
        y = py * sh - top
        read = ((y + reach - 1) * w + (end - 1) * sw - left) * c + parts * WIDTH
        is_inside = upper <= py < lower and read <= len(x)
        px = 0
        while px < ow:
            at = (py * ow + px) * pitch
            count = min(end, most - py * ow) - px
            if is_inside and px >= first and count > 0:
                pixel = (y * w + px * sw - left) * c
                job = (address_of(x, pixel), sw * c, dh * w * c, kh, count, parts,
                       span, gap, address_of(out, at))  # fmt: skip
                if kh == 3 and span <= NARROW:
                    copy_windows(3, NARROW, job)
                elif kh == 3 and parts == 1:
                    copy_windows(3, WIDTH, job)
                else:
                    copy_windows(0, WIDTH, job)
                px += count
            else:
                im2col_pixel(x, window, py, px, first_channel, channels, x_zero_point,
                             out[np.uintp(at) :])  # fmt: skip
                px += 1
