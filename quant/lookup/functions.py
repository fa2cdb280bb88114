"""Exact functions for lookup tables: elementary functions and activations.

The functions map a rational number to a rational number with more digits than any grid
can resolve. Rational results are exact: roots of squares, logarithms of powers of the
base.
"""

from collections.abc import Callable
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import lru_cache, wraps
from math import isqrt

from mdtensor.quant.lookup.build import (
    DIGITS,
    FAR,
    Function,
    Partial,
    exactly,
    exp,
    precision,
    sigmoid,
    tanh,
)
from mdtensor.quant.lookup.piecewise import Piecewise

#: Below this the series of the arc tangent takes few terms.
SMALL = Decimal("0.05")


def _of_decimals(function: Callable[[Decimal], Decimal]) -> Function:
    """Return `function`, which computes with decimals, for rational numbers."""

    @wraps(function)
    def of_rational(x: Fraction) -> Fraction:
        # One more digit for each bit between x and 1: near 0 sin(x) and x differ by
        # x³ / 6 only, and far from 0 the digits hold the whole turns.
        far = abs(x.numerator.bit_length() - x.denominator.bit_length())
        with precision(DIGITS + far):
            return Fraction(function(Decimal(x.numerator) / Decimal(x.denominator)))

    return of_rational


def _at_zero(value: int, function: Function) -> Function:
    """Return `function` with an exact `value` at 0, its only rational result."""
    return lambda x: function(x) if x else Fraction(value)


def _root(x: Fraction) -> Fraction:
    # A rational root can be a tie, so it must be exact; an irrational one cannot.
    top, bottom = isqrt(x.numerator), isqrt(x.denominator)
    if top * top == x.numerator and bottom * bottom == x.denominator:
        return Fraction(top, bottom)
    return _of_decimals(Decimal.sqrt)(x)


def _log2(x: Fraction) -> Fraction:
    top, bottom = x.numerator, x.denominator
    if top & (top - 1) == 0 and bottom & (bottom - 1) == 0:
        return Fraction(top.bit_length() - bottom.bit_length())
    return _of_decimals(lambda n: n.ln() / Decimal(2).ln())(x)


@_of_decimals
def _log1p(x: Decimal) -> Decimal:
    return (1 + x).ln()


@_of_decimals
def expm1(x: Decimal) -> Decimal:
    """Return e**x - 1."""
    return min(x, Decimal(FAR)).exp() - 1


def _near(x: Decimal) -> Decimal:
    """Return x without whole turns, from -π to π."""
    return x.remainder_near(2 * pi(getcontext().prec))


def _sine(x: Decimal) -> Decimal:
    """Compute the sine by its series x - x³ / 3! + x⁵ / 5! - ..."""
    term = total = _near(x)
    square, smallest, n = term * term, abs(term).scaleb(-getcontext().prec), 1
    while abs(term) > smallest:
        term *= -square / ((n + 1) * (n + 2))
        total, n = total + term, n + 2
    return total


def _cosine(x: Decimal) -> Decimal:
    return _sine(pi(getcontext().prec) / 2 - abs(_near(x)))


@_of_decimals
def sin(x: Decimal) -> Decimal:
    """Return the sine of x in radians."""
    return _sine(x)


@_of_decimals
def tan(x: Decimal) -> Decimal:
    """Return the tangent of x in radians."""
    return _sine(x) / _cosine(x)


@_of_decimals
def sinh(x: Decimal) -> Decimal:
    """Return (e**x - e**-x) / 2."""
    power = min(max(x, Decimal(-FAR)), Decimal(FAR)).exp()
    return (power - 1 / power) / 2


@_of_decimals
def _cosh(x: Decimal) -> Decimal:
    power = min(abs(x), Decimal(FAR)).exp()
    return (power + 1 / power) / 2


