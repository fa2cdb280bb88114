"""The oracle of layer norm and RMS norm of codes, in exact rationals."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference import round_half_even

#: Digits of a root; a number nearer to a tie than half of them is compared exactly.
DIGITS = 120


def normalize_u8(
    x, is_centered, x_zero_point, spread, weights, biases, zero_point, lo, hi
):
    """Compute clamp(round(y / sqrt(mean of y * y + spread) * w + b) + zero_point).

    Args:
        x: uint8 [rows, length].
        is_centered: y is x minus the mean of its row, or else x - x_zero_point.
        spread: Fraction, above 0.
        weights, biases: Fractions, one for each column.
    """
    out = np.empty(x.shape, np.uint8)
    for row, codes in enumerate(x.tolist()):
        middle = Fraction(sum(codes), len(codes)) if is_centered else x_zero_point
        y = [Fraction(code - middle) for code in codes]
        square = sum(v * v for v in y) / len(y) + spread
        for column, value in enumerate(y):
            steps = _round(value * weights[column], square, biases[column])
            out[row, column] = min(max(steps + zero_point, lo), hi)
    return out


def _round(value, square, bias):
    """Compute round_half_even(value / sqrt(square) + bias) of Fractions."""
    with localcontext(prec=DIGITS):
        root = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
        near = Fraction(Decimal(value.numerator) / Decimal(value.denominator) / root)
    near += bias
    tie = Fraction(round(near - Fraction(1, 2))) + Fraction(1, 2)
    # value / root is the tie if both have one sign and equal squares.
    rest = tie - bias
    if rest * value >= 0 and rest * rest * square == value * value:
        return round_half_even(tie)
    return round_half_even(near)
