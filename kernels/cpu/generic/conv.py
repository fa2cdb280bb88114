"""Convolution of NHWC codes: im2col rows for matrix products, and depthwise."""

import numpy as np

from mdtensor.kernels.cpu.generic import packing
from mdtensor.kernels.cpu.generic.matmul import EXACT_MATH
from mdtensor.kernels.cpu.generic.packing import (
    DEPTHWISE_BITS as DEPTHWISE_BITS,
    MOST_FACTOR as MOST_FACTOR,
    pack_depthwise as pack_depthwise,
    window as window,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import requantize_row

im2col_pitch = kernel(packing.im2col_pitch)
block_channels = kernel(packing.block_channels)


@kernel
def im2col_u8(x, window, first_channel, channels, x_zero_point, pitch, out):
    """Set out[p, (i, j, c)] = x[row of p at i, column of p at j, c].

    Args:
        x: uint8 1-D [h, w, c].
        first_channel, channels: the channels of the group; 0 and c without groups.
        x_zero_point: the value of pixels outside the image.
        pitch: bytes from one p to the next, at least kh * kw * channels; the bytes
            between two rows are undefined.
        out: uint8 1-D, at least oh * ow * pitch, written.

    A negative pad_top starts the rows at a later output row, for pieces of an image.
    """
    oh, ow = window.out_h, window.out_w
    size = window.kernel_h * window.kernel_w * channels
    for p in range(oh * ow):
        target = out[np.uintp(p * pitch) : np.uintp(p * pitch + size)]
        im2col_pixel(
            *(x, window, p // ow, p % ow, first_channel, channels, x_zero_point),
            target,
        )


@kernel
def im2col_pixel(x, window, py, px, first_channel, channels, x_zero_point, out):
    """Write the row of output pixel (py, px), as `im2col_u8` does."""
    h, w, c, kh, kw, sh, sw = window[:7]
    top, left, dh, dw = window[7:11]
    pad = np.uint8(x_zero_point)
    x0 = px * sw - left
    span = channels * kw
    # A kernel row inside the image is contiguous, so it is copied at once.
    is_row = x0 >= 0 and x0 + (kw - 1) * dw < w and dw == 1 and channels == c
    at = 0
    for i in range(kh):
        y = py * sh - top + i * dh
        if is_row and 0 <= y < h:
            source = x[np.uintp((y * w + x0) * c) :]
            target = out[np.uintp(at) : np.uintp(at + span)]
            for n in range(np.uintp(span)):
                target[n] = source[n]
            at += span
            continue
        for j in range(kw):
            xx = x0 + j * dw
            target = out[np.uintp(at) : np.uintp(at + channels)]
            if 0 <= y < h and 0 <= xx < w:
                source = x[np.uintp((y * w + xx) * c + first_channel) :]
                for n in range(np.uintp(channels)):
                    target[n] = source[n]
            else:
                for n in range(np.uintp(channels)):
                    target[n] = pad
            at += channels


@kernel
def _load_line(x, y, window, width, x_zero_point, line):
    """Set line[phase, t, c] = x[y, t * stride_w + phase - pad_left, c] as float32.

    The phases make the pixels of one tap adjacent at every stride.
    """
    h, w, c = window.height, window.width, window.channels
    sw, left = window.stride_w, window.pad_left
    pad = np.float32(x_zero_point)
    if y < 0 or y >= h:
        for n in range(np.uintp(sw * width * c)):
            line[n] = pad
        return
    row = x[np.uintp(y * w * c) : np.uintp((y + 1) * w * c)]
    for phase in range(sw):
        part = line[np.uintp(phase * width * c) : np.uintp((phase + 1) * width * c)]
        if sw == 1:
            inside = max(min(w, width - left), 0)
            for n in range(np.uintp(left * c)):
                part[n] = pad
            middle = part[np.uintp(left * c) :]
            for n in range(np.uintp(inside * c)):
                middle[n] = np.float32(row[n])
            for n in range(np.uintp((left + inside) * c), np.uintp(width * c)):
                part[n] = pad
            continue
        for t in range(width):
            at = t * sw + phase - left
            target = part[np.uintp(t * c) : np.uintp((t + 1) * c)]
            if 0 <= at < w:
                pixel = row[np.uintp(at * c) : np.uintp((at + 1) * c)]
                for n in range(np.uintp(c)):
                    target[n] = np.float32(pixel[n])
            else:
                for n in range(np.uintp(c)):
                    target[n] = pad


@kernel(fastmath=EXACT_MATH)
def _add_taps(lines, places, weights, lanes, block, sums):
    """Set sums[n] = sum over taps t of lines[places[t] + n] * weights[t, n]."""
    for n in range(lanes):
        sums[n] = np.float32(0)
    # Three taps at once load and store each sum a third as often.
    for t in range(0, len(places), 3):
        x0 = lines[np.uintp(places[t]) :]
        x1 = lines[np.uintp(places[t + 1]) :]
        x2 = lines[np.uintp(places[t + 2]) :]
        w0 = weights[np.uintp(t) * block : np.uintp(t + 1) * block]
        w1 = weights[np.uintp(t + 1) * block : np.uintp(t + 2) * block]
        w2 = weights[np.uintp(t + 2) * block : np.uintp(t + 3) * block]
        for n in range(lanes):
            sums[n] += x0[n] * w0[n] + x1[n] * w1[n] + x2[n] * w2[n]


@kernel
def _line_width(window):
    """Return the number of pixels of one phase of a padded line."""
    kw, sw, dw, ow = window.kernel_w, window.stride_w, window.dilation_w, window.out_w
    return ((ow - 1) * sw + (kw - 1) * dw) // sw + 1


@kernel
def _load_lines(x, py, window, width, x_zero_point, lines, row_of):
    """Fill the ring buffer of lines for output row `py`.

    `row_of[slot]` is the number of the image row in that slot.
    """
    kh, sh = window.kernel_h, window.stride_h
    top, dh = window.pad_top, window.dilation_h
    size = window.stride_w * width * window.channels
    for i in range(kh):
        y = py * sh - top + i * dh
        slot = (y + top) % len(row_of)
        # Neighbouring output rows share lines, which are converted once.
        if row_of[slot] != y:
            line = lines[np.uintp(slot * size) : np.uintp((slot + 1) * size)]
            _load_line(x, y, window, width, x_zero_point, line)
            row_of[slot] = y


@kernel
def _tap_places(py, window, width, ring, places):
    """Set places[tap] to the index in the ring buffer of a tap of pixel (py, 0)."""
    c, kh, kw, sh, sw = window[2:7]
    dh, dw = window.dilation_h, window.dilation_w
    for i in range(kh):
        slot = (py * sh + i * dh) % ring
        for j in range(kw):
            phase, pixel = (j * dw) % sw, (j * dw) // sw
            places[i * kw + j] = ((slot * sw + phase) * width + pixel) * c
    # The weights of padding taps are 0, so any readable place serves.
    for t in range(kh * kw, len(places)):
        places[t] = 0


@kernel
def _repeat(values, c, tiled):
    """Fill `tiled` with the first c values, again and again."""
    for n in range(len(tiled)):
        tiled[n] = values[n % c]


@kernel
def depthwise_u8s8u8(
    x,
    window,
    c,
    packed,
    bias,
    multiplier,
    limbs,
    exception_sums,
    x_zero_point,
    zero_point,
    lo,
    hi,
    out,
):
    """Set out[p, c] = clamp(rhe((sum of taps + bias) * ratio) + zero_point).

    Args:
        x: uint8 1-D [h, w, c].
        packed: weights int8 [c, kh, kw] from `pack_depthwise`.
        bias: int32 [>= c], holds b - x_zero_point * sum of the channel's weights.
        multiplier, limbs: float32 [>= c], int64 [>= c, 8], from `rescale`.
        exception_sums: int32 [0]; this kernel finds sums near ties instead.
        x_zero_point: int in 0 .. 255, also the value of padding.
        out: uint8 1-D [oh, ow, c], written.

    Rounding: half to even (rhe) of the exact rational. Overflow: saturates.
    """
    width = _line_width(window)
    block = np.uintp(block_channels(c))
    ring = (window.kernel_h - 1) * window.dilation_h + 1
    lines = np.empty(ring * window.stride_w * width * c + int(block), np.float32)
    # No row of a padded image has this number, so every slot starts empty.
    row_of = np.full(ring, -(1 << 40))
    places = np.empty((window.kernel_h * window.kernel_w + 2) // 3 * 3, np.int64)
    weights = packed.view(np.float32)
    sums = np.empty(block, np.float32)
    acc = np.empty(block, np.int32)
    tiled_bias = np.empty(block, np.int32)
    tiled_multiplier = np.empty(block, np.float32)
    _repeat(bias, c, tiled_bias)
    _repeat(multiplier, c, tiled_multiplier)
    row = np.uintp(window.out_w * c)
    for py in range(window.out_h):
        _load_lines(x, py, window, width, x_zero_point, lines, row_of)
        _tap_places(py, window, width, ring, places)
        done = np.uintp(0)
        while done < row:
            lanes = min(block, row - done)
            _add_taps(lines[done:], places, weights, lanes, block, sums)
            for n in range(lanes):
                acc[n] = np.int32(sums[n])
            at = np.uintp(py) * row + done
            requantize_row(
                *(acc[:lanes], tiled_bias, tiled_multiplier, limbs, c),
                *(zero_point, lo, hi, out[at : at + lanes]),
            )
            done += lanes


@kernel
def depthwise_u8s8s32(x, window, c, packed, bias, x_zero_point, out):
    """Set out[p, c] = sum of taps + bias, exact in int32.

    Args: as `depthwise_u8s8u8`; out: int32 1-D [oh, ow, c], written.
    """
    width = _line_width(window)
    block = np.uintp(block_channels(c))
    ring = (window.kernel_h - 1) * window.dilation_h + 1
    lines = np.empty(ring * window.stride_w * width * c + int(block), np.float32)
    # No row of a padded image has this number, so every slot starts empty.
    row_of = np.full(ring, -(1 << 40))
    places = np.empty((window.kernel_h * window.kernel_w + 2) // 3 * 3, np.int64)
    weights = packed.view(np.float32)
    sums = np.empty(block, np.float32)
    row = np.uintp(window.out_w * c)
    for py in range(window.out_h):
        _load_lines(x, py, window, width, x_zero_point, lines, row_of)
        _tap_places(py, window, width, ring, places)
        done = np.uintp(0)
        while done < row:
            lanes = min(block, row - done)
            _add_taps(lines[done:], places, weights, lanes, block, sums)
            target = out[np.uintp(py) * row + done :]
            for n in range(lanes):
                target[n] = np.int32(np.int32(sums[n]) + bias[n % np.uintp(c)])
            done += lanes
