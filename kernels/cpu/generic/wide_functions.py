"""Functions of float32 that are computed in float64 and rounded once.

    x, out    float32 1-D of one length; `out` is written and may not be x

Each function errs by less than 2**-40 of its result before it is rounded, so it is
within 0.5001 units in the last place. No branch stands inside of a loop, so that
LLVM makes vectors; only basic arithmetic, roots and bits are used, so that every
instruction set gives the same bytes.

    log(m · 2**k)  = k · log 2 + 2 · (s + s³/3 + s⁵/5 + ...)    s = (m - 1) / (m + 1)
    e ** x - 1     = 2**k · (e ** r - 1) + (2**k - 1)           r = x - k · log 2
    asin, atan     quotients and polynomials of fdlibm

Source: Sun, fdlibm, e_asin.c and s_atan.c; Tang, Table-driven implementations, 1992.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

LOG2E, LOG10E = 1.4426950408889634, 0.4342944819032518
LN2, LOG10_2 = 0.6931471805599453, 0.3010299956639812
#: log 2 in two parts; the first has 20 zeros at its end, so its products are exact.
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
HALF_PI = 1.5707963267948966
#: π / 2 in three parts of 33 bits; products with integers below 2**20 are exact.
PART_1, PART_2 = 1.57079632673412561417, 6.07710050630396597660e-11
PART_3 = 2.02226624879595063154e-21
#: From here on a tangent is reduced by the library of C.
FAR = 5e5
#: Adding it leaves an integer in the low bits of a float64.
SHIFT = 1.5 * 2.0**52
#: Bits of float64: of sqrt(1/2); of 1,023 powers of two, which keep a difference above
#: 0; of 1; of 2**52, whose low bits are integers.
ROOT_BITS, BIAS = np.int64(0x3FE6A09E667F3BCD), np.int64(1023 << 52)
ONE_BITS, INTEGER_BITS = np.int64(0x3FF0000000000000), np.int64(0x4330000000000000)
MANTISSA = np.int64(52)
INF, NAN = np.inf, np.nan


@kernel(inline="always")
def log_parts(y, f, is_near):
    """Return (k, log m) of y = m · 2**k, a normal float64 above 0.

    Args:
        f: y - 1, exact where `is_near` is true.
        is_near: whether f may replace m - 1 if k is 0.
    """
    bits = np.float64(y).view(np.int64)
    # AVX2 shifts 64 bits right without their sign only.
    moved = np.int64(np.uint64(bits - ROOT_BITS + BIAS) >> np.uint64(52))
    k = np.int64(moved | INTEGER_BITS).view(np.float64) - (2.0**52 + 1023)
    m = np.int64(bits - ((moved - np.int64(1023)) << MANTISSA)).view(np.float64)
    d = f if is_near & (k == 0.0) else m - 1.0
    s = d / (2.0 + d)
    z = s * s
    p = 1 / 15 + z * (1 / 17 + z * (1 / 19 + z * (1 / 21)))
    p = 1 / 7 + z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + z * p)))
    return k, 2.0 * s * (1.0 + z * (1 / 3 + z * (1 / 5 + z * p)))


@kernel(inline="always")
def of_positive(x, found):
    """Return a logarithm `found` of x, where x is above 0; else what IEEE 754 says."""
    found = INF if x == INF else found
    found = -INF if x == 0.0 else found
    return found if x >= 0.0 else NAN


@kernel(inline="always")
def log1p(x):
    """Return log(1 + x) of float64; NaN below -1."""
    y = 1.0 + x
    # Bits of 0, of an infinity and of NaN are not those of a normal number.
    k, part = log_parts(y if (y > 0.0) & (y < INF) else 1.0, x, True)
    return of_positive(y, k * LN2 + part)


@kernel(inline="always")
def exp_parts(x):
    """Return (s, p): e ** x = s · (1 + p), for float64 from -110 to 700."""
    k = np.rint(x * LOG2E)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600)))
    p = 1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * p))
    p = 1 / 6 + r * (1 / 24 + r * (1 / 120 + r * p))
    p = r + r * r * (0.5 + r * p)
    whole = np.float64(k + SHIFT).view(np.int64)
    scale = np.int64((whole << MANTISSA) + ONE_BITS).view(np.float64)
    return scale, p


@kernel(inline="always")
def exp(x):
    """Return e ** x of float64 from -110 to 700; NaN stays NaN."""
    scale, p = exp_parts(x)
    return scale + scale * p


@kernel(inline="always")
def expm1(x):
    """Return e ** x - 1 of float64 from -110 to 700; NaN stays NaN."""
    scale, p = exp_parts(x)
    return scale * p + (scale - 1.0)


@kernel(inline="always")
def limited(x, most):
    """Return x within ±most; NaN stays."""
    x = most if x > most else x
    return -most if x < -most else x


@kernel(inline="always")
def asin_parts(x):
    """Return (a, is_far): asin |x| is a, or π / 2 - 2 · a if is_far."""
    a = abs(x)
    is_far = a > 0.5
    z = 0.5 * (1.0 - a) if is_far else a * a
    t = np.sqrt(z) if is_far else a
    p = -4.00555345006794114027e-02 + z * (
        7.91534994289814532176e-04 + z * 3.47933107596021167570e-05
    )
    p = -3.25565818622400915405e-01 + z * (2.01212532134862925881e-01 + z * p)
    p = z * (1.66666666666666657415e-01 + z * p)
    q = -6.88283971605453293030e-01 + z * 7.70381505559019352791e-02
    q = 1.0 + z * (-2.40339491173441421878e00 + z * (2.02094576023350569471e00 + z * q))
    return t + t * (p / q), is_far


@kernel(inline="always")
def atan_of_part(t):
    """Return atan t for 0 <= t <= 1."""
    is_far = t > 0.4142135623730950
    u = (t - 1.0) / (t + 1.0) if is_far else t
    z = u * u
    p = 4.97687799461593236017e-02 + z * (
        -3.65315727442169155270e-02 + z * 1.62858201153657823623e-02
    )
    p = 6.66107313738753120669e-02 + z * (-5.83357013379057348645e-02 + z * p)
    p = 9.09088713343650656196e-02 + z * (-7.69187620504482999495e-02 + z * p)
    p = 1.42857142725034663711e-01 + z * (-1.11111104054623557880e-01 + z * p)
    p = 3.33333333333329318027e-01 + z * (-1.99999999998764832476e-01 + z * p)
    found = u - u * (z * p)
    return found + HALF_PI / 2 if is_far else found


@kernel
def log1p_f32(x, out):
    """Set out = log(1 + x)."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        found = np.float32(log1p(v))
        # -0 keeps its sign, and NaN its bits.
        out[i] = found if (v != 0.0) & (v == v) else x[i]


