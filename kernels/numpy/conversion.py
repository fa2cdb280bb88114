"""Conversion of host arrays from one element type to another.

A float becomes an integer by truncation toward zero; a number becomes a float by
rounding once, half to even; True becomes 1, and every number but 0 becomes True.
`outside` and `inexact` find the values that do not fit. `saturating` and `wrapping`
convert these in two ways, and agree with `nearest` on all others. A complex number is
converted part by part; only `nearest` converts it to a bool.

4-bit codes, two in each byte, are packed along the last axis, the low nibble first:

    byte[..., i] = code[..., 2i] + 16 · code[..., 2i + 1]     codes modulo 16

    pack_int4     int8 or uint8 [..., n] to uint8 [..., ceil(n / 2)]; any strides
    unpack_int4   uint8 [..., ceil(n / 2)] to int8 or uint8 [..., n]
    choose_int4   one code of each byte

After an odd number of codes the high nibble is 0. An array without axes takes one byte.
All write new memory. Source: ONNX, "int4" in docs/docsgen/source/technical.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from math import frexp, ldexp
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quiet, quietly
from mdtensor.kernels.numpy.float16 import FLOAT32, cast, is_floating, is_narrow

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Cast = Callable[[Array, DType], Array]

#: Bits of the fraction of a float32.
FLOAT32_BITS = 23


def by_parts(test: Cast) -> Cast:
    """Apply `test` to both parts if the types are complex, and combine by "or"."""

    @wraps(test)
    def test_parts(x: Array, dtype: DType) -> Array:
        if dtype.kind != "c":
            return test(x, dtype)
        part = _part(dtype)
        if x.dtype.kind != "c":
            return test(x, part)
        return np.asarray(test(x.real, part) | test(x.imag, part))

    return test_parts


def as_pairs(x: Array) -> Array:
    """Return a view [..., 2] of the real and imaginary parts of complex numbers."""
    part = x.real
    steps = (*part.strides, part.itemsize)
    return np.lib.stride_tricks.as_strided(part, (*x.shape, 2), steps)


def of_pairs(x: Array) -> Array:
    """Return a view of real and imaginary parts [..., 2] as complex numbers.

    It is a copy unless both parts are adjacent.
    """
    pair = np.result_type(x.dtype, np.complex64)
    adjacent = x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)
    return adjacent.view(pair)[..., 0]


@quiet
@by_parts
def outside(x: Array, dtype: DType) -> Array:
    """Return where x, rounded, is not in `dtype`: overflow, or NaN for an integer.

    Return a single False if that can happen nowhere.
    """
    if dtype.kind == "b" or _is_within(x.dtype, dtype) or _cuts_inside(x, dtype):
        return np.zeros((), bool)
    below, above = _beyond(x, dtype)
    return np.asarray(below | above if is_floating(dtype) else below | above | (x != x))


@quiet
@by_parts
def inexact(x: Array, dtype: DType) -> Array:
    """Return where `dtype` does not hold x exactly; NaN counts as exact among floats.

    Return a single False if `dtype` holds every value of the type of x.
    """
    # The types alone often decide, without a pass over the elements.
    if is_exact(x.dtype, dtype):
        return np.zeros((), bool)
    if dtype.kind == "b":
        return np.asarray((x != 0) & (x != 1))
    if not is_floating(dtype):
        fraction = x != np.trunc(x) if is_floating(x.dtype) else False
        return np.asarray(outside(x, dtype) | fraction)
    y = nearest(x, dtype)
    if is_floating(x.dtype):
        x, y = x.astype(np.float64), y.astype(np.float64)
        return np.asarray((x != y) & ~np.isnan(x))
    return np.asarray(outside(y, x.dtype) | (saturating(y, x.dtype) != x))


@quiet
def nearest(x: Array, dtype: DType) -> Array:
    """Convert x to `dtype`; undefined where it is outside an integer type.

    Every value is rounded once; a value too large for a float becomes an infinity.
    """
    if dtype.kind == "b":
        return np.asarray(x != 0)
    is_wide = x.dtype.kind in "iu" or x.dtype == np.float64
    return cast(_avoid_ties(x, dtype) if _is_foreign(dtype) and is_wide else x, dtype)


@quiet
def whole(x: Array) -> Array:
    """Return floats rounded to the nearest integers, halves to even; integers as is."""
    return np.asarray(np.rint(x)) if is_floating(x.dtype) else x


def element(value: Any, dtype: DType) -> Array:
    """Convert a Python number that `dtype` holds to a 0-d array; rounded once."""
    if _is_foreign(dtype):  # ml_dtypes rejects integers from 2**63 on
        return nearest(np.asarray(value, np.float64), dtype)
    return np.asarray(quietly(np.asarray, value, dtype))


def _is_foreign(dtype: DType) -> bool:
    """Return whether a type is a narrow float of ml_dtypes, whose casts round twice."""
    return dtype.isbuiltin == 2 and is_narrow(dtype)


def _avoid_ties(x: Array, dtype: DType) -> Array:
    """Convert x to float32 values that round to `dtype` as x itself does.

    ml_dtypes rounds to float32 first. That goes wrong only where this first rounding
    arrives halfway between two values of `dtype`: all bits after the first bit that
    `dtype` lacks are 0. In this case the side on which x lies decides.
    """
    y = x.astype(FLOAT32)
    behind = (1 << (FLOAT32_BITS - _nmant(dtype) - 1)) - 1
    ties = (y.view(np.uint32) & behind) == 0
    if np.any(ties):
        half, exact = y[ties], x[ties]
        was = half.astype(x.dtype)
        side = np.where(exact > was, np.inf, np.where(exact < was, -np.inf, half))
        y[ties] = np.nextafter(half, side.astype(np.float32))
    return y


@quiet
def saturating(x: Array, dtype: DType) -> Array:
    """Convert x to `dtype`; outside becomes the nearest bound, NaN an integer 0.

    An infinity stays an infinity in a float that has one.
    """
    if dtype.kind == "c" and not _is_within(x.dtype, dtype):
        return _saturate_parts(x, dtype)
    if dtype.kind in "bc" or _is_within(x.dtype, dtype):
        return nearest(x, dtype)
    if x.dtype in _WIDE and dtype.kind in "iu" and dtype.itemsize <= 2:
        return _clipped(x, dtype)
    below, above = _beyond(x, dtype)
    inside = x if is_floating(dtype) else np.where(below | above | (x != x), 0, x)
    y = nearest(inside, dtype)
    y[below], y[above] = bounds(dtype)
    return y


#: Floats of NumPy that hold every integer of 16 bits.
_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def _clipped(x: Array, dtype: DType) -> Array:
    """Convert floats to short integers: outside becomes the nearest bound, NaN 0."""
    low, high = (x.dtype.type(end) for end in bounds(dtype))
    # Of one element, NumPy returns a scalar.
    inside = np.asarray(np.clip(x, low, high))
    is_nan = np.isnan(inside)
    if is_nan.any():
        inside = np.asarray(np.where(is_nan, x.dtype.type(0), inside))
    return inside.astype(dtype)


def _saturate_parts(x: Array, dtype: DType) -> Array:
    """Convert to complex numbers whose parts saturate."""
    y = np.zeros(x.shape, dtype)
    y.real = saturating(x.real, _part(dtype))
    if x.dtype.kind == "c":
        y.imag = saturating(x.imag, _part(dtype))
    return y


@quiet
def wrapping(x: Array, dtype: DType) -> Array:
    """Convert x to `dtype`; integers modulo the number of values of `dtype`.

    NaN and infinities become 0 as integers; a value too large for a float becomes an
    infinity.
    """
    to_integer = dtype.kind in "iu" and is_floating(x.dtype)
    if not to_integer:
        return nearest(x, dtype)
    y = x.astype(FLOAT32) if is_narrow(x.dtype) else x
    # A wider integer holds most numbers, and wraps as it is narrowed.
    for wide in (dtype, np.dtype(np.int32), np.dtype(np.int64)):
        if _cuts_inside(y, wide):
            return y.astype(wide).astype(dtype, copy=False)
    return _modulo(y).astype(dtype)


def _modulo(x: Array) -> Array:
    """Return uint64 congruent to x truncated toward zero."""
    # fmod of floats is exact, so the rest fits uint64 without rounding.
    finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
    rest = np.fmod(np.trunc(finite), 2.0**64)
    size = np.abs(rest).astype(np.uint64)
    return np.where(rest < 0, np.uint64(0) - size, size)


def _beyond(x: Array, dtype: DType) -> tuple[Any, Any]:
    """Return where x, truncated or rounded, is below and above the range of `dtype`."""
    if is_narrow(x.dtype):
        x = x.astype(FLOAT32)
    if is_floating(dtype):
        return _overflow(x, dtype)
    least, most = bounds(dtype)
    if not is_floating(x.dtype):
        return x < least, x > most
    whole = np.trunc(x)  # the bounds are powers of two, exact in every float
    return whole < x.dtype.type(least), whole >= x.dtype.type(most + 1)


def _overflow(x: Array, dtype: DType) -> tuple[Any, Any]:
    """Return (below, above): where x rounds beyond the finite numbers of `dtype`.

    An infinity counts only if `dtype` does not have infinities.
    """
    limit, is_beyond = _limit(dtype)
    below, above = (x <= -limit, x >= limit) if is_beyond else (x < -limit, x > limit)
    if not _holds_infinity(dtype):
        return below, above
    return below & (x != -np.inf), above & (x != np.inf)


@cache
def _limit(dtype: DType) -> tuple[float, bool]:
    """Return (limit, overflows) of a floating type.

    The limit is halfway between the largest finite number and the number that would
    follow it; numbers above the limit overflow. The limit itself is a tie, which rounds
    to even: it overflows if the largest number has an odd significand. The largest
    number of float8_e4m3fn is 14 · 2⁵ (15 · 2⁵ is NaN), which is even, so its limit
    does not overflow.
    """
    most: float = bounds(dtype)[1]
    step = ldexp(1.0, frexp(most)[1] - 1 - _nmant(dtype))
    return most + step / 2, most / step % 2 == 1


@quiet
def fits(x: Array, dtype: DType) -> bool:
    """Return whether x, truncated, surely is in an integer type: by its extremes."""
    if not x.size or x.dtype.kind not in "iu" or dtype.kind not in "iu":
        return _cuts_inside(x, dtype)
    least, most = bounds(dtype)
    is_above: bool = least <= int(np.minimum.reduce(x, None))
    return is_above and int(np.maximum.reduce(x, None)) <= most


def _cuts_inside(x: Array, dtype: DType) -> bool:
    """Return whether x are floats that truncate into the range of an integer type."""
    if not x.size or x.dtype.kind != "f" or dtype.kind not in "iu":
        return False
    if is_narrow(x.dtype):
        x = x.astype(FLOAT32)
    # A minimum and a maximum need no temporary arrays, unlike `_beyond`.
    least, most = bounds(dtype)  # Python compares integers with floats exactly
    is_above: bool = least - 1 < float(np.minimum.reduce(x, None))
    return is_above and float(np.maximum.reduce(x, None)) < most + 1


@cache
def _holds_infinity(dtype: DType) -> bool:
    """Return whether the floating type has infinities; float8_e4m3fn does not."""
    return bool(np.isinf(quietly(np.asarray, np.inf, dtype)))


@cache
def _is_within(source: DType, target: DType) -> bool:
    """Return whether every value of `source` is in the range of `target`."""
    if is_floating(source) and not is_floating(target) and target.kind != "c":
        return False
    least, most = bounds(source)
    low, high = bounds(target)
    return low <= least and most <= high


@cache
def is_exact(source: DType, target: DType) -> bool:
    """Return whether `target` holds all values of `source` exactly."""
    if target.kind == "c":
        part = _part(source) if source.kind == "c" else source
        return is_exact(part, _part(target))
    if is_floating(source):
        return is_floating(target) and _is_finer(target, source)
    if is_floating(target) and source.kind != "c":
        least, most = bounds(source)
        largest = min(2 ** (_nmant(target) + 1), bounds(target)[1])
        return max(-least, most) <= largest
    return source.kind != "c" and _is_within(source, target)


def _is_finer(target: DType, source: DType) -> bool:
    """Return whether a float has at least the digits and the range of another."""
    fine, coarse = ml_dtypes.finfo(target), ml_dtypes.finfo(source)
    is_low = float(fine.smallest_subnormal) <= float(coarse.smallest_subnormal)
    is_high = float(fine.max) >= float(coarse.max)
    is_whole = _holds_infinity(target) or not _holds_infinity(source)
    return is_low and is_high and is_whole and fine.nmant >= coarse.nmant


@cache
def _nmant(dtype: DType) -> int:
    """Return the number of fraction bits of a floating type."""
    return int(ml_dtypes.finfo(dtype).nmant)


@cache
def bounds(dtype: DType) -> tuple[Any, Any]:
    """Return the least and the largest finite number of `dtype`.

    For a complex type, return them for its real and imaginary parts.
    """
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    found = ml_dtypes.finfo(dtype)
    return float(found.min), float(found.max)


def _part(dtype: DType) -> DType:
    """Return the floating type of the parts of a complex type."""
    return np.dtype(f"f{dtype.itemsize // 2}")


def promote(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert x to `dtype`, rounded once, integers wrapped; x itself if unchanged."""
    return x if x.dtype == dtype else nearest(x, dtype)


