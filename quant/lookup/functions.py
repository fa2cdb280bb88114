"""Functions of activations in rational numbers, to more digits than any grid sees."""

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

# Elementary functions of rational numbers, to more digits than any grid sees.
#
# What is rational is exact: roots of squares, logarithms of powers of the base.

#: Below it a series takes few terms.
SMALL = Decimal("0.05")


def _of_decimals(function: Callable[[Decimal], Decimal]) -> Function:
    """`function` of a rational number.

    It has as many digits more as bits lie between x and 1. Near 0 these tell sin(x)
    from x, which x³ / 6 is between, and far from 0 they hold the whole turns.
    """

    @wraps(function)
    def of_rational(x: Fraction) -> Fraction:
        far = abs(x.numerator.bit_length() - x.denominator.bit_length())
        with precision(DIGITS + far):
            return Fraction(function(Decimal(x.numerator) / Decimal(x.denominator)))

    return of_rational


def _at_zero(value: int, function: Function) -> Function:
    """`function`, which is rational at 0 only."""
    return lambda x: function(x) if x else Fraction(value)


def _root(x: Fraction) -> Fraction:
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
    """e**x - 1."""
    return min(x, Decimal(FAR)).exp() - 1


def _near(x: Decimal) -> Decimal:
    """x without whole turns, from -π to π."""
    return x.remainder_near(2 * pi(getcontext().prec))


def _sine(x: Decimal) -> Decimal:
    """x - x³ / 3! + x⁵ / 5! - ..."""
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
    """The sine of x in radians."""
    return _sine(x)


@_of_decimals
def tan(x: Decimal) -> Decimal:
    """The tangent of x in radians."""
    return _sine(x) / _cosine(x)


@_of_decimals
def sinh(x: Decimal) -> Decimal:
    """(e**x - e**-x) / 2."""
    power = min(max(x, Decimal(-FAR)), Decimal(FAR)).exp()
    return (power - 1 / power) / 2


@_of_decimals
def _cosh(x: Decimal) -> Decimal:
    power = min(abs(x), Decimal(FAR)).exp()
    return (power + 1 / power) / 2


def _angle(x: Decimal) -> Decimal:
    """The arc tangent, by half angles until its series is short."""
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
    if abs(x) == 1:
        return x * pi(getcontext().prec) / 2
    return _angle(x / ((1 - x) * (1 + x)).sqrt())


@_of_decimals
def _acos(x: Decimal) -> Decimal:
    if x == -1:
        return pi(getcontext().prec)
    return 2 * _angle(((1 - x) / (1 + x)).sqrt())


@_of_decimals
def asinh(x: Decimal) -> Decimal:
    """The inverse of `sinh`."""
    return (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x)


@_of_decimals
def _acosh(x: Decimal) -> Decimal:
    return (x + ((x - 1) * (x + 1)).sqrt()).ln()


@_of_decimals
def _atanh(x: Decimal) -> Decimal:
    return ((1 + x) / (1 - x)).ln() / 2


@lru_cache(maxsize=1024)
def pi(digits: int) -> Decimal:
    """π by Machin's formula."""
    with precision(digits + 10):
        return 16 * _atan_of_inverse(5) - 4 * _atan_of_inverse(239)


def _atan_of_inverse(n: int) -> Decimal:
    total, power, k = Decimal(0), Decimal(1) / n, 0
    while abs(power) > Decimal(10) ** -getcontext().prec:
        total += power / (2 * k + 1)
        power, k = -power / (n * n), k + 1
    return total


cos: Function = _at_zero(1, _of_decimals(_cosine))
cosh: Function = _at_zero(1, _cosh)
sqrt = Partial(_root, lambda x: x >= 0, "from 0 on")
reciprocal = Partial(lambda x: 1 / x, lambda x: x != 0, "other than 0")
log = Partial(_of_decimals(Decimal.ln), lambda x: x > 0, "above 0")
log2 = Partial(_log2, lambda x: x > 0, "above 0")
log10 = Partial(_of_decimals(Decimal.log10), lambda x: x > 0, "above 0")
log1p = Partial(_log1p, lambda x: x > -1, "above -1")
asin = Partial(_asin, lambda x: abs(x) <= 1, "from -1 to 1")
acos = Partial(_acos, lambda x: abs(x) <= 1, "from -1 to 1")
acosh = Partial(_acosh, lambda x: x >= 1, "from 1 on")
atanh = Partial(_atanh, lambda x: abs(x) < 1, "between -1 and 1")


