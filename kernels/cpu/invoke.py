"""Carry out one row of a Program: slice the buffers, call the kernel.

Every function takes (row, x, y, out, scratch, constants): an int64 row and uint8 1-D
buffers. `x` and `y` are the inputs (the same one twice if there is one), `constants`
holds the step's arrays at the offsets of the row. No addresses: under
NUMBA_DISABLE_JIT=1 a wrong offset is an IndexError, never a stray write.
"""

from enum import IntEnum
from functools import cache
from types import FunctionType

import numpy as np

from mdtensor.kernels.cpu import runway
from mdtensor.kernels.cpu.copies import concat_u8, move_u8, take_u8
from mdtensor.kernels.cpu.jit import kernel

add_u8u8u8 = runway.HOST.add_u8u8u8
avg_pool_u8 = runway.HOST.avg_pool_u8
depthwise_u8s8s32 = runway.HOST.depthwise_u8s8s32
depthwise_u8s8u8 = runway.HOST.depthwise_u8s8u8
dequantize_u8f32 = runway.HOST.dequantize_u8f32
gemm_u8s8s32 = runway.HOST.gemm_u8s8s32
gemm_u8s8u8 = runway.HOST.gemm_u8s8u8
im2col_pitch = runway.HOST.im2col_pitch
im2col_u8 = runway.HOST.im2col_u8
lookup_u8 = runway.HOST.lookup_u8
max_pool_u8 = runway.HOST.max_pool_u8
mean_u8u8 = runway.HOST.mean_u8u8
mul_u8u8u8 = runway.HOST.mul_u8u8u8
quantize_f32u8 = runway.HOST.quantize_f32u8
quantize_nchw_f32u8 = runway.HOST.quantize_nchw_f32u8

ALIGN = 64
SLACK = 64  # readable bytes behind every input
ROW_LENGTH = 48


class Column(IntEnum):
    """Columns of a row before the parameters of its kind."""

    KIND = 0
    X = 1
    X_BYTES = 2
    Y = 3
    Y_BYTES = 4
    OUT = 5
    OUT_BYTES = 6
    SCRATCH = 7
    SCRATCH_BYTES = 8
    CONSTANTS = 9
    CONSTANTS_BYTES = 10


PARAMETERS = 11
# kinds are plain ints: compiled code holds them as constants
CONV, DEPTHWISE, LOOKUP, ADD, MUL, MEAN, MAX_POOL, AVG_POOL = range(8)
QUANTIZE, QUANTIZE_NCHW, DEQUANTIZE = range(8, 11)
MOVE, TAKE, CONCAT = range(11, 14)


@kernel
def _part(constants, offset, size):
    return constants[np.uintp(offset) : np.uintp(offset + size)]


@kernel
def _exceptions(constants, offset, group, padded):
    """Those of a group; none where the offset is 0, at which weights are."""
    size = 4 * padded if offset else 0
    return _part(constants, offset + group * size, size).view(np.int32)


@kernel
def _operand(p, geometry, group, image, first, rows, x, scratch):
    """The activations of a product: x itself, or its im2col in scratch.

    In place, `first` and `rows` count pixels; x without slack is copied at its end.
    """
    c, channels = geometry[2], geometry[2] // p[2]
    if p[1] == 0:
        start = np.uintp(first * c)
        if len(x) >= (first + rows) * c + SLACK:
            return x[start + np.uintp(group * channels) :]
        for i in range(np.uintp(rows * c)):
            scratch[i] = x[start + i]
        return scratch[np.uintp(group * channels) :]
    strip = geometry.copy()
    strip[7] -= first * geometry[5]
    strip[11] = rows
    source = x[np.uintp(image * geometry[0] * geometry[1] * c) :]
    pitch = im2col_pitch(geometry[3] * geometry[4] * channels)
    im2col_u8(source, strip, group * channels, channels, p[3], pitch, scratch)
    return scratch