@kernel
def log2_f32(x, out):
    """Set out to the logarithm of x to base 2; exact for powers of two."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        k, part = log_parts(v if (v > 0.0) & (v < INF) else 1.0, v, False)
        found = np.float32(of_positive(v, k + part * LOG2E))
        out[i] = found if v == v else x[i]


@kernel
def log10_f32(x, out):
    """Set out to the logarithm of x to base 10."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        k, part = log_parts(v if (v > 0.0) & (v < INF) else 1.0, v, False)
        found = np.float32(of_positive(v, k * LOG10_2 + part * LOG10E))
        out[i] = found if v == v else x[i]


@kernel
def expm1_f32(x, out):
    """Set out = e ** x - 1."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        found = np.float32(expm1(limited(v, 100.0)))
        out[i] = found if (v != 0.0) & (v == v) else x[i]


@kernel
def sinh_f32(x, out):
    """Set out = (e ** x - e ** -x) / 2."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        p = expm1(limited(abs(v), 100.0))
        found = np.float32(0.5 * (p + p / (p + 1.0)))
        found = -found if v < 0.0 else found
        out[i] = found if (v != 0.0) & (v == v) else x[i]


@kernel
def cosh_f32(x, out):
    """Set out = (e ** x + e ** -x) / 2."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        e = exp(limited(abs(v), 100.0))
        found = np.float32(0.5 * (e + 1.0 / e))
        out[i] = found if v == v else x[i]


@kernel
def asin_f32(x, out):
    """Set out = arc sine of x; NaN outside of [-1, 1]."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        a, is_far = asin_parts(limited(v, 1.0))
        found = np.float32(HALF_PI - 2.0 * a if is_far else a)
        found = -found if v < 0.0 else found
        found = np.float32(found if abs(v) <= 1.0 else NAN)
        out[i] = found if (v != 0.0) & (v == v) else x[i]


