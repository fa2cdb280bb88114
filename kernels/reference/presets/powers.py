"""The oracle of `kernels/presets/powers.py`, one number at a time."""

from decimal import Context, Decimal
from fractions import Fraction

from mdtensor.kernels.cpu.rounding.rescale import float32_of


def exp_f32(x):
    """The float32 nearest to e**x, through 100 digits."""
    return float32_of(Fraction(Decimal(float(x)).exp(Context(prec=100))))
