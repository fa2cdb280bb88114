"""The function that runs one convolution of codes on windows where they lie."""

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.code_windows import pad_codes
from mdtensor.kernels.cpu.generic.float_conv import padded_lines
from mdtensor.kernels.cpu.generic.pair_packing import GROUP_BYTES, PANEL
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program.windows import window_of

windows_u8s8u8 = kernel_set.compiled(kernel_set.HOST.name).windows_u8s8u8


@kernel
def part_at(constants, place, size):
    """Return a slice of the constants."""
    return constants[np.uintp(place) : np.uintp(place + size)]


@kernel
def multiply_code_windows(step, a, rows, out, constants):
    """Multiply the windows of some outputs by all weights.

    Args: rows: as in `windows_u8s8u8`.
    """
    padded = step.padded_columns
    panels = padded // PANEL
    starts = part_at(constants, step.operands, 8 * (panels + 1)).view(np.int64)
    groups = step.weight_bytes // GROUP_BYTES
    entries = part_at(constants, step.numbers, 8 * groups).view(np.int32)
    packed = part_at(constants, step.weights, GROUP_BYTES * groups).view(np.int8)
    bias = part_at(constants, step.bias, 4 * padded).view(np.int32)
    scales = part_at(constants, step.multipliers, 4 * padded).view(np.float32)
    limbs = part_at(constants, step.limbs, 64 * padded).view(np.int64)
    windows_u8s8u8(
        *(a, rows, starts, entries.reshape((2, groups)), packed, step.columns, bias),
        *(scales, limbs.reshape((padded, 8)), step.zero_point, step.lo, step.hi),
        *(out, step.out_channels),
    )


@kernel
def tap_pitch(window, line):
    """Return the bytes from a kernel line to the next; 0 if there is one."""
    return window.dilation_h * line if window.kernel_h > 1 else 0


@kernel
def convolve_code_windows(steps, i, x, y, out, scratch, constants):
    """Run a convolution on x itself, or on padded copies of `strip` lines of outputs.

    If strip is 0, no window leaves its image.
    """
    step = steps[i]
    w = window_of(step)
    c, ldc = w.channels, step.out_channels
    size, line = w.height * w.width * c, w.width * c
    if step.strip == 0:
        rows = (step.images, w.out_h, w.out_w, size, w.stride_h * line,
                w.stride_w * c, tap_pitch(w, line))  # fmt: skip
        multiply_code_windows(step, x, rows, out, constants)
        return
    width = (w.out_w - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1
    line = width * c
    for image in range(step.images):
        source = x[np.uintp(image * size) :]
        for first in range(0, w.out_h, step.strip):
            lines = min(step.strip, w.out_h - first)
            count = padded_lines(w, lines)
            pad_codes(source, w, first, count, width, step.x_zero_point, scratch)
            rows = (1, lines, w.out_w, 0, w.stride_h * line, w.stride_w * c,
                    tap_pitch(w, line))  # fmt: skip
            at = (image * w.out_h + first) * w.out_w * ldc
            target = out[np.uintp(at) :]
            multiply_code_windows(step, scratch, rows, target, constants)


#: Functions that `convolve_code_windows` calls and that call kernels.
HELPERS = (multiply_code_windows,)
