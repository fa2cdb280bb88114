"""Wide: a 106-bit number for scalar functions.

Its value is (hi + lo) · 2**exponent with 1 ≤ |hi| < 2 and |lo| at most half a unit in
the last place of hi. The error of arithmetic is below 2**-100 of the result. Nothing
overflows or becomes subnormal, since the exponent is an integer. `float` rounds once,
half to even. Zeros, infinities and NaN are as in float64; hi holds them. In compiled
functions a Wide is a value in three registers.

Source: M. Joldes, J.-M. Muller, V. Popescu, "Tight and rigorous error bounds for basic
building blocks of double-word arithmetic", 2017.
"""

import math
import operator
from decimal import Decimal, localcontext
from numbers import Real
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import (
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    register_model,
)

from mdtensor.kernels import refusal
from mdtensor.kernels.cpu.user.pairs import compiled, fast_two_sum, two_prod, two_sum

INFINITY = math.inf
#: The exponent of infinities and NaN, above all others; 0 has its negative, below all.
ABOVE = 1 << 40
# At this distance a summand is far below the last place of the other one.
#: The least exponent of a summand, relative to the larger one.
FAR = -400
MANTISSA = 1 << 52
OPTIONS: Any = {"error_model": "numpy"}


# The exponent is an integer, because float64's would lose hundreds of units near its
# limits (decision 0022).
class Wide:
    """A 106-bit number with any exponent.

    Add, multiply, divide and compare it, with another Wide or with floats; the error is
    below 2**-100 of the result. `float(x)` rounds it once.

    Args:
        x: a float, an integer that a float represents, or another Wide.

    Example:
        >>> from mdtensor.wide import Wide
        >>> 0.1 * 3.0 - 0.3, float(Wide(0.1) * 3.0 - 0.3)
        (5.551115123125783e-17, 2.7755575615628914e-17)
        >>> float(Wide(1e300) * 1e300 / 1e300)
        1e+300

    Source: T. J. Dekker 1971; M. Joldes, J.-M. Muller, V. Popescu 2017.
    """

    __slots__ = ("exponent", "hi", "lo")

    hi: float
    lo: float
    exponent: int

    def __new__(cls, x: "Wide | float") -> "Wide":
        return x if isinstance(x, Wide) else widen(_as_float(x))

    def __repr__(self) -> str:
        return f"Wide({self.hi!r}, {self.lo!r}, {self.exponent})"

    def __float__(self) -> float:
        return round_to_float(self)

    def __add__(self, other: "Wide | float") -> "Wide":
        return add(self, Wide(other))

    def __radd__(self, other: "Wide | float") -> "Wide":
        return add(Wide(other), self)

    def __sub__(self, other: "Wide | float") -> "Wide":
        return add(self, neg(Wide(other)))

    def __rsub__(self, other: "Wide | float") -> "Wide":
        return add(Wide(other), neg(self))

    def __mul__(self, other: "Wide | float") -> "Wide":
        return mul(self, Wide(other))

    __rmul__ = __mul__

    def __truediv__(self, other: "Wide | float") -> "Wide":
        return div(self, Wide(other))

    def __rtruediv__(self, other: "Wide | float") -> "Wide":
        return div(Wide(other), self)

    def __neg__(self) -> "Wide":
        return neg(self)

    def __lt__(self, other: "Wide | float") -> bool:
        return less(self, Wide(other))

    def __gt__(self, other: "Wide | float") -> bool:
        return less(Wide(other), self)

    def __le__(self, other: "Wide | float") -> bool:
        return not_above(self, Wide(other))

    def __ge__(self, other: "Wide | float") -> bool:
        return not_above(Wide(other), self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Wide):
            return isinstance(other, Real) and equal(self, Wide(float(other)))
        return equal(self, other)

    def __hash__(self) -> int:
        return hash(float(self))