def _angle(x: Decimal) -> Decimal:
    """Compute the arc tangent: halve the angle until its series is short."""
    halvings = 0
    while abs(x) > SMALL:
        x /= 1 + (1 + x * x).sqrt()
        halvings += 1
    power = total = x
    n, smallest = 1, abs(x).scaleb(-getcontext().prec)
    while abs(power) > smallest:
        power, n = -power * x * x, n + 2
        total += power / n
    found: Decimal = total * 2**halvings
    return found


atan: Function = _of_decimals(_angle)


@_of_decimals
def _asin(x: Decimal) -> Decimal:
    # The formula below divides by 0 here.
    if abs(x) == 1:
        return x * pi(getcontext().prec) / 2
    # The product keeps the digits near 1 that 1 - x² would lose.
    return _angle(x / ((1 - x) * (1 + x)).sqrt())


@_of_decimals
def _acos(x: Decimal) -> Decimal:
    if x == -1:
        return pi(getcontext().prec)
    return 2 * _angle(((1 - x) / (1 + x)).sqrt())


@_of_decimals
def asinh(x: Decimal) -> Decimal:
    """Return the inverse of `sinh` at x."""
    # The logarithm of |x| + ... does not cancel, as it would for negative x.
    return (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x)


@_of_decimals
def _acosh(x: Decimal) -> Decimal:
    return (x + ((x - 1) * (x + 1)).sqrt()).ln()


@_of_decimals
def _atanh(x: Decimal) -> Decimal:
    return ((1 + x) / (1 - x)).ln() / 2


@lru_cache(maxsize=1024)
def pi(digits: int) -> Decimal:
    """Compute π by Machin's formula."""
    with precision(digits + 10):
        return 16 * _atan_of_inverse(5) - 4 * _atan_of_inverse(239)


def _atan_of_inverse(n: int) -> Decimal:
    """Return the arc tangent of 1 / n."""
    total, power, k = Decimal(0), Decimal(1) / n, 0
    while abs(power) > Decimal(10) ** -getcontext().prec:
        total += power / (2 * k + 1)
        power, k = -power / (n * n), k + 1
    return total


cos: Function = _at_zero(1, _of_decimals(_cosine))
cosh: Function = _at_zero(1, _cosh)
sqrt = Partial(_root, lambda x: x >= 0, "of 0 or more")
reciprocal = Partial(lambda x: 1 / x, lambda x: x != 0, "other than 0")
log = Partial(_of_decimals(Decimal.ln), lambda x: x > 0, "above 0")
log2 = Partial(_log2, lambda x: x > 0, "above 0")
log10 = Partial(_of_decimals(Decimal.log10), lambda x: x > 0, "above 0")
log1p = Partial(_log1p, lambda x: x > -1, "above -1")
asin = Partial(_asin, lambda x: abs(x) <= 1, "from -1 to 1")
acos = Partial(_acos, lambda x: abs(x) <= 1, "from -1 to 1")
acosh = Partial(_acosh, lambda x: x >= 1, "of 1 or more")
atanh = Partial(_atanh, lambda x: abs(x) < 1, "between -1 and 1")


#: Digits of π.
PI_DIGITS = 140
#: Beyond this erfc is below `LEAST`, too small for any grid to resolve.
FUNCTION_FAR = 31
# Not 0: where x is a tie, gelu(x) must stay just below it.
LEAST = Fraction(1, 10**417)
# 1 - erf loses as many digits as erfc(FUNCTION_FAR) has zeros, 417.
#: Digits of π for erf.
ERF_DIGITS = 500
#: Constants of selu as float64 numbers, Klambauer et al. 2017.
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def silu(x: Fraction) -> Fraction:
    """Return x · sigmoid(x)."""
    return x * sigmoid(x)


def mish(x: Fraction) -> Fraction:
    """Return x · tanh(log(1 + e**x))."""
    # tanh(log(y)) = (y² - 1) / (y² + 1), so one power is enough.
    square = (1 + exp(x)) ** 2
    return x * (square - 1) / (square + 1)


def softsign(x: Fraction) -> Fraction:
    """Return x / (1 + abs(x))."""
    return x / (1 + abs(x))


