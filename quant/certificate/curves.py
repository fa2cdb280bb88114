"""Functions of one number in fractions, with e**x and erf to 60 digits."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from mdtensor.kernels.rescale import float32_of

Function = Callable[[Fraction], Fraction]
#: Digits of e**x and erf; no value of a curve is that close to a tie.
DIGITS = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230782")
#: Source: Klambauer et al. 2017.
SELU_ALPHA, SELU_SCALE = map(Fraction, (1.6732632423543772, 1.0507009873554805))
#: The options of the functions.
OPTIONS: dict[str, dict[str, Any]] = {
    "clip": {"min": -0.7, "max": 2.3},
    "hardsigmoid": {"alpha": 0.15625, "beta": 0.375},
    "elu": {"alpha": 1.3},
    "leaky_relu": {"negative_slope": 0.1},
}


def exp(x: Fraction) -> Fraction:
    """Compute e**x to `DIGITS` digits."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


def sigmoid(x: Fraction) -> Fraction:
    """Compute 1 / (1 + e**-x)."""
    return 1 / (1 + exp(-x))


def tanh(x: Fraction) -> Fraction:
    """Compute tanh by the sigmoid."""
    return 2 * sigmoid(2 * x) - 1


def mish(x: Fraction) -> Fraction:
    """Compute x · tanh(log(1 + e**x))."""
    power = exp(x)
    return x * (1 - 2 / (1 + (1 + power) ** 2))


def gelu(x: Fraction) -> Fraction:
    """Compute x · (1 + erf(x / √2)) / 2, by the series of erf.

    The series is 2/√π · sum of (-1)ⁿ z²ⁿ⁺¹ / (n! (2n + 1)) for z = x / √2. Its terms
    are below e**z², so cancellation loses at most as many digits as e**z² has.
    """
    square = x * x / 2
    with localcontext() as context:
        # More digits for what cancellation loses: e**z² has fewer than z² digits.
        context.prec = DIGITS + int(square)
        s = Decimal(square.numerator) / Decimal(square.denominator)
        power = total = Decimal(1)
        n = 0
        while abs(power) > Decimal(10) ** -DIGITS:
            n += 1
            power = -power * s / n
            total += power / (2 * n + 1)
        erf = Fraction((2 / PI).sqrt() * total) * x
    return x * (1 + erf) / 2


def elu(x: Fraction, alpha: Fraction) -> Fraction:
    """Compute x above 0, else alpha · (e**x - 1)."""
    return x if x > 0 else alpha * (exp(x) - 1)


def between(x: Fraction, low: Any, high: Any) -> Fraction:
    """Clip a number to low .. high."""
    return min(max(x, Fraction(low)), Fraction(high))


#: The functions by the names of operations, with the options above.
FUNCTIONS: dict[str, Function] = {
    "relu": lambda x: max(x, Fraction(0)),
    "relu6": lambda x: between(x, 0, 6),
    "clip": lambda x: between(x, *OPTIONS["clip"].values()),
    "hardsigmoid": lambda x: between(x * 5 / 32 + Fraction(3, 8), 0, 1),
    "hardswish": lambda x: x * between(x + 3, 0, 6) / 6,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "exp": exp,
    "silu": lambda x: x * sigmoid(x),
    "mish": mish,
    "gelu": gelu,
    "elu": lambda x: elu(x, Fraction(1.3)),
    "selu": lambda x: SELU_SCALE * elu(x, SELU_ALPHA),
    "softsign": lambda x: x / (1 + abs(x)),
    "leaky_relu": lambda x: x if x > 0 else x * Fraction(0.1),
}
#: Functions that are never on a tie, except for 0, so that one grid is enough.
NEVER_TIES = ("exp", "silu", "mish", "gelu", "elu", "selu")


@cache
def value(name: str, scale: float, steps: int) -> np.float32:
    """Compute a function of a float32 number, rounded once to float32."""
    real = np.float32(scale) * np.float32(steps)
    found: np.float32 = float32_of(FUNCTIONS[name](Fraction(float(real))))
    return found
