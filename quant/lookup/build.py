"""Functions of one 8-bit code as tables of 256 codes, built from the exact function.

Whatever the function, a table is exact, and one gather runs it.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.quant.qparams import QParams

Table = npt.NDArray[np.uint8]
Function = Callable[[Fraction], Fraction]
#: Digits of transcendental functions. A double rounding would need a value within
#: 10**-40 of a tie; sigmoid, tanh and exp of a rational other than 0 are never ties.
DIGITS = 50
#: Steps beyond this saturate on any grid.
LIMIT = 2**40
#: Past this e**x is 0 or infinity for any grid.
FAR = 2000


@dataclass(frozen=True)
class Partial:
    """A function that has no value for some numbers; here it is 0 there.

    Args:
        function: of the numbers that have one.
        has: whether a number is one of them.
        where: which ones these are, as `above 0`.
    """

    function: Function
    has: Callable[[Fraction], bool]
    where: str

    def __call__(self, x: Fraction) -> Fraction:
        return self.function(x) if self.has(x) else Fraction(0)


def precision(digits: int) -> AbstractContextManager[Context]:
    """Decimals of so many digits, whatever the context of the caller."""
    return localcontext(Context(prec=digits))


def is_number(value: Any) -> bool:
    """Whether it is a real number, and finite, however large."""
    if not isinstance(value, Real):
        return False
    number: Any = value
    return bool(-math.inf < number < math.inf)


def exactly(number: Any) -> Fraction:
    """A finite number as the rational that it is; NumPy's, too, which would wrap."""
    if isinstance(number, Integral):
        return Fraction(int(number))
    return Fraction(number if isinstance(number, Rational) else float(number))


def relu(x: Fraction) -> Fraction:
    """max(x, 0)."""
    return max(x, Fraction(0))


def relu6(x: Fraction) -> Fraction:
    """min(max(x, 0), 6)."""
    return min(max(x, Fraction(0)), Fraction(6))


def hardswish(x: Fraction) -> Fraction:
    """x · relu6(x + 3) / 6."""
    return x * relu6(x + 3) / 6


def magnitude(x: Fraction) -> Fraction:
    """|x|."""
    return abs(x)


def sign(x: Fraction) -> Fraction:
    """-1, 0 or 1."""
    return Fraction((x > 0) - (x < 0))


def square(x: Fraction) -> Fraction:
    """x · x."""
    return x * x


def floor(x: Fraction) -> Fraction:
    """The largest integer that is at most x."""
    return Fraction(math.floor(x))


def ceil(x: Fraction) -> Fraction:
    """The smallest integer that is at least x."""
    return Fraction(math.ceil(x))


def trunc(x: Fraction) -> Fraction:
    """x without its fraction."""
    return Fraction(int(x))


def nearest(x: Fraction) -> Fraction:
    """The integer nearest to x, of two the even one."""
    return Fraction(round(x))


@lru_cache(maxsize=256)
def hardsigmoid(alpha: float, beta: float) -> Function:
    """x -> min(max(alpha · x + beta, 0), 1)."""
    slope, offset = exactly(alpha), exactly(beta)
    return lambda x: min(max(slope * x + offset, Fraction(0)), Fraction(1))


@lru_cache(maxsize=256)
def clip(low: float | None, high: float | None) -> Function:
    """x -> min(max(x, low), high)."""

    def function(x: Fraction) -> Fraction:
        x = x if low is None else max(x, exactly(low))
        return x if high is None else min(x, exactly(high))

    return function


@lru_cache(maxsize=4096)
def affine(factor: Fraction, offset: Fraction) -> Function:
    """x -> factor · x + offset."""
    return lambda x: factor * x + offset


def exp(x: Fraction, digits: int = DIGITS) -> Fraction:
    """e**x to `digits` digits."""
    with precision(digits):
        bounded = min(max(x, Fraction(-FAR)), Fraction(FAR))
        power = Decimal(bounded.numerator) / Decimal(bounded.denominator)
        return Fraction(power.exp())


def sigmoid(x: Fraction) -> Fraction:
    """1 / (1 + e**-x)."""
    return 1 / (1 + exp(-x))


def tanh(x: Fraction) -> Fraction:
    """(e**2x - 1) / (e**2x + 1).

    Near 0 it is x - x**3 / 3: telling it from x takes three times the digits that lie
    between x and 1.
    """
    lost = max(0, x.denominator.bit_length() - x.numerator.bit_length())
    power = exp(2 * x, DIGITS + lost)
    return (power - 1) / (power + 1)


def build(function: Function, source: QParams, target: QParams) -> Table:
    """The codes of `function` for every code of `source`, rounded once, saturated.

    Returns:
        uint8 [256]: bytes of the target codes, indexed by the bytes of the source's.

    Example:
        >>> from mdtensor.quant.dtypes import quint8
        >>> grid = QParams(0.5, 10, dtype=quint8)
        >>> build(relu, grid, grid)[8:13].tolist()
        [10, 10, 10, 11, 12]
    """
    table = np.empty(256, np.uint8)
    places = np.arange(int(source.dtype.minimum), source.maximum + 1) & 255
    table[places] = np.array(codes(function, source, target)) & 255
    return table


def codes(function: Function, source: QParams, target: QParams) -> list[int]:
    """The codes of `function` for every code of the type of `source`, in order."""
    low, high, zero = target.minimum, target.maximum, target.zero
    return [min(max(n + zero, low), high) for n in steps(function, source, target)]


def steps(function: Function, source: QParams, target: QParams) -> list[int]:
    """The same as steps from real 0, which may be past the ends; cut to ±2**40."""
    codes = range(int(source.dtype.minimum), source.maximum + 1)
    return steps_of(function, codes, source, target)


def steps_of(
    function: Function, codes: Iterable[int], source: QParams, target: QParams
) -> list[int]:
    """The same for some of the codes."""
    zero, scale, step = source.zero, source.fraction, target.fraction
    numbers = (function((code - zero) * scale) for code in codes)
    return [min(max(round(n / step), -LIMIT), LIMIT) for n in numbers]


@lru_cache(maxsize=256)
def undefined(function: Partial, source: QParams) -> npt.NDArray[np.bool_]:
    """For which bytes of codes of `source` the function has no value."""
    table = np.zeros(256, np.bool_)
    for code in range(int(source.dtype.minimum), source.maximum + 1):
        table[code & 255] = not function.has((code - source.zero) * source.fraction)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=4096)
def cached(function: Function, source: QParams, target: QParams) -> Table:
    """`build`, remembered."""
    table = build(function, source, target)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=2**16)
def decay(scale: Fraction, steps: int) -> Fraction:
    """e**(-scale · steps) to DIGITS digits, remembered."""
    return exp(-steps * scale)