@kernel
def acos_f32(x, out):
    """Set out = arc cosine of x; NaN outside of [-1, 1]."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        a, is_far = asin_parts(limited(v, 1.0))
        near = HALF_PI + a if v < 0.0 else HALF_PI - a
        far = 2.0 * HALF_PI - 2.0 * a if v < 0.0 else 2.0 * a
        found = np.float32(far if is_far else near)
        found = np.float32(found if abs(v) <= 1.0 else NAN)
        out[i] = found if v == v else x[i]


@kernel
def atan_f32(x, out):
    """Set out = arc tangent of x."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        a = abs(v)
        is_far = a > 1.0
        found = atan_of_part(1.0 / a if is_far else a)
        found = np.float32(HALF_PI - found if is_far else found)
        found = -found if v < 0.0 else found
        out[i] = found if (v != 0.0) & (v == v) else x[i]


@kernel
def asinh_f32(x, out):
    """Set out = the inverse of sinh."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        a = abs(v)
        square = a * a
        found = log1p(a + square / (1.0 + np.sqrt(1.0 + square)))
        found = np.float32(INF if a == INF else found)
        found = -found if v < 0.0 else found
        out[i] = found if (v != 0.0) & (v == v) else x[i]


@kernel
def acosh_f32(x, out):
    """Set out = the inverse of cosh, at least 0; NaN below 1."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        d = v - 1.0 if v >= 1.0 else 0.0
        found = np.float32(log1p(d + np.sqrt(d * (v + 1.0))))
        found = np.float32(found if v >= 1.0 else NAN)
        out[i] = found if v == v else x[i]


@kernel
def atanh_f32(x, out):
    """Set out = the inverse of tanh; NaN outside of [-1, 1]."""
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        a = abs(v)
        found = 0.5 * log1p(2.0 * a / (1.0 - a if a < 1.0 else 1.0))
        found = INF if a == 1.0 else found
        found = np.float32(found if a <= 1.0 else NAN)
        found = -found if v < 0.0 else found
        out[i] = found if (v != 0.0) & (v == v) else x[i]


@kernel
def tan_f32(x, out):
    """Set out = sin x / cos x; NaN of an infinity."""
    is_far = np.int32(0)
    for i in range(np.uintp(len(out))):
        v = np.float64(x[i])
        is_far = np.int32(is_far | np.int32(abs(v) > FAR))
        v = limited(v, FAR)
        k = np.rint(v * (1.0 / HALF_PI))
        r = ((v - k * PART_1) - k * PART_2) - k * PART_3
        z = r * r
        s = -1 / 39916800 + z * (1 / 6227020800)
        s = 1 / 120 + z * (-1 / 5040 + z * (1 / 362880 + z * s))
        s = r + r * z * (-1 / 6 + z * s)
        c = 1 / 479001600 + z * (-1 / 87178291200)
        c = -1 / 720 + z * (1 / 40320 + z * (-1 / 3628800 + z * c))
        c = 1.0 + z * (-0.5 + z * (1 / 24 + z * c))
        is_odd = k * 0.5 != np.rint(k * 0.5)
        found = np.float32((-c if is_odd else s) / (s if is_odd else c))
        out[i] = found if (v != 0.0) & (v == v) else x[i]
    if is_far != 0:
        for i in range(np.uintp(len(out))):
            if abs(x[i]) > FAR:
                out[i] = np.float32(np.tan(np.float64(x[i])))