_BYTES = np.arange(256, dtype=np.uint8)
#: Both codes of each byte.
UNSIGNED_NIBBLES = np.stack([_BYTES & 15, _BYTES >> 4], axis=1)
SIGNED_NIBBLES = ((UNSIGNED_NIBBLES ^ 8) - np.uint8(8)).view(np.int8)


def pack_int4(codes: Array) -> Array:
    """Pack the lower 4 bits of each code into bytes."""
    nibbles = np.asarray(codes.astype(np.uint8) & 15)
    if not codes.ndim:
        return nibbles
    low, high = nibbles[..., ::2], nibbles[..., 1::2]
    packed = np.array(low)
    packed[..., : high.shape[-1]] |= high << 4
    return packed


def unpack_int4(packed: Array, shape: tuple[int, ...], signed: bool) -> Array:
    """Unpack codes of `shape`; int8 if `signed`, else uint8."""
    # One look-up gives both codes of a byte, the sign included. NumPy has at most 64
    # axes, so the pairs cannot always have one more than the bytes.
    table = SIGNED_NIBBLES if signed else UNSIGNED_NIBBLES
    # Both codes as one number, since NumPy copies pairs in a loop.
    both = np.ascontiguousarray(table).view(np.uint16)[:, 0]
    pairs = both.take(packed.reshape(-1)).view(table.dtype)
    if not shape:
        return np.asarray(pairs[0])
    rows = pairs.reshape(*packed.shape[:-1], 2 * packed.shape[-1])
    return np.ascontiguousarray(rows[..., : shape[-1]])


def choose_int4(packed: Array, high: Array, signed: bool) -> Array:
    """Unpack one code of each byte: the second where `high` is 1, else the first."""
    codes = np.where(high, packed >> 4, packed & 15)
    return (SIGNED_NIBBLES if signed else UNSIGNED_NIBBLES)[:, 0][codes]