@kernel
def convolve(row, x, y, out, scratch, constants):
    """Convolution as a matrix product; parameters as in `products.Conv2d.plan`.

    strip = 0: the pixels of x are the rows; without slack behind x its last rows go
    through scratch. Else im2col of `strip` output lines at a time.
    """
    p = row[PARAMETERS:]
    geometry = p[4:17]
    q = p[17:]
    strip, groups, n, padded, exact = p[1], p[2], q[0], q[1], q[2] != 0
    k = geometry[3] * geometry[4] * (geometry[2] // groups)
    ldc = q[12]
    if strip == 0:
        batch, lines, length, lda = (
            1,
            p[0] * geometry[11] * geometry[12],
            1,
            geometry[2],
        )
        tail = SLACK // lda + 1
        has_slack = len(x) >= lines * lda + SLACK
        step = lines if has_slack else max(lines - tail, min(lines, tail))
    else:
        batch, lines, length, lda = p[0], geometry[11], geometry[12], im2col_pitch(k)
        step = strip
    for part in range(groups * batch):
        g, image = part // batch, part % batch
        packed = _part(constants, q[3] + g * q[4], q[4]).view(np.int8)
        bias = _part(constants, q[5] + g * padded * 4, padded * 4).view(np.int32)
        for first in range(0, lines, step):
            rows = min(step, lines - first)
            a = _operand(p, geometry, g, image, first, rows, x, scratch)
            m = rows * length
            at = (image * lines + first) * length * ldc + g * n
            if exact:
                z = out.view(np.int32)[np.uintp(at) :]
                gemm_u8s8s32(a, lda, m, k, packed, n, bias, z, ldc)
                continue
            scale = _part(constants, q[6] + g * padded * 4, padded * 4)
            limbs = _part(constants, q[7] + g * padded * 64, padded * 64)
            gemm_u8s8u8(
                *(a, lda, m, k, packed, n, bias, scale.view(np.float32)),
                *(limbs.view(np.int64).reshape((padded, 8)),),
                *(_exceptions(constants, q[8], g, padded), q[9], q[10], q[11]),
                *(out[np.uintp(at) :], ldc),
            )


@kernel
def convolve_depthwise(row, x, y, out, scratch, constants):
    """Depthwise convolution; parameters as in `products.Conv2d.plan`."""
    p = row[PARAMETERS:]
    images, x_zero_point = p[0], p[3]
    geometry = p[4:17]
    q = p[17:]
    c, padded = geometry[2], q[1]
    size = geometry[0] * geometry[1] * c
    outputs = geometry[11] * geometry[12] * c
    packed = _part(constants, q[3], q[4]).view(np.int8)
    bias = _part(constants, q[5], padded * 4).view(np.int32)
    for image in range(images):
        source = x[np.uintp(image * size) :]
        if q[2] != 0:
            wide = out.view(np.int32)[np.uintp(image * outputs) :]
            depthwise_u8s8s32(source, geometry, c, packed, bias, x_zero_point, wide)
            continue
        scale = _part(constants, q[6], padded * 4).view(np.float32)
        limbs = _part(constants, q[7], padded * 64).view(np.int64)
        depthwise_u8s8u8(
            *(source, geometry, c, packed, bias, scale, limbs.reshape((padded, 8))),
            *(
                _exceptions(constants, q[8], 0, padded),
                x_zero_point,
                q[9],
                q[10],
                q[11],
            ),
            *(out[np.uintp(image * outputs) :],),
        )


@kernel
def look_up(row, x, y, out, scratch, constants):
    lookup_u8(x, constants[:256], out)


@kernel
def add(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    multipliers = _part(constants, p[5], 8).view(np.float32)
    limbs = _part(constants, p[6], 96).view(np.int64)
    guard = _part(constants, p[7], 4).view(np.float32)
    add_u8u8u8(*(x, y, p[0], p[1], multipliers, limbs, guard[0], p[2], p[3], p[4], out))


@kernel
def multiply(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    images, pixels, c, broadcast = p[0], p[1], p[2], p[3] != 0
    multiplier = _part(constants, p[9], 4).view(np.float32)
    limbs = _part(constants, p[10], 64).view(np.int64).reshape((1, 8))
    size = pixels * c
    for image in range(images):
        a = x[np.uintp(image * size) : np.uintp((image + 1) * size)]
        b = y[np.uintp(image * (c if broadcast else size)) :]
        z = out[np.uintp(image * size) : np.uintp((image + 1) * size)]
        mul_u8u8u8(
            *(a, b, pixels, c, broadcast, p[4], p[5], multiplier, limbs),
            *(p[6], p[7], p[8], z),
        )


@kernel
def mean(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    images, pixels, c = p[0], p[1], p[2]
    multiplier = _part(constants, p[7], 4).view(np.float32)
    limbs = _part(constants, p[8], 64).view(np.int64).reshape((1, 8))
    for image in range(images):
        a = x[np.uintp(image * pixels * c) :]
        z = out[np.uintp(image * c) : np.uintp((image + 1) * c)]
        mean_u8u8(a, pixels, c, p[3], multiplier, limbs, p[4], p[5], p[6], z)


@kernel
def max_pool(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    geometry = p[1:14]
    size = geometry[0] * geometry[1] * geometry[2]
    outputs = geometry[11] * geometry[12] * geometry[2]
    for image in range(p[0]):
        a = x[np.uintp(image * size) :]
        z = out[np.uintp(image * outputs) : np.uintp((image + 1) * outputs)]
        max_pool_u8(a, geometry, z)


@kernel
def avg_pool(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    geometry = p[1:14]
    q = p[14:]
    size = geometry[0] * geometry[1] * geometry[2]
    outputs = geometry[11] * geometry[12] * geometry[2]
    counts = geometry[3] * geometry[4]
    multiplier = _part(constants, q[5], counts * 4).view(np.float32)
    limbs = _part(constants, q[6], counts * 64).view(np.int64).reshape((counts, 8))
    for image in range(p[0]):
        a = x[np.uintp(image * size) :]
        z = out[np.uintp(image * outputs) : np.uintp((image + 1) * outputs)]
        avg_pool_u8(
            *(a, geometry, q[0] != 0, q[1], multiplier, limbs, q[2], q[3], q[4], z)
        )


@kernel
def quantize(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    scale = constants[:8].view(np.float64)[0]
    size = np.uintp(p[0] * 4)
    quantize_f32u8(x[:size].view(np.float32), scale, p[1], p[2], p[3], out)


@kernel
def quantize_nchw(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    images, c, pixels, cp = p[0], p[4], p[5], p[6]
    scale = constants[:8].view(np.float64)[0]
    values = x[: np.uintp(images * c * pixels * 4)].view(np.float32)
    for image in range(images):
        a = values[np.uintp(image * c * pixels) :]
        z = out[np.uintp(image * cp * pixels) :]
        quantize_nchw_f32u8(a, c, pixels, cp, scale, p[1], p[2], p[3], z)


@kernel
def dequantize(row, x, y, out, scratch, constants):
    scale = constants[:8].view(np.float64)[0]
    dequantize_u8f32(x, scale, row[PARAMETERS], out.view(np.float32))


@kernel
def move(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    move_u8(x, p[0], p[1:6], p[6:11], p[11], out)


@kernel
def take(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    places = constants[: np.uintp(p[3] * 16)].view(np.int64).reshape((p[3], 2))
    take_u8(x, places, p[0], p[1], p[2], out)


@kernel
def concat(row, x, y, out, scratch, constants):
    p = row[PARAMETERS:]
    concat_u8(x, y, p[0], p[1], p[2], out)


INVOKE = (
    *(convolve, convolve_depthwise, look_up, add, multiply, mean, max_pool),
    *(avg_pool, quantize, quantize_nchw, dequantize, move, take, concat),
)


# Rebound functions have names of their own, or they would share the cache of another
# ISA's process (decision 0037).
@cache
def invokers(name):
    """`INVOKE` with the kernels of the runway `name`, compiled as they are called."""
    if name == runway.HOST.name:
        return INVOKE
    names = globals() | vars(runway.kernels(name))
    names[_operand.__name__] = _bound(_operand, name, names)
    return tuple(_bound(function, name, names) for function in INVOKE)


def _bound(function, name, names):
    """`function` with other values of the global names that it reads.

    Its own name is another than in a process of that runway, whose code in the cache
    calls functions of this module, which are not those of this process.
    """
    plain = getattr(function, "py_func", function)
    bound = FunctionType(plain.__code__, names, f"{plain.__name__}_on_{name}")
    bound.__qualname__ = bound.__name__
    return kernel(bound)
