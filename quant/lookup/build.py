"""8-bit lookup tables: 256 codes, each rounded once from the exact value.

Any function of one code can be a table, which one gather runs. The functions here take
and return rational numbers, so that no float error reaches a code.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, wraps
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.quant.lookup.piecewise import Piecewise
from mdtensor.quant.qparams import QParams

Table = npt.NDArray[np.uint8]
Function = Callable[[Fraction], Fraction]
# Rounding to 50 digits and then to a code goes wrong only within 10**-40 of a tie, and
# sigmoid, tanh and exp of a rational other than 0 are never ties.
#: Decimal digits of transcendental functions.
DIGITS = 50
#: A larger number of steps from real 0 saturates on any grid.
LIMIT = 2**40
# Without a bound, exp of a large code would have thousands of digits.
#: Beyond this e**x is 0 or infinity on any grid.
FAR = 2000


@dataclass(frozen=True)
class Partial:
    """A function with a domain, such as the logarithm; it returns 0 outside of it.

    Args:
        function: takes numbers of the domain.
        has: returns whether a number is in the domain.
        where: the domain in words for errors, such as `above 0`.
    """

    function: Function
    has: Callable[[Fraction], bool]
    where: str

    def __call__(self, x: Fraction) -> Fraction:
        # A table needs an entry for each code; calls raise if such a code occurs.
        return self.function(x) if self.has(x) else Fraction(0)


def precision(digits: int) -> AbstractContextManager[Context]:
    """Return a block in which decimals have `digits` digits.

    The block ignores the decimal context of the caller, such as its traps and rounding.
    """
    return localcontext(Context(prec=digits))


def is_number(value: object) -> bool:
    """Return whether `value` is a finite real number, however large."""
    if not isinstance(value, Real):
        return False
    # `math.isfinite` would overflow on large integers and fractions.
    number: Any = value
    return bool(-math.inf < number < math.inf)


def exactly(number: Any) -> Fraction:
    """Return a finite number as an exact fraction.

    Python and NumPy numbers are accepted.
    """
    # A fraction of a NumPy integer would compute in its 64 bits and wrap.
    if isinstance(number, Integral):
        return Fraction(int(number))
    return Fraction(number if isinstance(number, Rational) else float(number))


#: max(x, 0)
relu = Piecewise((0,), ((0,), (0, 1)))
#: x · min(max(x + 3, 0), 6) / 6
hardswish = Piecewise((-3, 3), ((0,), (0, Fraction(1, 2), Fraction(1, 6)), (0, 1)))
#: |x|
magnitude = Piecewise((0,), ((0, -1), (0, 1)))
#: x · x
square = Piecewise((), ((0, 0, 1),))


def sign(x: Fraction) -> Fraction:
    """Return the sign of x: -1, 0 or 1."""
    return Fraction((x > 0) - (x < 0))


def floor(x: Fraction) -> Fraction:
    """Return the largest integer that is at most x."""
    return Fraction(math.floor(x))


def ceil(x: Fraction) -> Fraction:
    """Return the smallest integer that is at least x."""
    return Fraction(math.ceil(x))


def trunc(x: Fraction) -> Fraction:
    """Return x rounded toward 0."""
    return Fraction(int(x))


def nearest(x: Fraction) -> Fraction:
    """Return the integer nearest to x; a tie goes to the even one."""
    return Fraction(round(x))


# The functions below are cached so that equal options give one object: the cache of
# `lookup_table` has the function in its key.
@lru_cache(maxsize=256)
def hardsigmoid(alpha: float, beta: float) -> Function:
    """Return the function x -> min(max(alpha · x + beta, 0), 1)."""
    slope, offset = exactly(alpha), exactly(beta)
    if slope == 0:
        return Piecewise((), ((min(max(offset, Fraction(0)), Fraction(1)),),))
    bounds, pieces = (
        (-offset / slope, (1 - offset) / slope),
        ((0,), (offset, slope), (1,)),
    )
    if slope < 0:
        bounds, pieces = bounds[::-1], pieces[::-1]
    return Piecewise(bounds, pieces)


@lru_cache(maxsize=256)
def clip(low: float | None, high: float | None) -> Function:
    """Return the function x -> min(max(x, low), high)."""
    least, most = (None if end is None else exactly(end) for end in (low, high))
    if least is not None and most is not None and least >= most:
        return Piecewise((), ((most,),))
    below = () if least is None else (least,)
    above = () if most is None else (most,)
    pieces = (*((end,) for end in below), (0, 1), *((end,) for end in above))
    return Piecewise((*below, *above), pieces)


@lru_cache(maxsize=4096)
def affine(factor: Fraction, offset: Fraction) -> Function:
    """Return the function x -> factor · x + offset."""
    return Piecewise((), ((offset, factor),))


def exp(x: Fraction, digits: int = DIGITS) -> Fraction:
    """Return e**x to `digits` digits."""
    # A grid with a large scale has thousands of codes out there.
    return _exp_of_far(x > 0, digits) if abs(x) >= FAR else _exp(x, digits)


def _exp(x: Fraction, digits: int) -> Fraction:
    with precision(digits):
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


@lru_cache(maxsize=256)
def _exp_of_far(is_above: bool, digits: int) -> Fraction:
    """Return e**FAR or e**-FAR."""
    return _exp(Fraction(FAR if is_above else -FAR), digits)


def _same_when_far(function: Function) -> Function:
    """Return a function of e**x that computes its value for |x| ≥ FAR once."""

    @lru_cache(maxsize=2)
    def end(is_above: bool) -> Fraction:
        return function(Fraction(FAR if is_above else -FAR))

    @wraps(function)
    def found(x: Fraction) -> Fraction:
        return end(x > 0) if abs(x) >= FAR else function(x)

    return found


@_same_when_far
def sigmoid(x: Fraction) -> Fraction:
    """Return 1 / (1 + e**-x)."""
    return 1 / (1 + exp(-x))


@_same_when_far
def tanh(x: Fraction) -> Fraction:
    """Return (e**2x - 1) / (e**2x + 1)."""
    # Near 0 the result differs from x by x**3 / 3 only, so it needs three times the
    # digits between x and 1. `lost` counts bits, which are more than that.
    lost = max(0, x.denominator.bit_length() - x.numerator.bit_length())
    power = exp(2 * x, DIGITS + lost)
    return (power - 1) / (power + 1)


def build(function: Function, source: QParams, target: QParams) -> Table:
    """Compute the code of `function` for every code of `source`.

    Results are rounded once, half to even, and saturate.

    Returns:
        uint8 [256]: the byte of each target code, at the index that the byte of the
            source code is.

    Example:
        >>> from mdtensor.quant.dtypes import quint8
        >>> grid = QParams(0.5, 10, dtype=quint8)
        >>> build(relu, grid, grid)[8:13].tolist()
        [10, 10, 10, 11, 12]
    """
    table = np.empty(256, np.uint8)
    # Signed codes index the table by their bytes, so -1 is at 255.
    places = np.arange(int(source.dtype.minimum), source.maximum + 1) & 255
    table[places] = np.array(codes(function, source, target)) & 255
    return table


def codes(function: Function, source: QParams, target: QParams) -> list[int]:
    """Compute the code of `function` for every code of the type of `source`, in order.

    Results are rounded once, half to even, and saturate.
    """
    low, high, zero = target.minimum, target.maximum, target.zero
    return [min(max(n + zero, low), high) for n in steps(function, source, target)]


def steps(function: Function, source: QParams, target: QParams) -> list[int]:
    """Compute `function` for every code of `source`, in order, without saturation.

    Returns:
        Rounded numbers of steps of `target` from real 0, clipped to ±2**40.
    """
    codes = range(int(source.dtype.minimum), source.maximum + 1)
    return steps_of(function, codes, source, target)


def steps_of(
    function: Function, codes: Iterable[int], source: QParams, target: QParams
) -> list[int]:
    """Compute the same as `steps` for the given `codes` only."""
    zero, scale, step = source.zero, source.fraction, target.fraction
    numbers = [code - zero for code in codes]
    if isinstance(function, Piecewise):
        found = function.steps(numbers, scale, step)
    else:
        found = [round(function(n * scale) / step) for n in numbers]
    return [min(max(n, -LIMIT), LIMIT) for n in found]


@lru_cache(maxsize=256)
def outside_domain(function: Partial, source: QParams) -> npt.NDArray[np.bool_]:
    """Return which codes of `source` are outside the domain of the function.

    Returns:
        bool [256], indexed by the byte of a code.
    """
    table = np.zeros(256, np.bool_)
    for code in range(int(source.dtype.minimum), source.maximum + 1):
        table[code & 255] = not function.has((code - source.zero) * source.fraction)
    # The cache returns this same array to every caller.
    table.flags.writeable = False
    return table


# A transcendental table takes milliseconds to build, and models repeat their grids.
@lru_cache(maxsize=4096)
def lookup_table(function: Function, source: QParams, target: QParams) -> Table:
    """Return `build(function, source, target)`, cached and read-only."""
    table = build(function, source, target)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=2**16)
def decay(scale: Fraction, steps: int) -> Fraction:
    """Return e**(-scale · steps) to `DIGITS` digits, cached."""
    return exp(-steps * scale)
