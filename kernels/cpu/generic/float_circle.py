"""Sine and cosine of float32, for every number, of operations of IEEE 754 only.

    x = n · π/2 + r, |r| at most about π/4; n modulo 4 chooses ±sin(r) or ±cos(r)

Up to `FAR`, r comes from three parts of π/2, and the loop is vectors. Larger numbers
are rare: they are computed again one by one, with 2/π to 150 binary places.

Source: S. Moshier, Cephes Math Library, `sinf.c`, for the polynomials; M. Payne and
R. Hanek, "Radian reduction for trigonometric functions", 1983.
"""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ONE, ZERO
from mdtensor.kernels.cpu.generic.float_functions import HALF, MAGIC
from mdtensor.kernels.cpu.generic.float_matmul import multiply_add
from mdtensor.kernels.cpu.jit import kernel

#: Beyond it, n would not be exact.
FAR = np.float32(2.0**17)
#: π to 330 binary places, from Machin's formula.
_PLACES = 330


def _arctangent_of_inverse(n):
    """Return arctan(1 / n) in units of 2 ** -_PLACES."""
    total, term, k = 0, (1 << _PLACES) // n, 0
    while term:
        total += (-1) ** k * (term // (2 * k + 1))
        term, k = term // (n * n), k + 1
    return total


PI = Fraction(
    4 * (4 * _arctangent_of_inverse(5) - _arctangent_of_inverse(239)), 1 << _PLACES
)
TURNS = np.float32(float(2 / PI))
Q0 = np.float32(float(PI / 2))
Q1 = np.float32(float(PI / 2 - Fraction(float(Q0))))
Q2 = np.float32(float(PI / 2 - Fraction(float(Q0)) - Fraction(float(Q1))))
QUARTER = float(PI / 2)
S0, S1, S2 = (
    np.float32(x) for x in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
)
C0, C1, C2 = (
    np.float32(x)
    for x in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
)
#: Bits of a float32: its exponent, the one of FAR, and its fraction with the leading 1.
_EXPONENT, _FIRST = 23, 144
_FRACTION, _LEADING = np.int32(0x7FFFFF), np.int32(0x800000)


def _turns():
    """Return 2 / π · 2 ** e modulo 4 in three parts, for each exponent from FAR on.

    The product of the first two, of 29 bits, with a fraction of 24 bits is exact.
    """
    rows = []
    for exponent in range(_FIRST, 255):
        rest = 2 / PI * Fraction(2) ** (exponent - 150) % 4
        for places in (27, 56):
            part = Fraction(int(rest * 2**places), 2**places)
            rows.append(float(part))
            rest -= part
        rows.append(float(rest))
    return np.array(rows)


PARTS = _turns()


@kernel(inline="always")
def of_turned(r, quarters):
    """Return the sine of r + quarters · π/2, for r near 0, and quarters an int32."""
    z = np.float32(r * r)
    p = multiply_add(multiply_add(S0, z, S1), z, S2)
    sine = multiply_add(np.float32(p * z), r, r)
    p = multiply_add(multiply_add(C0, z, C1), z, C2)
    cosine = np.float32(multiply_add(p, np.float32(z * z), -np.float32(HALF * z)) + ONE)
    found = cosine if np.int32(quarters & np.int32(1)) != 0 else sine
    return -found if np.int32(quarters & np.int32(2)) != 0 else found


@kernel(inline="always")
def of_near(x, more):
    """Return the sine of x + more · π/2, for |x| up to FAR; NaN for infinities."""
    shifted = np.float32(multiply_add(x, TURNS, MAGIC))
    n = np.float32(shifted - MAGIC)
    # The first difference is exact.
    r = multiply_add(n, -Q0, x)
    r = multiply_add(n, -Q1, r)
    r = multiply_add(n, -Q2, r)
    return of_turned(r, np.int32(np.float32(shifted).view(np.int32) + more))


@kernel
def of_far(x, more):
    """Return the sine of x + more · π/2, for x from FAR on."""
    bits = np.float32(abs(x)).view(np.int32)
    row = np.uintp(3 * ((bits >> np.int32(_EXPONENT)) - _FIRST))
    whole = np.float64((bits & _FRACTION) | _LEADING)
    # Both products are exact, and so is what is left of four quarters.
    a, b = whole * PARTS[row], whole * PARTS[row + np.uintp(1)]
    a -= 4.0 * np.rint(0.25 * a)
    n = np.rint(a + b)
    turned = ((a - n) + b) + whole * PARTS[row + np.uintp(2)]
    quarters = np.int32(n)
    r = turned * QUARTER
    if x < ZERO:
        r, quarters = -r, np.int32(-quarters)
    return of_turned(np.float32(r), np.int32(quarters + more))


@kernel(inline="always")
def sine_f32(x, more, out):
    """Set out to the sine of x + more · π/2."""
    far = np.int32(0)
    for i in range(np.uintp(len(out))):
        value = x[i]
        found = of_near(value, more)
        out[i] = value if value == ZERO and more == np.int32(0) else found
        far = np.int32(far | np.int32(abs(value) > FAR))
    if far != 0:
        for i in range(np.uintp(len(out))):
            if FAR < abs(x[i]) < np.inf:
                out[i] = of_far(x[i], more)


# One loop for both, so that cosines have the bytes of shifted sines (decision 0082).
@kernel
def sin_f32(x, out):
    """Set out to the sine of x, within 1.6 ulp; it keeps -0, and is NaN at infinities.

    Args: x, out: float32 1-D of one length; `out` is written and may not be x.
    """
    sine_f32(x, np.int32(0), out)


@kernel
def cos_f32(x, out):
    """Set out to the cosine of x, within 1.6 ulp; NaN at infinities.

    Args: x, out: float32 1-D of one length; `out` is written and may not be x.
    """
    sine_f32(x, np.int32(1), out)
