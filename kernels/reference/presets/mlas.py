"""The oracle of `kernels/presets/mlas.py`, one number at a time in fractions."""

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from mdtensor.kernels.presets.mlas import CUBIC, ROOT, SIGMOID, TANH
from mdtensor.kernels.rescale import float32_of


def _once(exact):
    """Round a fraction to float32; the sign of 0 is lost, and no code shows it."""
    return Fraction(float(float32_of(exact)))


def _ratio(x, bound, upper, lower):
    """Compute x · P(x²) / Q(x²) for x within the bound."""
    near = min(max(Fraction(float(x)), -Fraction(bound)), Fraction(bound))
    square = _once(near * near)
    top = _once(near * _polynomial(square, upper))
    return _once(top / _polynomial(square, lower))


def _polynomial(x, coefficients):
    total = Fraction(0)
    for c in coefficients:
        total = _once(total * x + Fraction(float(np.float32(c))))
    return total


def tanh(x):
    """Compute the hyperbolic tangent."""
    return np.float32(float(_ratio(x, *TANH)))


def sigmoid(x):
    """Compute 1 / (1 + e**-x), from 0 to 1."""
    found = _once(_ratio(x, *SIGMOID) + Fraction(1, 2))
    return np.float32(float(min(max(found, Fraction(0)), Fraction(1))))


def softplus(x):
    """Compute the float32 nearest to log(1 + e**x), from 100 decimal digits."""
    context = Context(prec=100)
    power = Decimal(float(x)).exp(context)
    return float32_of(Fraction(context.add(power, Decimal(1)).ln(context)))


def silu(x):
    """Compute x · sigmoid(x)."""
    return np.float32(x) * sigmoid(x)


def mish(x):
    """Compute x · tanh(log(1 + e**x))."""
    return np.float32(x) * tanh(softplus(x))


def gelu_tanh(x):
    """Compute x · (1 + tanh(√(2 / π) · (x + 0.044715 · x³))) / 2."""
    number, root, cubic = (Fraction(float(n)) for n in (x, ROOT, CUBIC))
    line = _once(_once(_once(cubic * number) * number) + root)
    one = Fraction(float(tanh(_once(number * line)))) + 1
    return np.float32(float(_once(_once(number / 2) * _once(one))))
