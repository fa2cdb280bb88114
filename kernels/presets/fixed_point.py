"""gemmlowp's fixed-point arithmetic: a 31-bit multiplier and a shift.

    M = q · 2**(shift - 31), 2**30 <= q < 2**31

Source: gemmlowp, `fixedpoint/fixedpoint.h`; LiteRT, `kernels/internal/common.cc`.
"""

import numpy as np

from mdtensor.kernels.presets import half_away


def quantize_multiplier(real):
    """Return (q, shift) of float64 multipliers, as int64 arrays."""
    mantissa, shift = np.frexp(np.asarray(real, np.float64))
    q = half_away(mantissa * 2.0**31).astype(np.int64)
    shift = shift.astype(np.int64)
    # A mantissa just below 1 rounds up to 2**31, which does not fit; halve it and shift
    # once more.
    is_one = q == 2**31
    q, shift = np.where(is_one, 2**30, q), shift + is_one
    return np.where(shift < -31, 0, q), np.where(shift < -31, 0, shift)


# Ties go up as in gemmlowp's source, and not away from zero as in its description
# (decision 0019).
def high_mul(a, q, bits=31):
    """Compute a · q / 2**bits, ties up: SaturatingRoundingDoublingHighMul.

    The one result that would overflow, of two factors -2**bits, saturates.
    """
    return np.minimum((a * q + (1 << (bits - 1))) >> bits, 2**bits - 1)


def shift_away(x, exponent):
    """Compute x / 2**exponent, ties away from zero: RoundingDivideByPOT."""
    mask = (np.int64(1) << exponent) - 1
    remainder, threshold = x & mask, (mask >> 1) + (x < 0)
    return (x >> exponent) + (remainder > threshold)


def shift_up(x, exponent):
    """Compute x / 2**exponent, ties toward infinity."""
    half = np.where(exponent > 0, np.int64(1) << np.maximum(exponent - 1, 0), 0)
    return (x + half) >> exponent


def wrap_int32(x):
    """Return the low 32 bits as a signed number."""
    return ((x + 2**31) & (2**32 - 1)) - 2**31


def multiply(x, real, shift_right=shift_away):
    """Compute x · real, rounded twice: MultiplyByQuantizedMultiplier.

    Args:
        x: int64 that fits 32 bits.
        real: float64 multiplier, one or many.
        shift_right: the function of the second rounding; it decides ties.
    """
    return multiply_by(x, *quantize_multiplier(real), shift_right)


def multiply_by(x, q, shift, shift_right=shift_away):
    """Compute `multiply` with the multiplier q · 2**(shift - 31)."""
    # LiteRT shifts an int32, so the bits beyond 32 are lost there too.
    shifted = wrap_int32(x << np.maximum(shift, 0))
    return shift_right(high_mul(shifted, q), np.maximum(-shift, 0))
