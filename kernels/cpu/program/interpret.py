"""Functions that run one step of a Program: slice the buffers, call the kernel.

Each takes (steps, i, x, y, out, scratch, constants): an array of records (see
`record.STEP`), the number of a step, and uint8 1-D buffers. `x` and `y` are the inputs,
the same buffer twice if there is one input. `constants` holds the arrays of the step at
the offsets in the record. Addresses do not occur: under NUMBA_DISABLE_JIT=1 a wrong
offset raises IndexError instead of writing elsewhere.
"""

from functools import cache
from types import FunctionType

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.copies import concat_u8, move_f32, move_u8, take_u8
from mdtensor.kernels.cpu.generic.elementwise import (
    choose_u8,
    lookup_channels_u8,
    slopes_u8,
)
from mdtensor.kernels.cpu.generic.normalization import normalize_u8
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import (
    Window,
    interpret_dynamic,
    interpret_floats,
    interpret_plain,
    interpret_recurrent,
    interpret_reductions,
    interpret_row_words,
    interpret_windows,
    kinds,
)
from mdtensor.kernels.cpu.program.kinds import SLACK, STRIP
from mdtensor.kernels.cpu.program.windows import window_of

HOST = kernel_set.compiled(kernel_set.HOST.name)
add_u8u8u8 = HOST.add_u8u8u8
avg_pool_u8 = HOST.avg_pool_u8
depthwise_u8s8s32 = HOST.depthwise_u8s8s32
depthwise_u8s8u8 = HOST.depthwise_u8s8u8
dequantize_u8f32 = HOST.dequantize_u8f32
gemm_u8s8s32 = HOST.gemm_u8s8s32
gemm_u8s8u8 = HOST.gemm_u8s8u8
gemm_u8u8u8 = HOST.gemm_u8u8u8
im2col_pitch = HOST.im2col_pitch
im2col_u8 = HOST.im2col_u8
lookup_u8 = HOST.lookup_u8
max_pool_u8 = HOST.max_pool_u8
mean_u8u8 = HOST.mean_u8u8
mul_u8u8u8 = HOST.mul_u8u8u8
pack_codes = HOST.pack_codes
quantize_f32u8 = HOST.quantize_f32u8
quantize_nchw_f32u8 = HOST.quantize_nchw_f32u8
softmax_u8 = HOST.softmax_u8

# Slices have unsigned bounds, for which numba omits the test for negative indices.
# Functions take the array of steps and a number, because numba needs 2.6 us to unpack a
# record that Python passes: more than a small step takes.


@kernel
def _part(constants, offset, size):
    """Return a slice of the constants."""
    return constants[np.uintp(offset) : np.uintp(offset + size)]


@kernel
def _exception_sums(step, constants, group):
    """Return the exception sums of a group; an empty array if their place is 0."""
    # The weights lie at 0, so exception sums never do.
    size = 4 * step.padded_columns if step.exception_sums else 0
    place = step.exception_sums + group * size
    return _part(constants, place, size).view(np.int32)


@kernel
def _multipliers(step, constants, group, count):
    """Return the float32 multipliers of a group of `count` ratios."""
    place = step.multipliers + group * count * 4
    return _part(constants, place, count * 4).view(np.float32)


@kernel
def _limbs(step, constants, group, count):
    """Return the limbs of a group of `count` ratios, int64 [count, 8]."""
    found = _part(constants, step.limbs + group * count * 64, count * 64)
    return found.view(np.int64).reshape((count, 8))


@kernel
def _strip(w, first, rows):
    """Return the window of `rows` output lines from line `first` on."""
    return Window(
        *(w.height, w.width, w.channels, w.kernel_h, w.kernel_w, w.stride_h),
        *(w.stride_w, w.pad_top - first * w.stride_h, w.pad_left, w.dilation_h),
        *(w.dilation_w, rows, w.out_w),
    )


@kernel
def _operand(step, group, image, first, rows, x, scratch):
    """Return the activations of a product: x itself, or im2col in scratch.

    For x itself, `first` and `rows` count pixels.
    """
    window = window_of(step)
    c, channels = window.channels, window.channels // step.groups
    if step.strip == 0:
        # The end of x without slack is copied, since kernels read whole vectors.
        start = np.uintp(first * c)
        if len(x) >= (first + rows) * c + SLACK:
            return x[start + np.uintp(group * channels) :]
        for i in range(np.uintp(rows * c)):
            scratch[i] = x[start + i]
        return scratch[np.uintp(group * channels) :]
    strip = _strip(window, first, rows)
    source = x[np.uintp(image * window.height * window.width * c) :]
    pitch = im2col_pitch(window.kernel_h * window.kernel_w * channels)
    padding = step.x_zero_point
    im2col_u8(source, strip, group * channels, channels, padding, pitch, scratch)
    return scratch


