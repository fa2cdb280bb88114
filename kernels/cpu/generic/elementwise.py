"""Elementwise kernels over codes; `out` may alias an input only where stated."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import (
    HALF,
    SATURATED,
    add_pair_u8,
    next_mark,
    requantize_row,
)

# Lanes between two tests of the near-tie flag; a strip stays in the first cache.
STRIP = 1024
# A float64 product with the reciprocal errs by less than 1,024 * 3 * 2**-53 < 2**-40.
NEAR_TIE_F64 = 2.0**-40


@kernel
def lookup_u8(x, table, out):
    """Set out[i] = table[x[i]]; x, out uint8 1-D of one length, table uint8 [256]."""
    for i in range(np.uintp(len(out))):
        out[i] = table[np.uintp(x[i])]


@kernel
def lookup_channels_u8(x, channels, tables, out):
    """Set out[i, j] = tables[j, x[i, j]].

    Args:
        x, out: uint8 1-D [pixels, channels]; `out` is written.
        tables: uint8 1-D, 256 entries for each channel.
    """
    for first in range(0, len(out), channels):
        row, target = x[np.uintp(first) :], out[np.uintp(first) :]
        for j in range(np.uintp(channels)):
            target[j] = tables[np.uintp(j * np.uintp(256)) + np.uintp(row[j])]


@kernel
def slopes_u8(x, above, below, x_zero_point, zero_point, out):
    """Set out[i, j] = clamp(rhe((x[i, j] - x_zero_point) * m[j]) + zero_point).

    m[j] is above[j] for codes above x_zero_point, else below[j]; the product is a
    float32, and rhe rounds halves to even.

    Args:
        x, out: uint8 1-D, rows of len(above), the last one may end early; `out` is
            written.
        above, below: float32 [n], n > 0.
        x_zero_point, zero_point: int in 0 .. 255.
    """
    before, zero = np.int32(x_zero_point), np.int32(zero_point)
    low, high = np.float32(-zero_point), np.float32(255 - zero_point)
    for first in range(0, len(out), len(above)):
        row, target = x[np.uintp(first) :], out[np.uintp(first) :]
        for j in range(np.uintp(min(len(above), len(target)))):
            v = np.float32(np.int32(np.int32(row[j]) - before))
            # Both are loaded, because LLVM makes no vectors of a load in a branch.
            up, down = np.float32(v * above[j]), np.float32(v * below[j])
            v = up if v > np.float32(0) else down
            v = v if v > low else low
            v = v if v < high else high
            target[j] = np.uint8(np.int32(np.int32(np.rint(v)) + zero))


@kernel
def lookup_u16(x, table, out):
    """Set out[i] = table[x[i]]; 1-D; x uint16, `out` like the 65,536-entry table."""
    half = np.uintp(len(out) // 2)
    # Two codes at once take half as many loads.
    pairs = x[: 2 * half].view(np.uint32)
    for i in range(half):
        pair = pairs[i]
        out[2 * i] = table[np.uintp(pair & np.uint32(0xFFFF))]
        out[2 * i + np.uintp(1)] = table[np.uintp(pair >> np.uint32(16))]
    if len(out) % 2:
        out[-1] = table[np.uintp(x[-1])]


@kernel
def choose_u8(a, b, is_maximum, out):
    """Set out[i] = max(a[i], b[i]), or min(a[i], b[i]); uint8 1-D of one length."""
    n = np.uintp(len(out))
    # LLVM makes vectors of these, and not of `max`.
    if is_maximum:
        for i in range(n):
            out[i] = a[i] if a[i] > b[i] else b[i]
    else:
        for i in range(n):
            out[i] = a[i] if a[i] < b[i] else b[i]


@kernel
def add_u8u8u8(a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out):
    """Set out = clamp(rhe(((a - za)*Pa + (b - zb)*Pb) / Q) + zero_point, lo, hi).

    Args:
        a, b, out: uint8 1-D of one length.
        za, zb, zero_point, lo, hi: int in 0 .. 255.
        multipliers, limbs, guard: float32 [2], int64 [12] and a float32, from
            `rescale_pair`.

    Rounding: once, half to even (rhe), of the exact rational of both terms;
    commutative.
    """
    ma, mb = multipliers[0], multipliers[1]
    za, zb, zero = np.int32(za), np.int32(zb), np.int32(zero_point)
    low, high = np.int32(lo), np.int32(hi)
    edge = np.float32(guard)
    for first in range(0, len(out), STRIP):
        x = a[np.uintp(first) : np.uintp(min(first + STRIP, len(out)))]
        y = b[np.uintp(first) : np.uintp(min(first + STRIP, len(out)))]
        z = np.empty(STRIP, np.uint8)
        # One flag for the whole strip lets LLVM vectorize the loop; numba's | is int64.
        near = np.int32(0)
        for i in range(np.uintp(len(x))):
            p = np.float32(np.float32(np.int32(np.int32(x[i]) - za)) * ma)
            q = np.float32(np.float32(np.int32(np.int32(y[i]) - zb)) * mb)
            v = min(max(np.float32(p + q), -SATURATED), SATURATED)
            r = np.float32(np.rint(v))
            near = np.int32(near | np.int32(abs(abs(v - r) - HALF) < edge))
            z[i] = np.uint8(min(max(np.int32(np.int32(r) + zero), low), high))
        if near != 0:
            _settle_pairs(x, y, za, zb, ma, mb, limbs, edge, zero, low, high, z)
        target = out[np.uintp(first) :]
        for i in range(np.uintp(len(x))):
            target[i] = z[i]


@kernel
def _settle_pairs(x, y, za, zb, ma, mb, limbs, edge, zero, low, high, z):
    """Decide the lanes of a strip that are near a tie by integers."""
    marks = np.zeros((len(x) + 7) // 8 * 8, np.uint8)
    for i in range(np.uintp(len(x))):
        p = np.float32(np.float32(np.int32(np.int32(x[i]) - za)) * ma)
        q = np.float32(np.float32(np.int32(np.int32(y[i]) - zb)) * mb)
        v = min(max(np.float32(p + q), -SATURATED), SATURATED)
        marks[i] = np.uint8(abs(abs(v - np.float32(np.rint(v))) - HALF) < edge)
    i = next_mark(marks, 0)
    while i < len(marks):
        a = np.int32(np.int32(x[i]) - za)
        b = np.int32(np.int32(y[i]) - zb)
        z[i] = add_pair_u8(a, b, limbs, zero, low, high)
        i = next_mark(marks, i + 1)


@kernel
def mul_u8u8u8(
    a, b, p, c, broadcast, za, zb, multiplier, limbs, zero_point, lo, hi, out
):
    """Set out = clamp(rhe((a - za) * (b - zb) * P / Q) + zero_point, lo, hi).

    Args:
        a: uint8 1-D [p, c].
        b: uint8 1-D [c] if broadcast else [p, c].
        multiplier, limbs: float32 [1], int64 [1, 8], from `rescale`.
        out: uint8 1-D [p, c], written; may alias a.

    Rounding: half to even (rhe) of the exact rational. Overflow: saturates.
    """
    za, zb = np.int32(za), np.int32(zb)
    # A strip has whole pixels, so that short rows fill the vector units as well.
    line = max(STRIP // c, 1) * c if broadcast else STRIP
    acc = np.empty(line, np.int32)
    factor = np.zeros(line, np.int32)
    scale = np.empty(line, np.float32)
    nothing = np.zeros(line, np.int32)
    for i in range(np.uintp(line)):
        scale[i] = multiplier[0]
        if broadcast:
            factor[i] = np.int32(np.int32(b[i % np.uintp(c)]) - zb)
    total = p * c
    for first in range(0, total, line):
        last = np.uintp(min(first + line, total))
        x = a[np.uintp(first) : last]
        if not broadcast:
            y = b[np.uintp(first) : last]
            for i in range(np.uintp(len(x))):
                factor[i] = np.int32(np.int32(y[i]) - zb)
        for i in range(np.uintp(len(x))):
            acc[i] = np.int32(np.int32(np.int32(x[i]) - za) * factor[i])
        requantize_row(
            *(acc[: np.uintp(len(x))], nothing, scale, limbs, 1),
            *(zero_point, lo, hi, out[np.uintp(first) : last]),
        )


@kernel
def _quantize_strip(x, scale, inverse, zero_point, lo, hi, out):
    """Quantize up to STRIP values, by division only if the reciprocal might differ.

    Returns: whether there is a NaN.
    """
    zero, low, high = np.int32(zero_point), np.int32(lo), np.int32(hi)
    near, nan = np.int32(0), np.int32(0)
    for i in range(np.uintp(len(x))):
        v = np.float64(x[i]) * inverse
        nan |= np.int32(v != v)
        # Beyond 1,024 every code saturates, whatever the zero point.
        v = min(max(v if v == v else 0.0, -1024.0), 1024.0)
        r = np.rint(v)
        near |= np.int32(abs(abs(v - r) - 0.5) < NEAR_TIE_F64)
        out[i] = np.uint8(min(max(np.int32(np.int32(r) + zero), low), high))
    if near != 0:
        for i in range(np.uintp(len(x))):
            v = np.float64(x[i]) / scale
            v = min(max(v if v == v else 0.0, -1024.0), 1024.0)
            r = np.int32(np.rint(v))
            out[i] = np.uint8(min(max(np.int32(r + zero), low), high))
    return nan != 0


@kernel
def quantize_f32u8(x, scale, zero_point, lo, hi, out):
    """Set out = clamp(rhe(x / scale) + zero_point, lo, hi); NaN gives zero_point.

    Args:
        x: float32 1-D. scale: float, a float32 value. out: uint8 1-D, written.

    Returns: whether there is a NaN.

    Rounding: half to even (rhe), exact, since a float64 quotient of two float32 below
    1,024 cannot round onto or across a half. Overflow: saturates.
    """
    inverse = 1.0 / np.float64(scale)
    has_nan = False
    for first in range(0, len(out), STRIP):
        last = np.uintp(min(first + STRIP, len(out)))
        part = x[np.uintp(first) : last]
        target = out[np.uintp(first) : last]
        has_nan |= _quantize_strip(part, scale, inverse, zero_point, lo, hi, target)
    return has_nan


@kernel
def quantize_nchw_f32u8(x, c, pixels, cp, scale, zero_point, lo, hi, out):
    """Set out[p, j] = quantized x[j, p] for j < c, zero_point for c <= j < cp.

    Args: x: float32 1-D [c, pixels]; out: uint8 1-D [pixels, cp]; the others as in
        `quantize_f32u8`.
    """
    inverse = 1.0 / np.float64(scale)
    # Planes are quantized strip by strip, so that interleaving reads the first cache.
    planes = np.empty(cp * STRIP, np.uint8)
    planes[:] = np.uint8(zero_point)
    for first in range(0, pixels, STRIP):
        count = np.uintp(min(STRIP, pixels - first))
        for j in range(c):
            part = x[np.uintp(j * pixels + first) :][:count]
            target = planes[np.uintp(j * STRIP) :][:count]
            _quantize_strip(part, scale, inverse, zero_point, lo, hi, target)
        interleave(planes, cp, count, out[np.uintp(first * cp) :])


@kernel
def interleave(planes, cp, count, out):
    """Set out[i, j] = planes[j, i] for i < count; planes uint8, STRIP bytes apart."""
    # Four planes, the usual case, are one 32-bit store per pixel.
    if cp == 4:
        p0, p1 = planes[:count], planes[STRIP:][:count]
        p2, p3 = planes[2 * STRIP :][:count], planes[3 * STRIP :][:count]
        pixels = out[: count * np.uintp(4)].view(np.uint32)
        for i in range(count):
            low = np.uint32(np.uint32(p0[i]) | np.uint32(p1[i]) << np.uint32(8))
            high = np.uint32(np.uint32(p2[i]) | np.uint32(p3[i]) << np.uint32(8))
            pixels[i] = np.uint32(low | np.uint32(high << np.uint32(16)))
        return
    for j in range(np.uintp(cp)):
        plane = planes[j * np.uintp(STRIP) :]
        for i in range(count):
            out[i * np.uintp(cp) + j] = plane[i]


@kernel
def dequantize_u8f32(codes, scale, zero_point, out):
    """Set out = (codes - zero_point) * scale, rounded once to float32.

    Args: codes: uint8 1-D; out: float32 1-D of the same length, written.
    """
    zero = np.int32(zero_point)
    step = np.float32(scale)
    for i in range(np.uintp(len(out))):
        out[i] = np.float32(np.float32(np.int32(np.int32(codes[i]) - zero)) * step)
