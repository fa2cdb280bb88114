"""Dense convolutions of float32 images, channels last, without a copy of each window.

Lines of the image are copied once, with zeros around them. In this padded image the
taps of one kernel line lie side by side, for all channels. So a convolution is a sum of
matrix products, one for each kernel line, whose rows overlap.
"""

import numpy as np

from mdtensor.kernels.cpu.generic import float_packing
from mdtensor.kernels.cpu.generic.activation import ZERO
from mdtensor.kernels.cpu.generic.float_matmul import (
    add_products,
    finish_columns,
)
from mdtensor.kernels.cpu.generic.float_packing import PANEL
from mdtensor.kernels.cpu.jit import kernel

padded_lines = kernel(float_packing.padded_lines)
padded_width = kernel(float_packing.padded_width)


@kernel
def pad_lines(x, window, line, lines, first_channel, channels, out):
    """Copy the input lines of some lines of outputs, with zeros around the image.

    Args:
        x: float32 1-D [h, w, c].
        line: the first line of outputs.
        lines: of the padded image.
        first_channel, channels: the channels of the group.
        out: float32 1-D [lines, padded width, channels], written.
    """
    h, w, c = window.height, window.width, window.channels
    left, width = window.pad_left, padded_width(window)
    first = max(0, -left)
    begin, end = min(max(0, left), width), max(0, min(width, left + w))
    size = width * channels
    for i in range(lines):
        y = line * window.stride_h - window.pad_top + i
        target = out[np.uintp(i * size) : np.uintp((i + 1) * size)]
        if y < 0 or y >= h or end <= begin:
            target[:] = ZERO
            continue
        target[: np.uintp(begin * channels)] = ZERO
        target[np.uintp(end * channels) :] = ZERO
        place = (y * w + first) * c + first_channel
        if channels == c:
            count = np.uintp((end - begin) * c)
            source = x[np.uintp(place) : np.uintp(place) + count]
            own = target[np.uintp(begin * c) : np.uintp(begin * c) + count]
            for n in range(count):
                own[n] = source[n]
            continue
        for j in range(end - begin):
            pixel = x[np.uintp(place + j * c) :]
            own = target[np.uintp((begin + j) * channels) :]
            for n in range(np.uintp(channels)):
                own[n] = pixel[n]


# Taps are added in the order of im2col, so both give the same bytes (decision 0054).
@kernel
def windows_act_f32(
    a, rows, taps, packed, n, bias, residual, activation, low, high, out, ldc
):
    """Set out[p, j] = act(bias[j] + sum of windows of a times weights + residual).

    Args:
        a: float32 1-D, lines of a padded image.
        rows: (lines, columns, line pitch, column pitch) of the outputs: where their
            windows begin in `a`.
        taps: (lines, line pitch, depth): a window is `lines` runs of `depth` numbers.
        packed: float32, by `pack_f32`, with k = lines * depth.
        bias, residual, activation, low, high, out, ldc: as in `gemm_act_f32`.

    Rounding: as in `gemm_act_f32`.
    """
    lines, columns, line_pitch, pitch = rows
    kernel_lines, tap_pitch, depth = taps
    after, size = (residual, activation, low, high), kernel_lines * depth * PANEL
    sums = np.empty(PANEL, np.float32)
    for first in range(0, n, PANEL):
        place = first // PANEL * size
        for p in range(lines * columns):
            start = p // columns * line_pitch + p % columns * pitch
            for j in range(PANEL):
                sums[j] = bias[np.uintp(first + j)]
            for i in range(kernel_lines):
                at = place + i * depth * PANEL
                weights = packed[np.uintp(at) : np.uintp(at + depth * PANEL)]
                add_products(a, start + i * tap_pitch, depth, weights, sums)
            count = min(PANEL, n - first)
            finish_columns(sums, 0, 0, 1, count, after, out, p * ldc + first, ldc)