@kernel
def convolve(steps, i, x, y, out, scratch, constants):
    """Run a convolution as a matrix product.

    If strip is 0, the pixels of x are the rows; otherwise the rows are the im2col of
    `strip` output lines at a time.
    """
    step = steps[i]
    window = window_of(step)
    groups, n, padded = step.groups, step.columns, step.padded_columns
    k = window.kernel_h * window.kernel_w * (window.channels // groups)
    ldc = step.out_channels
    batch, lines, length = step.images, window.out_h, window.out_w
    lda, pace = im2col_pitch(k), step.strip
    if step.strip == 0:
        lines, lda = batch * lines * length, window.channels
        batch, length = 1, 1
        # Only the rows whose vectors end past the end of x go through scratch.
        tail = SLACK // lda + 1
        has_slack = len(x) >= lines * lda + SLACK
        pace = lines if has_slack else max(lines - tail, min(lines, tail))
    # All images of a group follow each other, so that its weights stay in a cache.
    for part in range(groups * batch):
        g, image = part // batch, part % batch
        place = step.weights + g * step.weight_bytes
        packed = _part(constants, place, step.weight_bytes).view(np.int8)
        place = step.bias + g * padded * 4
        bias = _part(constants, place, padded * 4).view(np.int32)
        for first in range(0, lines, pace):
            rows = min(pace, lines - first)
            a = _operand(step, g, image, first, rows, x, scratch)
            m = rows * length
            at = (image * lines + first) * length * ldc + g * n
            if step.is_exact != 0:
                z = out.view(np.int32)[np.uintp(at) :]
                gemm_u8s8s32(a, lda, m, k, packed, n, bias, z, ldc)
                continue
            gemm_u8s8u8(
                *(a, lda, m, k, packed, n, bias),
                *(_multipliers(step, constants, g, padded),),
                *(_limbs(step, constants, g, padded),),
                *(
                    _exception_sums(step, constants, g),
                    step.zero_point,
                    step.lo,
                    step.hi,
                ),
                *(out[np.uintp(at) :], ldc),
            )


@kernel
def convolve_depthwise(steps, i, x, y, out, scratch, constants):
    """Run a depthwise convolution."""
    step = steps[i]
    window = window_of(step)
    c, padded = window.channels, step.padded_columns
    size = window.height * window.width * c
    outputs = window.out_h * window.out_w * c
    packed = _part(constants, step.weights, step.weight_bytes).view(np.int8)
    bias = _part(constants, step.bias, padded * 4).view(np.int32)
    for image in range(step.images):
        source = x[np.uintp(image * size) :]
        if step.is_exact != 0:
            wide = out.view(np.int32)[np.uintp(image * outputs) :]
            depthwise_u8s8s32(source, window, c, packed, bias, step.x_zero_point, wide)
            continue
        depthwise_u8s8u8(
            *(source, window, c, packed, bias),
            *(_multipliers(step, constants, 0, padded),),
            *(_limbs(step, constants, 0, padded), _exception_sums(step, constants, 0)),
            *(step.x_zero_point, step.zero_point, step.lo, step.hi),
            *(out[np.uintp(image * outputs) :],),
        )


@kernel
def look_up(steps, i, x, y, out, scratch, constants):
    """Run a Lookup."""
    lookup_u8(x, constants[:256], out)


@kernel
def look_up_channels(steps, i, x, y, out, scratch, constants):
    """Run a LookupChannels."""
    step = steps[i]
    inner, channels = step.inner, step.channels
    if step.columns > 0:
        size = step.columns * 4
        above = _part(constants, 0, size).view(np.float32)
        below = _part(constants, size, size).view(np.float32)
        slopes_u8(x, above, below, step.x_zero_point, step.zero_point, out)
        return
    if inner == 1:
        lookup_channels_u8(x, channels, constants, out)
        return
    for plane in range(len(out) // inner):
        part = slice(np.uintp(plane * inner), np.uintp((plane + 1) * inner))
        table = _part(constants, plane % channels * 256, 256)
        lookup_u8(x[part], table, out[part])


@kernel
def add(steps, i, x, y, out, scratch, constants):
    """Run an Add."""
    step = steps[i]
    multipliers = _part(constants, step.multipliers, 8).view(np.float32)
    limbs = _part(constants, step.limbs, 96).view(np.int64)
    guard = _part(constants, step.guard, 4).view(np.float32)
    add_u8u8u8(
        *(x, y, step.x_zero_point, step.y_zero_point, multipliers, limbs, guard[0]),
        *(step.zero_point, step.lo, step.hi, out),
    )


@kernel
def multiply(steps, i, x, y, out, scratch, constants):
    """Run a Mul."""
    step = steps[i]
    pixels, c, has_factors = step.pixels, step.channels, step.has_factors != 0
    multiplier = _multipliers(step, constants, 0, 1)
    limbs = _limbs(step, constants, 0, 1)
    size = pixels * c
    for image in range(step.images):
        a = x[np.uintp(image * size) : np.uintp((image + 1) * size)]
        b = y[np.uintp(image * (c if has_factors else size)) :]
        z = out[np.uintp(image * size) : np.uintp((image + 1) * size)]
        mul_u8u8u8(
            *(a, b, pixels, c, has_factors, step.x_zero_point, step.y_zero_point),
            *(multiplier, limbs, step.zero_point, step.lo, step.hi, z),
        )


@kernel
def mean(steps, i, x, y, out, scratch, constants):
    """Run a Mean."""
    step = steps[i]
    pixels, c = step.pixels, step.channels
    multiplier = _multipliers(step, constants, 0, 1)
    limbs = _limbs(step, constants, 0, 1)
    for image in range(step.images):
        a = x[np.uintp(image * pixels * c) :]
        z = out[np.uintp(image * c) : np.uintp((image + 1) * c)]
        mean_u8u8(
            *(a, pixels, c, step.x_zero_point, multiplier, limbs),
            *(step.zero_point, step.lo, step.hi, z),
        )


@kernel
def max_pool(steps, i, x, y, out, scratch, constants):
    """Run a MaxPool."""
    step = steps[i]
    window = window_of(step)
    size = window.height * window.width * window.channels
    outputs = window.out_h * window.out_w * window.channels
    for image in range(step.images):
        a = x[np.uintp(image * size) :]
        z = out[np.uintp(image * outputs) : np.uintp((image + 1) * outputs)]
        max_pool_u8(a, window, z)


@kernel
def avg_pool(steps, i, x, y, out, scratch, constants):
    """Run an AvgPool."""
    step = steps[i]
    window = window_of(step)
    size = window.height * window.width * window.channels
    outputs = window.out_h * window.out_w * window.channels
    counts = window.kernel_h * window.kernel_w
    multiplier = _multipliers(step, constants, 0, counts)
    limbs = _limbs(step, constants, 0, counts)
    for image in range(step.images):
        a = x[np.uintp(image * size) :]
        z = out[np.uintp(image * outputs) : np.uintp((image + 1) * outputs)]
        avg_pool_u8(
            *(a, window, step.counts_padding != 0, step.x_zero_point),
            *(multiplier, limbs, step.zero_point, step.lo, step.hi, z),
        )


@kernel
def quantize(steps, i, x, y, out, scratch, constants):
    """Run a Quantize."""
    step = steps[i]
    scale = constants[:8].view(np.float64)[0]
    values = x[: np.uintp(step.elements * 4)].view(np.float32)
    quantize_f32u8(values, scale, step.zero_point, step.lo, step.hi, out)


@kernel
def quantize_nchw(steps, i, x, y, out, scratch, constants):
    """Run a Quantize of channels first."""
    step = steps[i]
    images, c, pixels = step.images, step.channels, step.pixels
    padded = step.out_channels
    scale = constants[:8].view(np.float64)[0]
    values = x[: np.uintp(images * c * pixels * 4)].view(np.float32)
    for image in range(images):
        a = values[np.uintp(image * c * pixels) :]
        z = out[np.uintp(image * padded * pixels) :]
        quantize_nchw_f32u8(
            *(a, c, pixels, padded, scale, step.zero_point, step.lo, step.hi, z)
        )


@kernel
def dequantize(steps, i, x, y, out, scratch, constants):
    """Run a Dequantize."""
    scale = constants[:8].view(np.float64)[0]
    dequantize_u8f32(x, scale, steps[i].x_zero_point, out.view(np.float32))


@kernel
def move(steps, i, x, y, out, scratch, constants):
    """Run a Move."""
    step = steps[i]
    # Floats one by one: a slice for each would take longer than the float.
    if step.run == 4 and step.is_single != 0:
        size = np.uintp(step.x_bytes // 4 * 4)
        a, z = x[:size].view(np.float32), out[: np.uintp(step.out_bytes)]
        move_f32(a, step.start, step.lengths, step.jumps, z.view(np.float32))
        return
    move_u8(x, step.start, step.lengths, step.jumps, step.run, out)


@kernel
def take(steps, i, x, y, out, scratch, constants):
    """Run a Take."""
    step = steps[i]
    count = step.indices
    places = constants[: np.uintp(count * 16)].view(np.int64).reshape((count, 2))
    take_u8(x, places, step.outer, step.length, step.inner, out)


@kernel
def concat(steps, i, x, y, out, scratch, constants):
    """Run a Concat."""
    step = steps[i]
    concat_u8(x, y, step.outer, step.x_run, step.y_run, out)


@kernel
def _column_terms(step, y, bias):
    """Set what the zero points add to each column of a product of two matrices.

    bias[j] = -x_zero * sum over i of (y[i, j] - y_zero), modulo 2**32.
    """
    k, n = np.uintp(step.depth), np.uintp(step.columns)
    zero, own = np.int64(step.x_zero_point), step.depth * step.y_zero_point
    for j in range(len(bias)):
        bias[j] = np.int32(0)
    if zero == 0:
        return
    for i in range(k):
        line = y[i * n : (i + np.uintp(1)) * n]
        for j in range(n):
            bias[j] = np.int32(bias[j] + np.int32(line[j]))
    for j in range(n):
        bias[j] = np.int32(-zero * (np.int64(bias[j]) - own))


@kernel
def _multiply_rows(step, a, first, count, packed, bias, sums, constants, out):
    """Compute rows first .. first + count of a product of two matrices."""
    k, n, padded = step.depth, step.columns, step.padded_columns
    multiplier = _multipliers(step, constants, 0, padded)
    limbs = _limbs(step, constants, 0, padded)
    zero_point, lo, hi = step.zero_point, step.lo, step.hi
    source, target = a[np.uintp(first * k) :], out[np.uintp(first * n) :]
    # Packed codes are codes minus 128.
    zero = step.y_zero_point - 128
    if zero == 0:
        gemm_u8s8u8(
            *(source, k, count, k, packed.view(np.int8), n, bias, multiplier, limbs),
            *(_exception_sums(step, constants, 0), zero_point, lo, hi, target, n),
        )
        return
    gemm_u8u8u8(
        *(source, count, k, packed, n, bias, zero, multiplier, limbs),
        *(zero_point, lo, hi, sums, target),
    )


@kernel
def multiply_matrices(steps, i, x, y, out, scratch, constants):
    """Run a MatMul.

    The scratch holds the packed y, the terms of its columns, then the sums of `strip`
    rows, then a copy of a matrix of x.
    """
    step = steps[i]
    m, k, n, pace = step.rows, step.depth, step.columns, step.strip
    places = _part(constants, 0, step.images * 16).view(np.int64).reshape((-1, 2))
    packed = scratch[: np.uintp(step.weight_bytes)]
    at = step.weight_bytes + 4 * step.padded_columns
    bias = scratch[np.uintp(step.weight_bytes) : np.uintp(at)].view(np.int32)
    sums = scratch[np.uintp(at) : np.uintp(at + 4 * pace * n)].view(np.int32)
    copy = scratch[np.uintp(at + 4 * pace * n) :]
    before = np.int64(-1)
    for image in range(step.images):
        a, b = x[np.uintp(places[image, 0]) :], y[np.uintp(places[image, 1]) :]
        if places[image, 1] != before:
            pack_codes(b, n, 1, k, n, step.y_zero_point - 128, packed)
            _column_terms(step, b, bias)
            before = places[image, 1]
        # The end of x without slack is copied, since kernels read whole vectors.
        if len(a) < m * k + SLACK:
            for j in range(np.uintp(m * k)):
                copy[j] = a[j]
            a = copy
        z = out[np.uintp(image * m * n) :]
        for first in range(0, m, pace):
            _multiply_rows(
                *(step, a, first, min(pace, m - first)),
                *(packed, bias, sums, constants, z),
            )


@kernel
def softmax(steps, i, x, y, out, scratch, constants):
    """Run a Softmax."""
    step = steps[i]
    powers = _part(constants, 0, 2048).view(np.float64)
    inverse = _part(constants, step.inverse_step, 8).view(np.float64)[0]
    sums = _part(constants, step.limbs, 1 << 14).view(np.int64).reshape((256, 8))
    quotients = _part(constants, step.quotients, 1 << 14).view(np.int64)
    softmax_u8(
        *(x, step.length, powers, inverse, sums, quotients.reshape((256, 8))),
        *(step.zero_point, step.lo, step.hi, out),
    )


@kernel
def _translate(step, number, codes, constants, buffer):
    """Return `codes` behind table `number`: in `buffer`, or as they are."""
    if (step.tables >> number) & 1 == 0:
        return codes
    found = buffer[: np.uintp(len(codes))]
    lookup_u8(codes, _part(constants, number * 256, 256), found)
    return found


@kernel
def choose(steps, i, x, y, out, scratch, constants):
    """Run an Extreme, a strip at a time."""
    step = steps[i]
    for first in range(0, len(out), STRIP):
        part = slice(np.uintp(first), np.uintp(min(first + STRIP, len(out))))
        a = _translate(step, 0, x[part], constants, scratch)
        b = _translate(step, 1, y[part], constants, scratch[STRIP:])
        if (step.tables >> 2) & 1 == 0:
            choose_u8(a, b, step.is_maximum != 0, out[part])
            continue
        chosen = scratch[2 * STRIP : 2 * STRIP + len(a)]
        choose_u8(a, b, step.is_maximum != 0, chosen)
        lookup_u8(chosen, _part(constants, 512, 256), out[part])


@kernel
def _integers(constants, place, rows, columns):
    """Return int64 [rows, columns] of the constants."""
    found = _part(constants, place, 8 * rows * columns).view(np.int64)
    return found.reshape((rows, columns))


@kernel
def normalize(steps, i, x, y, out, scratch, constants):
    """Run a Normalize."""
    step = steps[i]
    n, widths, place = step.length, step.widths, step.limbs
    gains = _part(constants, step.gains, 8 * n).view(np.float64)
    offsets = _part(constants, step.offsets, 8 * n).view(np.float64)
    squares = _integers(constants, place, n, widths[0])
    place += 8 * squares.size
    # The last row is the unit of the ties.
    biases = _integers(constants, place, n + 1, widths[1])
    place += 8 * biases.size
    spreads = _integers(constants, place, 2, widths[2])
    place += 8 * spreads.size
    normalize_u8(
        *(x, n, step.is_centered != 0, step.x_zero_point, step.low, gains, offsets),
        *(squares, biases, biases[n], spreads),
        *(_integers(constants, place, 1, widths[3])[0],),
        *(step.zero_point, step.lo, step.hi, out),
    )


INVOKE = (
    *(globals()[name] for name in kinds.OF_CODES),
    *interpret_floats.INVOKE,
    *interpret_recurrent.INVOKE,
    interpret_reductions.reduce_floats,
    *interpret_dynamic.INVOKE,
    interpret_windows.convolve_code_windows,
    *interpret_row_words.INVOKE,
    *(getattr(interpret_plain, name) for name in kinds.OF_PLAIN),
)
#: Functions that `INVOKE` calls and that call kernels, callees first.
HELPERS = (
    *(_operand, _multiply_rows, _translate),
    *interpret_floats.HELPERS,
    *interpret_dynamic.HELPERS,
    *interpret_row_words.HELPERS,
    *interpret_recurrent.HELPERS,
    *interpret_windows.HELPERS,
)


# Rebound functions have names of their own, or they would share the cache of another
# ISA's process (decision 0037).
@cache
def invokers(name):
    """Return `INVOKE` with the kernels of the ISA `name`, compiled on first use."""
    if name == kernel_set.HOST.name:
        return INVOKE
    own = dict(vars(kernel_set.compiled(name)))
    # INVOKE must find the rebound helpers.
    for function in HELPERS:
        own[function.__name__] = _rebind(function, name, own)
    return tuple(_rebind(function, name, own) for function in INVOKE)


def _rebind(function, name, own):
    """Return `function` with other values for the global names in `own`.

    The new function has a new name, because cached code of a process with that ISA
    calls other functions of this module than this process does.
    """
    plain = getattr(function, "py_func", function)
    names = plain.__globals__ | own
    other = FunctionType(plain.__code__, names, f"{plain.__name__}_on_{name}")
    other.__qualname__ = other.__name__
    return kernel(other)