def _as_float(x: object) -> float:
    """Return a number as float64; raise for anything else, a text included."""
    try:
        if isinstance(x, (str, bytes, bytearray)):
            raise TypeError
        return float(x)  # type: ignore[arg-type]
    except OverflowError:
        problem, fix = "an integer is too large for float64", "Pass a float"
    except (TypeError, ValueError):
        problem = f"a Wide is made of a number, not of a {type(x).__name__}"
        fix = "Pass a float, an integer or a Wide"
    raise refusal.error(problem, fix, "Wide")


def parts(hi, lo, exponent):
    """Return a Wide of these parts, unchanged; in Python they may be NumPy numbers."""
    found = object.__new__(Wide)
    found.hi, found.lo, found.exponent = float(hi), float(lo), int(exponent)
    return found


@compiled
def power_of_two(exponent):
    """Return 2**exponent as float64; the result must be a normal number."""
    return float(np.int64((exponent + 1023) << 52).view(np.float64))


@compiled
def normal(hi, lo, exponent):
    """Return (hi + lo) · 2**exponent; |hi| ≥ |lo|; hi is 0, not finite, or normal."""
    if not 0.0 < abs(hi) < INFINITY:
        return parts(hi, 0.0, -ABOVE if hi == 0.0 else ABOVE)
    hi, lo = fast_two_sum(hi, lo)
    if hi == 0.0:
        return parts(hi, 0.0, -ABOVE)
    moved = ((np.float64(hi).view(np.int64) >> 52) & 0x7FF) - 1023
    scale = power_of_two(-moved)
    return parts(hi * scale, lo * scale, exponent + moved)


@compiled
def widen(x):
    """Return a float64 as a Wide."""
    # Scaled towards 1, neither a subnormal number nor its inverse scale occurs.
    away = -128 if abs(x) < 1.0 else 128
    return normal(x * power_of_two(-away), 0.0, away)


@compiled
def round_to_float(x):
    """Return the nearest float64, half to even."""
    if not 0.0 < abs(x.hi) < INFINITY:
        return x.hi
    if x.exponent > 1023:
        return math.copysign(INFINITY, x.hi)
    if x.exponent >= -1022:
        return x.hi * power_of_two(x.exponent)
    return math.copysign(_subnormal(x), x.hi)


@compiled
def _subnormal(x):
    """Return |x| < 2**-1022, rounded to a multiple of the smallest float64.

    The bits of the result are that multiple.
    """
    dropped = -1014 - x.exponent
    if dropped > 62:
        return 0.0
    # The part beyond the bits of hi matters only as a bit above or below a tie.
    side = x.lo * x.hi
    bits = (np.int64(abs(x.hi) * MANTISSA) << 8) + ((side > 0.0) - (side < 0.0))
    count, rest = bits >> dropped, bits & ((1 << dropped) - 1)
    half = 1 << (dropped - 1)
    count += rest > half or (rest == half and count & 1 == 1)
    return float(np.int64(count).view(np.float64))


@compiled
def add(x, y):
    """Return x + y."""
    exponent = max(x.exponent, y.exponent)
    of_x = power_of_two(max(x.exponent - exponent, FAR))
    of_y = power_of_two(max(y.exponent - exponent, FAR))
    hi, lo = two_sum(x.hi * of_x, y.hi * of_y)
    if not abs(hi) < INFINITY:
        return parts(hi, 0.0, ABOVE)
    more, least = two_sum(x.lo * of_x, y.lo * of_y)
    # -0 stays -0.
    if hi == 0.0 and more == 0.0:
        return parts(hi, 0.0, -ABOVE)
    hi, lo = fast_two_sum(hi, lo + more)
    return normal(hi, lo + least, exponent)


@compiled
def neg(x):
    """Return -x."""
    return parts(-x.hi, -x.lo, x.exponent)


# Only exact products are used, fused or by halves, so that every CPU gives the same
# bytes (decision 0022).
@compiled
def mul(x, y):
    """Return x · y."""
    hi, lo = two_prod(x.hi, y.hi)
    lo += x.hi * y.lo + x.lo * y.hi
    return normal(hi, lo, x.exponent + y.exponent)