#: Digits of π.
PI_DIGITS = 140
#: Past this erfc is below 10**-417, and only its sign tells on any grid.
FUNCTION_FAR = 31
LEAST = Fraction(1, 10**417)
#: Digits of π for erf, where 1 - erf loses as many as erfc(FAR) has zeros.
ERF_DIGITS = 500
#: Klambauer et al. 2017, as float64.
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def silu(x: Fraction) -> Fraction:
    """x · sigmoid(x)."""
    return x * sigmoid(x)


def mish(x: Fraction) -> Fraction:
    """x · tanh(log(1 + e**x)), which is rational in e**x."""
    square = (1 + exp(x)) ** 2
    return x * (square - 1) / (square + 1)


def softsign(x: Fraction) -> Fraction:
    """x / (1 + abs(x))."""
    return x / (1 + abs(x))


@lru_cache(maxsize=256)
def leaky_relu(slope: float) -> Function:
    """x -> x where x > 0, else slope · x."""
    low = exactly(slope)
    return lambda x: x if x > 0 else low * x


@lru_cache(maxsize=256)
def elu(alpha: float, scale: float = 1.0) -> Function:
    """x -> scale · (x where x > 0, else alpha · (e**x - 1))."""
    low, factor = exactly(alpha), exactly(scale)

    def function(x: Fraction) -> Fraction:
        if x > 0:
            return factor * x
        return factor * low * _expm1(x)

    return function


def _expm1(x: Fraction) -> Fraction:
    """e**x - 1, to all digits near 0, and never -1 however far below."""
    lost = max(0, x.denominator.bit_length() - abs(x.numerator).bit_length())
    return exp(x, DIGITS + lost) - 1


#: scale · elu(x).
selu: Function = elu(SELU_ALPHA, SELU_SCALE)


@lru_cache(maxsize=256)
def celu(alpha: float) -> Function:
    """x -> max(x, 0) + min(0, alpha · (e**(x / alpha) - 1))."""
    slope = exactly(alpha)
    return lambda x: max(x, Fraction(0)) + min(Fraction(0), slope * _expm1(x / slope))


@lru_cache(maxsize=256)
def softplus(beta: float, threshold: float) -> Function:
    """x -> log(1 + e**(beta · x)) / beta, but x where beta · x is above `threshold`."""
    slope = exactly(beta)

    def function(x: Fraction) -> Fraction:
        return x if slope * x > threshold else _log1p_exp(slope * x) / slope

    return function


def logsigmoid(x: Fraction) -> Fraction:
    """-log(1 + e**-x)."""
    return -_log1p_exp(-x)


def _log1p_exp(x: Fraction) -> Fraction:
    """log(1 + e**x); below 10**-DIGITS by two terms of its series."""
    power = exp(-abs(x))
    is_small = power < Fraction(1, 10**DIGITS)
    tail = power - power * power / 2 if is_small else log1p(power)
    return max(x, Fraction(0)) + tail


def erf(x: Fraction) -> Fraction:
    """2/√π · ∫ e**-t² dt from 0 to x."""
    return _erf_of_root(x * x, x < 0)


def gelu(x: Fraction) -> Fraction:
    """x · (1 + erf(x / √2)) / 2."""
    return x * (1 + _erf_of_root(x * x / 2, x < 0)) / 2


def gelu_tanh(x: Fraction) -> Fraction:
    """x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2."""
    with precision(PI_DIGITS):
        root = Fraction((2 / pi(PI_DIGITS)).sqrt())
    return x * (1 + tanh(root * (x + Fraction("0.044715") * x**3))) / 2


def _erf_of_root(square: Fraction, is_negative: bool) -> Fraction:
    """erf(√square), or its negative: 2/√π · e**-s · sum of 2ⁿ z²ⁿ⁺¹ / (2n + 1)!!.

    1 - erf is about e**-s, which has s / log(10) zeros: as many digits more.
    """
    sign = -1 if is_negative else 1
    if square > FUNCTION_FAR * FUNCTION_FAR:
        return sign * (1 - LEAST)
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


#: By the name that `gelu(approximate=)` takes.
GELUS: dict[str, Callable[[Fraction], Fraction]] = {"none": gelu, "tanh": gelu_tanh}
