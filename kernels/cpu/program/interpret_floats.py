"""Functions that run one step on float32; `interpret` has the functions for codes.

Buffers are bytes; images are channels last. Bytes move by the functions of codes.
"""

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.copies import transpose_f32
from mdtensor.kernels.cpu.generic.float_conv import (
    pad_lines,
    padded_lines,
    padded_width,
)
from mdtensor.kernels.cpu.generic.float_elementwise import elementwise_f32
from mdtensor.kernels.cpu.generic.float_matmul import pack_matrix_f32
from mdtensor.kernels.cpu.generic.float_pool import (
    avg_pool_f32,
    max_pool_f32,
    mean_f32,
)
from mdtensor.kernels.cpu.generic.float_resize import resample_f32
from mdtensor.kernels.cpu.generic.float_rows import (
    normalize_f32,
    softmax_columns_f32,
    softmax_f32,
)
from mdtensor.kernels.cpu.generic.opcodes import FIELDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import Window, kinds
from mdtensor.kernels.cpu.program.kinds import ITEM
from mdtensor.kernels.cpu.program.windows import window_of

HOST = kernel_set.compiled(kernel_set.HOST.name)
depthwise_f32 = HOST.depthwise_f32
gemm_act_f32 = HOST.gemm_act_f32
im2col_pitch = HOST.im2col_pitch
im2col_u8 = HOST.im2col_u8
windows_act_f32 = HOST.windows_act_f32


@kernel
def floats_at(buffer, start, size):
    """Return float32 elements start .. start + size of a buffer of bytes."""
    first = np.uintp(start * ITEM)
    return buffer[first : first + np.uintp(size * ITEM)].view(np.float32)


@kernel
def part_of(w, line, lines, column, columns):
    """Return the window of some lines and columns of the outputs, sizes in bytes."""
    return Window(
        *(w.height, w.width, w.channels * ITEM, w.kernel_h, w.kernel_w),
        *(w.stride_h, w.stride_w, w.pad_top - line * w.stride_h),
        *(w.pad_left - column * w.stride_w, w.dilation_h, w.dilation_w),
        *(lines, columns),
    )


@kernel
def residual_at(step, y, start, size):
    """Return what a product adds to elements start .. start + size; empty for none."""
    return floats_at(y, start, size if step.has_residual != 0 else 0)