@compiled
def div(x, y):
    """Return x / y; division by 0 is as in float64 and does not raise."""
    if y.hi == 0.0:
        return normal(x.hi * math.copysign(INFINITY, y.hi), 0.0, 0)
    quotient = x.hi / y.hi
    hi, lo = two_prod(quotient, y.hi)
    rest = ((x.hi - hi) - lo) + (x.lo - quotient * y.lo)
    return normal(quotient, rest / y.hi, x.exponent - y.exponent)


@compiled
def less(x, y):
    """Return whether x < y."""
    if x.exponent != y.exponent:
        return x.hi < 0.0 if x.exponent > y.exponent else y.hi > 0.0
    return x.hi < y.hi or (x.hi == y.hi and x.lo < y.lo)


@compiled
def equal(x, y):
    """Return whether x == y; equal numbers have equal parts."""
    return x.hi == y.hi and x.lo == y.lo and x.exponent == y.exponent


@compiled
def not_above(x, y):
    """Return whether x <= y."""
    return less(x, y) or equal(x, y)


class WideType(types.Type):
    """The type of a Wide in compiled code."""

    def __init__(self):
        super().__init__(name="Wide")


WIDE = WideType()
FIELDS = {"hi": types.float64, "lo": types.float64, "exponent": types.int64}


@register_model(WideType)
class WideModel(models.StructModel):
    """The struct of a Wide: three registers."""

    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, list(FIELDS.items()))


for _field in FIELDS:
    make_attribute_wrapper(WideType, _field, _field)


@intrinsic
def _pack(typing, hi, lo, exponent):
    """Return the struct of a Wide with these parts."""

    def code(context, builder, signature, arguments):
        found = cgutils.create_struct_proxy(WIDE)(context, builder)
        found.hi, found.lo, found.exponent = arguments
        return found._getvalue()

    return WIDE(*FIELDS.values()), code


@overload(parts)
def _parts(hi, lo, exponent):
    return lambda hi, lo, exponent: _pack(hi, lo, exponent)


@overload(Wide, jit_options=OPTIONS)
def _wide(x):
    if x == WIDE:
        return lambda x: x
    if isinstance(x, types.Integer | types.Float | types.Boolean):
        return lambda x: widen(np.float64(x))
    return None


@overload(float)
def _float(x):
    return (lambda x: round_to_float(x)) if x == WIDE else None


@overload(operator.neg)
def _neg(x):
    return (lambda x: neg(x)) if x == WIDE else None


def _overload(function, *symbols):
    """Let compiled operators of a Wide call `function`."""

    def choose(x, y):
        return function if WIDE in (x, y) else None

    for symbol in symbols:
        overload(symbol, jit_options=OPTIONS)(choose)


_overload(lambda x, y: add(Wide(x), Wide(y)), operator.add, operator.iadd)
_overload(lambda x, y: add(Wide(x), neg(Wide(y))), operator.sub, operator.isub)
_overload(lambda x, y: mul(Wide(x), Wide(y)), operator.mul, operator.imul)
_overload(lambda x, y: div(Wide(x), Wide(y)), operator.truediv, operator.itruediv)
_overload(lambda x, y: less(Wide(x), Wide(y)), operator.lt)
_overload(lambda x, y: less(Wide(y), Wide(x)), operator.gt)
_overload(lambda x, y: not_above(Wide(x), Wide(y)), operator.le)
_overload(lambda x, y: not_above(Wide(y), Wide(x)), operator.ge)
_overload(lambda x, y: equal(Wide(x), Wide(y)), operator.eq)
_overload(lambda x, y: not equal(Wide(x), Wide(y)), operator.ne)


# exp, log and log1p of 106-bit numbers err by less than 2**-67 of the result:
#
#     exp(x)     = 2**k · 2**(j / 256) · exp(r),   |r| ≤ ln(2) / 512
#     log(t + 1) = m · ln(2) + log(c) + log1p(s)
#     t + 1      = 2**m · c · (1 + s),             |s| ≤ 2**-8
#
# c is one of 256 numbers. It is 1 around t = 0, so that small results keep all their
# digits. Rounded to float64, results are off by 0.5001 units in the last place, also as
# subnormal numbers: the nearest float64 in all but one of thousands (decision 0022).
#
# Source: P. T. P. Tang, "Table-driven implementation of the exponential function in
# IEEE floating-point arithmetic", 1989, and of the logarithm, 1990; the chance of a
# wrong last bit: A. Ziv, "Fast evaluation of elementary mathematical functions", 1991.

