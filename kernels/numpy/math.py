"""The error function, exponentials, complex tangents and neighbours on host arrays.

NumPy does not have erf. Here erf is a Taylor series around the nearest of 1,537 points
r = k / 256; its derivatives are Hermite polynomials times s = 2/√π · exp(-r²):

    erf(r + d) = erf(r) + s · d · (1 - r·d + (2r² - 1)/3 · d² - (2r³ - 3r)/6 · d³
                                   + (4r⁴ - 12r² + 3)/30 · d⁴ - ...)

With |d| ≤ 1/512 these terms suffice for float64, and the first three for float32.
Beyond 6 the result is ±1.

Source: Abramowitz and Stegun 7.1.19; tables as in Arm's optimized routines.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quiet
from mdtensor.kernels.numpy.float16 import is_narrow
from mdtensor.kernels.numpy.float32 import call, compiled
from mdtensor.kernels.numpy.ufunc import in_short_blocks

Array = npt.NDArray[Any]
FLOAT64 = np.dtype(np.float64)

#: Points in an interval of length 1.
STEPS = 256
#: erf(6) rounds to 1, in float64 too.
END = 6.0

#: Numerators and denominators of Cody's quotients for erfcx, of x from 1/2 to 4, and of
#: 1 / x² beyond.
ERFCX_NEAR = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594),
        *(6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2),
        *(1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2),
        *(1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3),
        *(3.43936767414372164e3, 1.23033935480374942e3),
    ),
)
ERFCX_FAR = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
        *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (
        *(1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1),
        *(6.05183413124413191e-2, 2.33520497626869185e-3),
    ),
)


@compiled
@in_short_blocks
def erf(x: Array, out: Array) -> None:
    """Compute 2/√π · ∫ exp(-t²) dt from 0 to x, within 1 ulp; float32 1.1 ulp.

    Narrower floats are computed in float32 and rounded once: within 0.501 ulp.
    """
    wide = x.astype(FLOAT64, copy=False)
    np.copyto(out, erf64(wide, x.dtype == FLOAT64), casting="same_kind")


def erf64(x: Array, is_exact: bool) -> Array:
    """Compute erf(x) of float64: within 1 ulp if `is_exact`, else within 1e-10."""
    values, slopes = _points()
    d = np.minimum(np.abs(x), END)
    r = np.rint(d * STEPS)
    # NaN gives any index; the result is NaN all the same.
    at = r.astype(np.intp)
    r *= 1 / STEPS
    d -= r
    y = _series(r, d) if is_exact else r * r * (2 / 3) - 1 / 3
    y *= d
    y -= r
    y *= d
    d *= slopes.take(at, mode="clip")
    y *= d
    y += d
    y += values.take(at, mode="clip")
    # The series ran on |x|, so the sign of x, of -0 too, is restored at the end.
    return np.copysign(y, x, out=y)


def _series(r: Array, d: Array) -> Array:
    """Compute (2r² - 1)/3 - (2r³ - 3r)/6 · d + (4r⁴ - 12r² + 3)/30 · d²."""
    square = r * r
    y = (square * (4 / 30) - 0.4) * square + 0.1
    y *= d
    y -= (square * (1 / 3) - 0.5) * r
    y *= d
    y += square * (2 / 3) - 1 / 3
    return y


@cache
def _points() -> tuple[Array, Array]:
    """Return erf and its derivative at k / 256 up to 6."""
    points = [k / STEPS for k in range(int(END * STEPS) + 1)]
    slopes = [2 / math.sqrt(math.pi) * math.exp(-r * r) for r in points]
    return np.array([math.erf(r) for r in points]), np.array(slopes)


def erfcx64(x: Array) -> Array:
    """Compute exp(x²) · (1 - erf(x)) of float64 numbers of at least 1/2, within 6 ulp.

    1 - erf(x) alone cancels, and underflows beyond 27.

    Source: W. J. Cody, "Rational Chebyshev Approximations for the Error Function",
    Mathematics of Computation 23 (1969).
    """
    near = np.minimum(x, 4.0)
    y = _quotient(near, ERFCX_NEAR)
    is_far = x > 4
    if is_far.any():
        far = x[is_far]
        square = 1 / (far * far)
        y[is_far] = (
            1 / math.sqrt(math.pi) - square * _quotient(square, ERFCX_FAR)
        ) / far
    return y


def _quotient(x: Array, coefficients: tuple[tuple[float, ...], ...]) -> Array:
    """Return the quotient of two polynomials, the highest power first."""
    above, below = (np.polyval(each, x) for each in coefficients)
    return np.asarray(above / below)


def expm1(z: Array) -> Array:
    """Compute exp(z) - 1 of complex numbers, with infinities where NumPy gives NaN.

    The real part of the result is 0, not -0, where z is 0, as the array API demands.
    """
    found = np.asarray(np.expm1(z))
    found = np.asarray(np.where(np.isfinite(found), found, np.exp(z) - 1))
    found.real = np.where(z == 0, 0, found.real)
    return found


def log1p(x: Array) -> Array:
    """Compute log(1 + x); of complex numbers accurately near 0, where NumPy cancels.

    log|1 + a + bi| = log1p(a·(2 + a) + b²) / 2 where |a + bi| ≤ 1/2, so that nothing
    overflows and 1 + a does not cancel.
    """
    if x.dtype == np.float32:
        return call("log1p", x)
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    y = np.asarray(np.log1p(x))
    near = np.abs(x) <= 0.5
    a, b = x.real, x.imag
    y.real = np.where(near, np.log1p(a * (2 + a) + b * b) / 2, y.real)
    return y


# In the array API standard, the vanishing part of a complex tangent at infinity has the
# sign of v; in C, and so in NumPy, it has the sign of sin(2·v).


def tanh(z: Array) -> Array:
    """Compute tanh of complex numbers; ±1 ± 0j at ±inf + v·j, with the sign of v."""
    found = np.asarray(np.tanh(z))
    at_infinity = np.isinf(z.real) & np.isfinite(z.imag)
    found.imag = np.where(at_infinity, np.copysign(0, z.imag), found.imag)
    return found


def tan(z: Array) -> Array:
    """Compute -j·tanh(j·z); ±0 ± 1j at v ± inf·j, with the sign of v."""
    found = np.asarray(np.tan(z))
    at_infinity = np.isinf(z.imag) & np.isfinite(z.real)
    found.real = np.where(at_infinity, np.copysign(0, z.real), found.real)
    return found


@quiet
def nextafter(x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """Return the number of `dtype` after x1 toward x2; x2 where they are equal.

    Narrow floats are not widened.

    Source: IEEE 754-2019, nextUp and nextDown; C, nextafter.
    """
    a, b = (np.asarray(x, dtype) for x in (x1, x2))
    next_ = np.asarray(np.nextafter(a, b))
    # For a narrow zero toward a zero of the other sign, NumPy returns x1 instead of x2.
    return np.asarray(np.where(a == b, b, next_)) if is_narrow(dtype) else next_