@kernel
def multiply_pixels(step, group, a, lda, rows, start, y, out, constants):
    """Multiply `rows` rows of `a` by the weights of a group.

    The results lie at element `start` of `out`.
    """
    n, padded, ldc = step.columns, step.padded_columns, step.out_channels
    place = step.weights + group * step.weight_bytes
    packed = floats_at(constants[np.uintp(place) :], 0, step.weight_bytes // ITEM)
    place = step.bias + group * padded * ITEM
    bias = floats_at(constants[np.uintp(place) :], 0, padded)
    size = max(0, rows - 1) * ldc + n
    gemm_act_f32(
        *(a, lda, rows, step.depth, packed, n, bias),
        *(residual_at(step, y, start, size), step.activation),
        *(np.float32(step.low), np.float32(step.high)),
        *(floats_at(out, start, size), ldc),
    )


# Products activate their sums in the tile: a pass of its own costs a third more
# (decision 0053).
@kernel
def convolve_floats(steps, i, x, y, out, scratch, constants):
    """Run a convolution as a matrix product.

    If strip is 0, the pixels of x are the rows. Otherwise im2col copies `strip` lines
    of outputs at a time, or `rows` outputs of one line.
    """
    step = steps[i]
    window = window_of(step)
    c, ow = window.channels, window.out_w
    channels, n, ldc = c // step.groups, step.columns, step.out_channels
    outputs, size = window.out_h * ow, window.height * window.width * c
    if step.strip == 0:
        rows = step.images * outputs
        for g in range(step.groups):
            length = max(0, rows - 1) * c + channels
            a = floats_at(x, g * channels, length)
            multiply_pixels(step, g, a, c, rows, g * n, y, out, constants)
        return
    pitch = im2col_pitch(step.depth * ITEM)
    for part in range(step.groups * step.images):
        g, image = part // step.images, part % step.images
        source = x[np.uintp(image * size * ITEM) :]
        for line in range(0, window.out_h, step.strip):
            lines = min(step.strip, window.out_h - line)
            for column in range(0, ow, step.rows):
                columns = min(step.rows, ow - column)
                seen = part_of(window, line, lines, column, columns)
                im2col_u8(
                    *(source, seen, g * channels * ITEM, channels * ITEM, 0, pitch),
                    scratch,
                )
                rows = lines * columns
                a = floats_at(scratch, 0, rows * (pitch // ITEM))
                start = (image * outputs + line * ow + column) * ldc + g * n
                multiply_pixels(
                    step, g, a, pitch // ITEM, rows, start, y, out, constants
                )


# The windows of a line overlap, so one copy of the line serves all (decision 0054).
@kernel
def convolve_windows(steps, i, x, y, out, scratch, constants):
    """Run a convolution on padded copies of `strip` lines of outputs at a time."""
    step = steps[i]
    window = window_of(step)
    c, ow = window.channels, window.out_w
    channels, n, ldc = c // step.groups, step.columns, step.out_channels
    width = padded_width(window) * channels
    rise, padded = window.stride_h * width, step.padded_columns
    taps = window.kernel_h, window.dilation_h * width, window.kernel_w * channels
    outputs, size = window.out_h * ow, window.height * window.width * c
    low, high = np.float32(step.low), np.float32(step.high)
    for part in range(step.groups * step.images):
        g, image = part // step.images, part % step.images
        place = step.weights + g * step.weight_bytes
        packed = floats_at(constants[np.uintp(place) :], 0, step.weight_bytes // ITEM)
        place = step.bias + g * padded * ITEM
        bias = floats_at(constants[np.uintp(place) :], 0, padded)
        source = floats_at(x, image * size, size)
        for line in range(0, window.out_h, step.strip):
            lines = min(step.strip, window.out_h - line)
            count = padded_lines(window, lines)
            a = floats_at(scratch, 0, count * width)
            pad_lines(source, window, line, count, g * channels, channels, a)
            start = (image * outputs + line * ow) * ldc + g * n
            length = max(0, lines * ow - 1) * ldc + n
            windows_act_f32(
                *(a, (lines, ow, rise, window.stride_w * channels), taps, packed),
                *(n, bias, residual_at(step, y, start, length), step.activation),
                *(low, high, floats_at(out, start, length), ldc),
            )


@kernel
def convolve_depthwise_floats(steps, i, x, y, out, scratch, constants):
    """Run a depthwise convolution."""
    step = steps[i]
    window = window_of(step)
    c = window.channels
    size, outputs = window.height * window.width * c, window.out_h * window.out_w * c
    packed = floats_at(
        constants[np.uintp(step.weights) :], 0, step.weight_bytes // ITEM
    )
    bias = floats_at(constants[np.uintp(step.bias) :], 0, c)
    for image in range(step.images):
        depthwise_f32(
            *(floats_at(x, image * size, size), window, packed, bias),
            *(step.activation, np.float32(step.low), np.float32(step.high)),
            floats_at(out, image * outputs, outputs),
        )


@kernel
def max_pool_floats(steps, i, x, y, out, scratch, constants):
    """Run a MaxPool."""
    step = steps[i]
    window = window_of(step)
    size = window.height * window.width * window.channels
    outputs = window.out_h * window.out_w * window.channels
    for image in range(step.images):
        z = floats_at(out, image * outputs, outputs)
        max_pool_f32(floats_at(x, image * size, size), window, z)


@kernel
def avg_pool_floats(steps, i, x, y, out, scratch, constants):
    """Run an AvgPool."""
    step = steps[i]
    window = window_of(step)
    size = window.height * window.width * window.channels
    outputs = window.out_h * window.out_w * window.channels
    for image in range(step.images):
        a, z = (
            floats_at(x, image * size, size),
            floats_at(out, image * outputs, outputs),
        )
        avg_pool_f32(a, window, step.counts_padding != 0, z)


@kernel
def mean_floats(steps, i, x, y, out, scratch, constants):
    """Run a Mean."""
    step = steps[i]
    pixels, c = step.pixels, step.channels
    for image in range(step.images):
        a = floats_at(x, image * pixels * c, pixels * c)
        mean_f32(a, pixels, c, floats_at(out, image * c, c))


@kernel
def run_elementwise(steps, i, x, y, out, scratch, constants):
    """Run an Elementwise; the scratch holds its blocks."""
    step = steps[i]
    count, operands = step.instructions, step.operand_count
    program = constants[: np.uintp(count * 32)].view(np.int64).reshape((-1, 4))
    numbers = floats_at(constants[np.uintp(step.numbers) :], 0, 2 * count)
    place = step.operands
    table = constants[np.uintp(place) : np.uintp(place + operands * FIELDS * 8)]
    blocks = (operands + step.registers) * step.strip
    # A row of a program has the places of two inputs.
    a, b = floats_at(x, 0, len(x) // ITEM), floats_at(y, 0, len(y) // ITEM)
    elementwise_f32(
        (a, b, a, a),
        floats_at(constants, 0, len(constants) // ITEM),
        *(table.view(np.int64).reshape((-1, FIELDS)), program),
        *(numbers.reshape((-1, 2)), step.start, step.segment, step.strip),
        step.length,
        *(floats_at(scratch, 0, blocks), floats_at(out, 0, step.out_bytes // ITEM)),
    )


@kernel
def transpose_floats(steps, i, x, y, out, scratch, constants):
    """Run a Transpose."""
    step = steps[i]
    pixels, c = step.pixels, step.channels
    for image in range(step.images):
        a = floats_at(x, image * pixels * c, pixels * c)
        z = floats_at(out, image * pixels * c, pixels * c)
        transpose_f32(a, pixels, c, z)


@kernel
def softmax_floats(steps, i, x, y, out, scratch, constants):
    """Run a Softmax."""
    step = steps[i]
    count = step.out_bytes // ITEM
    a, z = floats_at(x, 0, count), floats_at(out, 0, count)
    if step.inner > 1:
        softmax_columns_f32(a, step.length, step.inner, z)
    else:
        softmax_f32(a, step.length, z)


@kernel
def normalize_floats(steps, i, x, y, out, scratch, constants):
    """Run a Normalize."""
    step = steps[i]
    count, length = step.out_bytes // ITEM, step.length
    weight = floats_at(constants, 0, length if step.weight_bytes != 0 else 0)
    has_bias = step.bias != 0
    bias = floats_at(constants[np.uintp(step.bias) :], 0, length if has_bias else 0)
    normalize_f32(
        *(floats_at(x, 0, count), length, step.is_centered),
        *(np.float32(step.low), weight, bias, floats_at(out, 0, count)),
    )


@kernel
def resample_floats(steps, i, x, y, out, scratch, constants):
    """Run a Resample."""
    step = steps[i]
    outer, inner, new, taps = step.outer, step.inner, step.rows, step.columns
    size = np.uintp(new * taps * 8)
    indices = constants[np.uintp(step.operands) :][:size].view(np.int64)
    weights = floats_at(constants[np.uintp(step.numbers) :], 0, new * taps)
    resample_f32(
        *(floats_at(x, 0, outer * step.length * inner), outer, step.length, inner),
        *(indices.reshape((new, taps)), weights.reshape((new, taps))),
        floats_at(out, 0, outer * new * inner),
    )


@kernel
def multiply_matrices_floats(steps, i, x, y, out, scratch, constants):
    """Run a MatMul.

    The scratch holds the packed y, then zeros for the bias. If x begins with a column
    of biases, y gets a row of ones for them. Then sums start at -0: + 0 would lose the
    sign of a bias of -0.
    """
    step = steps[i]
    ones, start = step.bias, np.float32(-0.0 if step.bias != 0 else 0.0)
    m, k, n, padded = step.rows, step.depth, step.columns, step.padded_columns
    places = constants[: np.uintp(step.images * 16)].view(np.int64).reshape((-1, 2))
    packed = floats_at(scratch, 0, k * padded)
    bias = floats_at(scratch, k * padded, padded)
    bias[:] = start
    before = np.int64(-1)
    for image in range(step.images):
        if places[image, 1] != before:
            given = floats_at(y, places[image, 1], (k - ones) * n)
            pack_matrix_f32(given, k - ones, n, ones, packed)
            before = places[image, 1]
        gemm_act_f32(
            *(floats_at(x, places[image, 0], m * k), k, m, k, packed, n, bias),
            *(bias[:0], step.activation, np.float32(step.low), np.float32(step.high)),
            *(floats_at(out, image * m * n, m * n), n),
        )


INVOKE = tuple(globals()[name] for name in kinds.OF_FLOATS)
#: Functions that `INVOKE` calls and that call kernels.
HELPERS = (multiply_pixels,)