#: Pieces of an octave, in both tables.
PIECES = 256
RATE = PIECES / math.log(2.0)
#: exp is 0 below -2**20 and infinite above 2**20.
MOST = 20
#: For |t| < 2**-110, 1 + t rounds to 1; above 2**110 it rounds to t.
NEGLIGIBLE = 110
#: Adding and subtracting this number rounds to an integer.
TO_INTEGER = 1.5 * 2.0**52
#: In bits of float64: the size of a piece, and the least number in the octave of c. It
#: is 150.5 pieces below 1, so that 1 lies in the middle of a piece.
PIECE = 1 << 44
LEAST = (1023 << 52) - 150 * PIECE - PIECE // 2


def _pair(value):
    """Return two float64 whose sum is a Decimal, to 106 bits."""
    hi = float(value)
    return hi, float(value - Decimal(hi))


def _short_pieces(value, bits, count):
    """Split a Decimal into `count` floats of few bits and a remainder.

    The products of these floats with small integers are exact.
    """
    found = []
    for _ in range(count):
        unit = Decimal(2) ** (math.frexp(float(value))[1] - bits)
        found.append(float(value // unit * unit))
        value -= Decimal(found[-1])
    return *found, float(value)


def _tables():
    """Return ln(2) / 256 in three parts, then 2**(j / 256), 1 / c and -log(1 / c)."""
    # Decimals make the tables, so that they do not depend on a C library.
    with localcontext(prec=60):
        step = Decimal(2).ln() / PIECES
        powers = [_pair((step * j).exp()) for j in range(PIECES)]
        bits = LEAST + PIECE // 2 + PIECE * np.arange(PIECES)
        inverse = [1.0 / c for c in bits.view(np.float64).tolist()]
        logs = [_pair(-Decimal(c).ln()) for c in inverse]
        return (*_short_pieces(step, 24, 2), *map(np.array, (powers, inverse, logs)))


STEP1, STEP2, STEP3, POWERS, INVERSE, LOGS = _tables()


@compiled
def exp(x: Wide | float) -> Wide:
    """Return e**x, with an error below 2**-67 of the result.

    Args:
        x: a float or a `Wide`; beyond ±2**20 the result is infinite or 0.

    Returns:
        A `Wide`; its `float` is off by at most 0.5001 units in the last place.

    Example:
        >>> from mdtensor.wide import exp
        >>> float(exp(1.0)), float(exp(-800.0) / exp(-801.0))
        (2.718281828459045, 2.718281828459045)

    Source: P. T. P. Tang 1989; libm, `exp`.
    """
    x = Wide(x)
    if not abs(x.hi) < math.inf or x.exponent >= MOST:
        return _far(x.hi)
    scale = power_of_two(max(x.exponent, -500))
    hi, lo = x.hi * scale, x.lo * scale
    steps = hi * RATE + TO_INTEGER - TO_INTEGER
    r, more = two_sum(hi - steps * STEP1, -(steps * STEP2))
    r, lo = fast_two_sum(r, more + (lo - steps * STEP3))
    # exp(r) - 1 = r + r²/2 + ...: only its largest term needs two float64.
    square = r * r
    high = (1 / 24 + r * (1 / 120)) + square * (1 / 720)
    others = square * ((0.5 + r * (1 / 6)) + square * high)
    power, rest = fast_two_sum(r, others + (lo + lo * r))
    count = int(steps)
    at = count & (PIECES - 1)
    root, least = POWERS[at, 0], POWERS[at, 1]
    product, error = two_prod(root, power)
    hi, lo = fast_two_sum(root, product)
    lo += least + (error + (root * rest + least * power))
    return normal(hi, lo, count >> 8)


@compiled
def _far(x):
    """Return exp(x) if it is 0, 1, infinite or NaN."""
    if x == 0.0:
        return Wide(1.0)
    return Wide(math.inf if x > 0.0 else 0.0 if x < 0.0 else x)


@compiled
def log(x: Wide | float) -> Wide:
    """Return log(x), with an error below 2**-67 of the result.

    Args:
        x: a float or a `Wide` between 2**-2**21 and 2**2**21; log(0) is -inf, and the
            result is NaN for x below 0.

    Returns:
        A `Wide`; its `float` is off by at most 0.5001 units in the last place.

    Example:
        >>> from mdtensor.wide import exp, log
        >>> float(log(10.0)), float(log(exp(0.1)))
        (2.302585092994046, 0.1)

    Source: P. T. P. Tang 1990; libm, `log`.
    """
    x = Wide(x)
    if not 0.0 < x.hi < math.inf:
        return _edge(x.hi, x.hi)
    return _log(x.hi, x.lo, 0.0, x.exponent)


@compiled
def log1p(x: Wide | float) -> Wide:
    """Return log(1 + x), with an error below 2**-67 of it, also for x near 0.

    Args:
        x: a float or a `Wide`; log1p(-1) is -inf, and the result is NaN for x below -1.

    Returns:
        A `Wide`; its `float` is off by at most 0.5001 units in the last place.

    Example:
        >>> from mdtensor.wide import exp, log1p
        >>> float(log1p(1e-300)), float(log1p(exp(-800.0)) / exp(-800.0))
        (1e-300, 1.0)

    Source: P. T. P. Tang 1990; libm, `log1p`.
    """
    x = Wide(x)
    if x.hi == 0.0 or x.exponent < -NEGLIGIBLE:
        return x
    if not abs(x.hi) < math.inf:
        return _edge(x.hi, x.hi)
    is_large = x.exponent > NEGLIGIBLE
    one, exponent = (0.0, x.exponent) if is_large else (1.0, 0)
    scale = power_of_two(x.exponent - exponent)
    hi, lo = x.hi * scale, x.lo * scale
    if hi <= -0.5:
        hi, lo = two_sum(one + hi, lo)
        one = 0.0
        if not hi > 0.0:
            return _edge(hi, x.hi)
    return _log(hi, lo, one, exponent)


@compiled
def _edge(above, x):
    """Return log(above), which is 0, negative, infinite or NaN.

    x is the argument of the caller.
    """
    if above == 0.0:
        return Wide(-math.inf)
    return Wide(x if x == math.inf else math.nan)


@compiled
def _log(hi, lo, one, exponent):
    """Return log((hi + lo + one) · 2**exponent); if one is 1, hi > -1/2."""
    bits = np.float64(hi + one).view(np.int64) - LEAST
    at, octave = (bits >> 44) & (PIECES - 1), bits >> 52
    scale = INVERSE[at] * power_of_two(-octave)
    # s = (hi + lo + one) · scale - 1, exactly hi + lo if scale is 1. So small results
    # keep all their digits.
    offset, least = two_sum(one * scale, -1.0)
    product, error = two_prod(hi, scale)
    s, more = two_sum(product, offset)
    s, tail = fast_two_sum(s, more + (error + least + lo * scale))
    # log1p(s) = s - s²/2 + s³/3 - ...: only its first two terms need two float64.
    half, error = two_prod(s, -0.5 * s)
    square = s * s
    high = (0.2 - s * (1 / 6)) + square * ((1 / 7 - s * 0.125) + square * (1 / 9))
    others = s * square * ((1 / 3 - s * 0.25) + square * high)
    others += error + (tail - s * tail)
    steps = float((octave + exponent) * PIECES)
    hi, lo = two_sum(steps * STEP1, LOGS[at, 0])
    hi, more = two_sum(hi, s)
    hi, even_more = two_sum(hi, half)
    lo += more + even_more + (others + LOGS[at, 1] + steps * STEP3 + steps * STEP2)
    hi, lo = fast_two_sum(hi, lo)
    return normal(hi, lo, 0)
