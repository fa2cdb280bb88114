"""Functions of one float32, made of operations of IEEE 754 only.

Every operation rounds once and in the same order, so all ISAs give the same bytes. No
function branches, so that loops over them become vectors.

Source: S. Moshier, Cephes Math Library, `expf.c`, `logf.c` and `tanhf.c`. The
polynomials of erf and of the normal distribution are least-squares fits of the relative
error at Chebyshev nodes, computed for this module.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ONE, SIX, THREE, ZERO, clamp
from mdtensor.kernels.cpu.generic.float_matmul import multiply_add
from mdtensor.kernels.cpu.jit import kernel


def _singles(*numbers):
    """Return numbers rounded to float32."""
    return tuple(np.float32(number) for number in numbers)


HALF, TWO = _singles(0.5, 2)
INFINITY, NAN = _singles(np.inf, np.nan)
# ln(2) in two parts.
LOG2E, LN2_HIGH, LN2_LOW = _singles(1.44269504088896341, 0.693359375, -2.12194440e-4)
E0, E1, E2, E3, E4, E5 = _singles(
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2),
    *(1.6666665459e-1, 5.0000001201e-1),
)
LEAST, MOST = _singles(-104, 89)
#: A sum with it rounds to a whole number, because its last place is 1.
MAGIC = np.float32(1.5 * 2**23)
MAGIC_BITS = np.int32(MAGIC.view(np.int32) - 127)


@kernel(inline="always")
def power_of_two(n):
    """Return 2 ** n for a whole float32 from -126 to 127; any number for others."""
    # The last bits of n + MAGIC are n, also for a NaN, which no conversion takes.
    bits = np.float32(n + MAGIC).view(np.int32)
    return np.int32((bits - MAGIC_BITS) << np.int32(23)).view(np.float32)


@kernel(inline="always")
def exp_parts(x):
    """Return (p, n) with e ** x = p · 2 ** n, where p is from 0.7 to 1.5.

    Outside of the range of exp, it is e ** x of the nearest x in it.
    """
    return power_parts(clamp(x, LEAST, MOST))


@kernel(inline="always")
def power_parts(z):
    """Return (p, n) with e ** z = p · 2 ** n, for z from -128 to 128."""
    n = np.float32(multiply_add(z, LOG2E, MAGIC) - MAGIC)
    r = multiply_add(n, -LN2_LOW, multiply_add(n, -LN2_HIGH, z))
    # Pairs of terms do not wait for each other.
    z = np.float32(r * r)
    p = multiply_add(multiply_add(E0, r, E1), z, multiply_add(E2, r, E3))
    p = multiply_add(p, z, multiply_add(E4, r, E5))
    # The 1 comes last, so that little is lost before it.
    return np.float32(multiply_add(p, z, r) + ONE), n


# Every operation is one of IEEE 754, so all ISAs give the same bytes (decision 0053).
@kernel
def exp(x):
    """Return e ** x, within 1.1 ulp; NaN stays NaN."""
    p, n = exp_parts(x)
    # The power of 2 is applied in two factors, because a single one could not reach
    # subnormal results.
    half = np.float32(multiply_add(n, HALF, MAGIC) - MAGIC)
    found = np.float32(p * power_of_two(half))
    return np.float32(found * power_of_two(np.float32(n - half)))


@kernel(inline="always")
def exp_normal(x):
    """Return e ** x as `exp` does, for x from -87 on; inf where it overflows."""
    p, n = exp_parts(x)
    return np.float32(p * power_of_two(n))


@kernel
def sigmoid(x):
    """Return 1 / (1 + e ** -x), within 3 ulp; no power overflows."""
    power = exp(-abs(x))
    share = np.float32(ONE / np.float32(ONE + power))
    return np.float32(power * share) if x < ZERO else share


#: From here on, x · e ** x is less than half of the smallest float32.
SILU_END = np.float32(-110)


@kernel(inline="always")
def silu(x):
    """Return x · sigmoid(x), within 4 ulp, also where it is subnormal; -0 at -inf."""
    least = SILU_END if x < SILU_END else x
    below = -abs(least)
    p, n = power_parts(SILU_END if below < SILU_END else below)
    half = np.float32(multiply_add(n, HALF, MAGIC) - MAGIC)
    first, second = power_of_two(half), power_of_two(np.float32(n - half))
    power = np.float32(np.float32(p * first) * second)
    share = np.float32(least / np.float32(ONE + power))
    # Powers of 2 come last: the power itself may be subnormal, with few digits.
    far = np.float32(np.float32(np.float32(share * p) * first) * second)
    return far if x < ZERO else share


#: The float32 next to 1/6.
SIXTH = np.float32(ONE / SIX)


# A division takes as long as nine products (decision 0061).
@kernel(inline="always")
def hardswish(x):
    """Return max(x, -3) · (min(max(x + 3, 0), 6) / 6), as activate does; -0 at -inf."""
    part = clamp(np.float32(x + THREE), ZERO, SIX)
    # The remainder of this quotient is exact, so that its share rounds the quotient
    # correctly (Markstein 1990).
    share = np.float32(part * SIXTH)
    rest = multiply_add(-SIX, share, part)
    share = multiply_add(rest, SIXTH, share)
    at_least = -THREE if x < -THREE else x
    return np.float32(at_least * share)


TANH_END = np.float32(0.625)
T0, T1, T2, T3, T4 = _singles(
    *(-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2),
    *(1.33314422036e-1, -3.33332819422e-1),
)


@kernel
def tanh(x):
    """Return (e ** x - e ** -x) / (e ** x + e ** -x), within 2 ulp; it keeps -0."""
    a = abs(x)
    power = exp_normal(np.float32(a + a))
    far = np.float32(ONE - np.float32(TWO / np.float32(power + ONE)))
    far = -far if x < ZERO else far
    z = np.float32(x * x)
    p = multiply_add(T0, z, T1)
    p = multiply_add(p, z, T2)
    p = multiply_add(p, z, T3)
    p = multiply_add(p, z, T4)
    near = multiply_add(np.float32(p * z), x, x)
    near = near if x != ZERO else x
    return near if a < TANH_END else far


L0, L1, L2, L3, L4, L5, L6, L7, L8 = _singles(
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1),
    *(1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1),
    3.3333331174e-1,
)
SMALLEST, SCALE = _singles(2.0**-126, 2.0**25)
#: Exponent and fraction of a float32; the fraction of sqrt(1/2).
MANTISSA, ROOT_BITS = np.int32(0x007FFFFF), np.int32(0x3F3504F3)


@kernel
def log(x):
    """Return the natural logarithm, within 1 ulp; -inf for 0, NaN below it."""
    is_small = x < SMALLEST
    scaled = np.float32(x * SCALE) if is_small else x
    bits = np.float32(scaled).view(np.int32)
    # The fraction is from sqrt(1/2) to sqrt(2).
    offset = np.int32(bits - ROOT_BITS)
    exponent = np.float32(offset >> np.int32(23))
    fraction = np.int32((offset & MANTISSA) + ROOT_BITS).view(np.float32)
    exponent = np.float32(exponent - np.float32(25)) if is_small else exponent
    r = np.float32(fraction - ONE)
    z = np.float32(r * r)
    p = multiply_add(L0, r, L1)
    p = multiply_add(p, r, L2)
    p = multiply_add(p, r, L3)
    p = multiply_add(p, r, L4)
    p = multiply_add(p, r, L5)
    p = multiply_add(p, r, L6)
    p = multiply_add(p, r, L7)
    p = multiply_add(p, r, L8)
    y = np.float32(np.float32(p * r) * z)
    y = multiply_add(exponent, LN2_LOW, y)
    y = multiply_add(-HALF, z, y)
    found = multiply_add(exponent, LN2_HIGH, np.float32(r + y))
    found = x if x == INFINITY else found
    found = -INFINITY if x == ZERO else found
    return found if x >= ZERO else NAN


@kernel(inline="always")
def softplus(x, beta, threshold):
    """Return log(1 + e ** z) / beta with z = beta · x, or x where z > threshold.

    It is within 2 ulp if beta is a power of 2; otherwise z is rounded first.
    """
    z = np.float32(x * beta)
    power = exp(-abs(z))
    total = np.float32(power + ONE)
    # What the sum loses is exact, and log(total + lost) is this to the first order.
    lost = np.float32(power - np.float32(total - ONE))
    found = np.float32(log(total) + np.float32(lost / total))
    found = np.float32(found + (z if z > ZERO else ZERO))
    found = np.float32(found / beta)
    return x if z > threshold else found


@kernel
def root(x):
    """Return x ** 0.5, rounded once: 0 for -0, inf for -inf."""
    found = np.float32(np.sqrt(np.float32(x + ZERO)))
    return INFINITY if x == -INFINITY else found


#: Where erf changes its formula, and from where it is 1.
ERF_NEAR, ERF_END = _singles(0.92, 4)
# erf(x) = x + x · N(x²), for small x.
N0, N1, N2, N3, N4, N5, N6 = _singles(
    *(8.3823863e-05, -0.000814559637, 0.00520128617, -0.0268594995),
    *(0.112836972, -0.376126349, 0.128379166),
)
# erf(x) = 1 - e ** -F(x), for large x.
F0, F1, F2, F3, F4, F5, F6 = _singles(
    *(-0.000198220063, 0.00306549389, -0.0223152265, 0.104113705),
    *(0.636976063, 1.12779725, 0.000166444384),
)


# Branches would keep loops from becoming vectors (decision 0054).
@kernel
def erf(x):
    """Return 2 / √π · ∫ e ** -t² dt from 0 to x, within 1.1 ulp; it keeps -0."""
    a = abs(x)
    a = a if a < ERF_END or a != a else ERF_END
    z = np.float32(a * a)
    p = multiply_add(multiply_add(F0, a, F1), z, multiply_add(F2, a, F3))
    p = multiply_add(p, z, multiply_add(F4, a, F5))
    p = multiply_add(p, a, F6)
    far = np.float32(ONE - exp_normal(-p))
    far = -far if x < ZERO else far
    w = np.float32(z * z)
    p = multiply_add(multiply_add(N0, z, N1), w, multiply_add(N2, z, N3))
    p = multiply_add(p, w, multiply_add(N4, z, N5))
    p = multiply_add(p, z, N6)
    near = multiply_add(p, x, x)
    return near if a < ERF_NEAR else far


#: From here on, the share of the normal distribution beyond x is 0 in float32.
NORMAL_END = np.float32(15)
SLOPE = np.float32(0.3)
# The share beyond a is e ** (-a² / 2) · t · R(t) with t = 1 / (1 + 0.3 a).
R0, R1, R2, R3, R4, R5, R6, R7, R8, R9 = _singles(
    *(-0.0206286926, 0.112464949, -0.228285119, 0.191883698, -0.0795095116),
    *(0.0962051079, 0.0783721581, 0.110239364, 0.119571321, 0.119686723),
)


# Compiled alone, it would hold vectors of two terms, which no loop can widen.
@kernel(inline="always")
def gelu(x):
    """Return x · Φ(x), within 7 ulp, with Φ of the normal distribution; -0 at -inf."""
    # -inf · 0 would be NaN.
    least = -NORMAL_END if x < -NORMAL_END else x
    a = abs(least)
    a = NORMAL_END if a > NORMAL_END else a
    t = np.float32(ONE / multiply_add(SLOPE, a, ONE))
    z = np.float32(t * t)
    p = multiply_add(multiply_add(R0, t, R1), z, multiply_add(R2, t, R3))
    q = multiply_add(multiply_add(R4, t, R5), z, multiply_add(R6, t, R7))
    w = np.float32(z * z)
    p = multiply_add(multiply_add(p, w, q), z, multiply_add(R8, t, R9))
    # The rounding error of a², which e ** would magnify, is exact.
    z = np.float32(a * a)
    lost = multiply_add(a, a, -z)
    power = exp(np.float32(-HALF * z))
    power = multiply_add(power, np.float32(-HALF * lost), power)
    p = np.float32(p * t)
    # x · p comes first below 0, because p · power may be subnormal.
    below = np.float32(np.float32(least * p) * power)
    above = np.float32(least * np.float32(ONE - np.float32(p * power)))
    return below if x < ZERO else above


# √(8/π) and its product with 0.044715.
G0, G1 = _singles(1.5957691216057308, 0.07135481627159746)


@kernel
def gelu_tanh(x):
    """Return x · sigmoid(2u), u = √(2/π) · (x + 0.044715 x³); -0 at -inf.

    It is within max(4, 3 · |2u|) ulp.
    """
    least = -NORMAL_END if x < -NORMAL_END else x
    z = np.float32(least * least)
    slope = multiply_add(G1, z, G0)
    return np.float32(least * sigmoid(np.float32(least * slope)))
