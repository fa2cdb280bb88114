"""The float32 functions that ONNX Runtime approximates, bit for bit.

    tanh(x)    = x · P(x²) / Q(x²), |x| <= 9
    sigmoid(x) = x · P(x²) / Q(x²) + 1/2, |x| <= 18

P and Q are polynomials by Horner's scheme, with one rounding for each product and sum.
Arguments outside count as the bound. Arguments and results are float32 arrays.

Source: ONNX Runtime 1.32.0, `core/mlas/lib/tanh.cpp`, `logistic.cpp`, by the
instructions of FMA3.
"""

from decimal import Decimal
from fractions import Fraction

import numpy as np

from mdtensor.kernels.presets import DIGITS, ERROR
from mdtensor.kernels.presets.ort import fma
from mdtensor.kernels.rescale import float32_of

#: Bound of the argument, then the coefficients of P and of Q, highest power first.
TANH = (
    9.0,
    (
        *(-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11),
        *(5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04),
        4.89352455891786e-03,
    ),
    (
        *(1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03),
        4.89352518554385e-03,
    ),
)
SIGMOID = (
    18.0,
    (
        *(4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05),
        *(8.51377133304701e-03, 2.48287947061529e-01),
    ),
    (
        *(6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06),
        *(1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01),
    ),
)


def _ratio(x, bound, upper, lower):
    """Compute x · P(x²) / Q(x²) for x within the bound."""
    near = np.clip(x, np.float32(-bound), np.float32(bound))
    square = near * near
    return near * _polynomial(square, upper) / _polynomial(square, lower)


def _polynomial(x, coefficients):
    first, *rest = (np.float32(c) for c in coefficients)
    total = np.full_like(x, first)
    for c in rest:
        total = fma(x, total, c)
    return total


def tanh(x):
    """Compute the hyperbolic tangent."""
    with np.errstate(under="ignore"):
        return _ratio(x, *TANH)


def sigmoid(x):
    """Compute 1 / (1 + e**-x), from 0 to 1."""
    with np.errstate(under="ignore"):
        found = _ratio(x, *SIGMOID) + np.float32(0.5)
    return np.clip(found, np.float32(0), np.float32(1))


def softplus(x):
    """Compute the float32 nearest to log(1 + e**x)."""
    # ONNX Runtime's logarithm has other last bits, which no code of `mish` shows.
    wide = np.asarray(x, np.float64)
    with np.errstate(under="ignore"):
        value = np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide)))
        found, above = ((value * (1 + e)).astype(np.float32) for e in (-ERROR, ERROR))
    for place in zip(*np.nonzero(found != above), strict=True):
        number = Decimal(float(x[place]))
        exact = DIGITS.add(DIGITS.exp(-abs(number)), Decimal(1)).ln(DIGITS)
        found[place] = float32_of(Fraction(DIGITS.add(exact, max(number, Decimal(0)))))
    return found


def silu(x):
    """Compute x · sigmoid(x)."""
    with np.errstate(under="ignore"):
        return x * sigmoid(x)


def mish(x):
    """Compute x · tanh(log(1 + e**x))."""
    with np.errstate(under="ignore"):
        return x * tanh(softplus(x))


#: √(2 / π), and its product with 0.044715.
ROOT, CUBIC = np.float32(0.7978845608028654), np.float32(0.035677408136300125)


def gelu_tanh(x):
    """Compute x · (1 + tanh(√(2 / π) · (x + 0.044715 · x³))) / 2."""
    # Infinity is clipped by `tanh`.
    with np.errstate(over="ignore", under="ignore"):
        inner = x * (CUBIC * x * x + ROOT)
        return np.float32(0.5) * x * (tanh(inner) + np.float32(1))
