"""gemmlowp's fixed point: a multiplier of 31 bits and a shift.

    M = q · 2**(shift - 31), 2**30 <= q < 2**31

Source: gemmlowp, `fixedpoint/fixedpoint.h`; LiteRT, `kernels/internal/common.cc`.
"""

import numpy as np

from mdtensor.kernels.presets.grid import half_away


def quantize_multiplier(real):
    """(q, shift) of float64 multipliers; int64 arrays."""
    mantissa, shift = np.frexp(np.asarray(real, np.float64))
    q = half_away(mantissa * 2.0**31).astype(np.int64)
    shift = shift.astype(np.int64)
    is_one = q == 2**31
    q, shift = np.where(is_one, 2**30, q), shift + is_one
    return np.where(shift < -31, 0, q), np.where(shift < -31, 0, shift)


# Ties go up here as in gemmlowp's source, not away from zero as its description says
# (decision 0019).
def high_mul(a, q, bits=31):
    """a · q / 2**bits, ties up, saturated: SaturatingRoundingDoublingHighMul."""
    return np.minimum((a * q + (1 << (bits - 1))) >> bits, 2**bits - 1)


def shift_away(x, exponent):
    """x / 2**exponent, ties away from zero: RoundingDivideByPOT."""
    mask = (np.int64(1) << exponent) - 1
    remainder, threshold = x & mask, (mask >> 1) + (x < 0)
    return (x >> exponent) + (remainder > threshold)


def shift_up(x, exponent):
    """x / 2**exponent, ties towards infinity."""
    half = np.where(exponent > 0, np.int64(1) << np.maximum(exponent - 1, 0), 0)
    return (x + half) >> exponent


def wrap_int32(x):
    """The low 32 bits as a signed number."""
    return ((x + 2**31) & (2**32 - 1)) - 2**31


def multiply(x, real, shift_right=shift_away):
    """x · real, rounded twice: MultiplyByQuantizedMultiplier.

    Args:
        x: int64 that fits 32 bits.
        real: float64 multiplier, one or many.
        shift_right: how the second rounding decides ties.
    """
    return multiply_by(x, *quantize_multiplier(real), shift_right)


def multiply_by(x, q, shift, shift_right=shift_away):
    """As `multiply`, by q · 2**(shift - 31)."""
    shifted = wrap_int32(x << np.maximum(shift, 0))
    return shift_right(high_mul(shifted, q), np.maximum(-shift, 0))
