"""Functions of activations in rational numbers, to more digits than any grid sees."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from mdtensor.quant.elementary import log1p, pi as pi
from mdtensor.quant.lookup.build import (
    DIGITS,
    Function,
    exactly,
    exp,
    precision,
    sigmoid,
    tanh,
)

#: Digits of π.
PI_DIGITS = 140
#: Past this erfc is below 10**-417, and only its sign tells on any grid.
FAR = 31
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
    if square > FAR * FAR:
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