@lru_cache(maxsize=256)
def leaky_relu(slope: float) -> Function:
    """Return the function x -> x where x > 0, else slope · x."""
    return Piecewise((0,), ((0, exactly(slope)), (0, 1)))


@lru_cache(maxsize=256)
def elu(alpha: float, scale: float = 1.0) -> Function:
    """Return the function x -> scale · (x if x > 0 else alpha · (e**x - 1))."""
    low, factor = exactly(alpha), exactly(scale)

    def function(x: Fraction) -> Fraction:
        if x > 0:
            return factor * x
        return factor * low * _expm1(x)

    return function


def _expm1(x: Fraction) -> Fraction:
    """Return e**x - 1, to all digits near 0; it is above -1 for any x."""
    lost = max(0, x.denominator.bit_length() - abs(x.numerator).bit_length())
    return exp(x, DIGITS + lost) - 1


#: scale · elu(x).
selu: Function = elu(SELU_ALPHA, SELU_SCALE)


@lru_cache(maxsize=256)
def celu(alpha: float) -> Function:
    """Return the function x -> max(x, 0) + min(0, alpha · (e**(x / alpha) - 1))."""
    slope = exactly(alpha)
    return lambda x: max(x, Fraction(0)) + min(Fraction(0), slope * _expm1(x / slope))


@lru_cache(maxsize=256)
def softplus(beta: float, threshold: float) -> Function:
    """Return the function x -> log(1 + e**(beta · x)) / beta.

    Where beta · x is above `threshold` the function returns x, as PyTorch defines it.
    """
    slope = exactly(beta)

    def function(x: Fraction) -> Fraction:
        return x if slope * x > threshold else _log1p_exp(slope * x) / slope

    return function


def logsigmoid(x: Fraction) -> Fraction:
    """Return -log(1 + e**-x)."""
    return -_log1p_exp(-x)


def _log1p_exp(x: Fraction) -> Fraction:
    """Return log(1 + e**x)."""
    # Below 10**-DIGITS the logarithm loses all digits; two terms of its series do not.
    power = exp(-abs(x))
    is_small = power < Fraction(1, 10**DIGITS)
    tail = power - power * power / 2 if is_small else log1p(power)
    return max(x, Fraction(0)) + tail


def erf(x: Fraction) -> Fraction:
    """Return 2/√π · ∫ e**-t² dt from 0 to x."""
    return _erf_of_root(x * x, x < 0)


def gelu(x: Fraction) -> Fraction:
    """Return x · (1 + erf(x / √2)) / 2."""
    return x * (1 + _erf_of_root(x * x / 2, x < 0)) / 2


def gelu_tanh(x: Fraction) -> Fraction:
    """Return x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2."""
    with precision(PI_DIGITS):
        root = Fraction((2 / pi(PI_DIGITS)).sqrt())
    return x * (1 + tanh(root * (x + Fraction("0.044715") * x**3))) / 2


def _erf_of_root(square: Fraction, is_negative: bool) -> Fraction:
    """Return erf(√s), s = `square`, or its negative.

    The series is 2/√π · e**-s · sum of 2ⁿ z²ⁿ⁺¹ / (2n + 1)!!, z = √s. The argument is
    a square because x / √2 is not rational.
    """
    sign = -1 if is_negative else 1
    if square > FUNCTION_FAR * FUNCTION_FAR:
        return sign * (1 - LEAST)
    # 1 - erf is about e**-s, which has s / log(10) zeros: take that many more digits.
    digits = DIGITS + 5 + int(square * 7 / 16)
    with precision(digits):
        s = Decimal(square.numerator) / Decimal(square.denominator)
        term = total = s.sqrt()
        n = 0
        while term > total * Decimal(10) ** -digits:
            n += 1
            term = term * 2 * s / (2 * n + 1)
            total += term
        return sign * Fraction(2 / pi(ERF_DIGITS).sqrt() * (-s).exp() * total)


#: The forms of gelu, by the value of `gelu(approximate=)`.
GELUS: dict[str, Callable[[Fraction], Fraction]] = {"none": gelu, "tanh": gelu_tanh}
