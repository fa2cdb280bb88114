"""Wide: a number of 106 bits, in scalar functions.

(hi + lo) · 2**exponent with 1 ≤ |hi| < 2 and |lo| at most half a unit of hi's last
place. Arithmetic is off by less than 2**-100 of the result; nothing overflows or
becomes subnormal, since the exponent is an integer; `float` rounds once, half to even.
Zeros, infinities and NaN are as in float64, and stand in hi. In compiled functions it
is a value of three registers.

Source: M. Joldes, J.-M. Muller, V. Popescu, "Tight and rigorous error bounds for basic
building blocks of double-word arithmetic", 2017.
"""

import math
import operator
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

from mdtensor.kernels.cpu.user.pairs import compiled, ordered_sum, two_prod, two_sum

INFINITY = math.inf
#: The exponent of infinities and NaN, above all others; that of 0 is below them.
ABOVE = 1 << 40
#: The farthest that a summand is moved: it is far below the last place of the other.
FAR = -400
MANTISSA = 1 << 52
OPTIONS: Any = {"error_model": "numpy"}


# The exponent is an integer, because float64's would lose hundreds of units near its
# limits (decision 0022).
class Wide:
    """A number of 106 bits and any exponent.

    It is added, multiplied, divided and compared, with others and with floats; an error
    is below 2**-100 of the result. `float(x)` rounds it once.

    Args:
        x: a float, or an integer that is one; another Wide.

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
        return x if isinstance(x, Wide) else widened(float(x))

    def __repr__(self) -> str:
        return f"Wide({self.hi!r}, {self.lo!r}, {self.exponent})"

    def __float__(self) -> float:
        return rounded(self)

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


def parts(hi, lo, exponent):
    """A Wide of these parts, as they are; in Python they may be numbers of NumPy."""
    found = object.__new__(Wide)
    found.hi, found.lo, found.exponent = float(hi), float(lo), int(exponent)
    return found


@compiled
def power_of_two(exponent):
    """2**exponent as float64, a normal number."""
    return float(np.int64((exponent + 1023) << 52).view(np.float64))


@compiled
def normal(hi, lo, exponent):
    """(hi + lo) · 2**exponent; |hi| ≥ |lo|, and hi is 0, not finite, or normal."""
    if not 0.0 < abs(hi) < INFINITY:
        return parts(hi, 0.0, -ABOVE if hi == 0.0 else ABOVE)
    hi, lo = ordered_sum(hi, lo)
    if hi == 0.0:
        return parts(hi, 0.0, -ABOVE)
    moved = ((np.float64(hi).view(np.int64) >> 52) & 0x7FF) - 1023
    scale = power_of_two(-moved)
    return parts(hi * scale, lo * scale, exponent + moved)


@compiled
def widened(x):
    """A float64."""
    away = -128 if abs(x) < 1.0 else 128  # from what is subnormal, and its inverse
    return normal(x * power_of_two(-away), 0.0, away)


@compiled
def rounded(x):
    """The nearest float64, of two equally near the even one."""
    if not 0.0 < abs(x.hi) < INFINITY:
        return x.hi
    if x.exponent > 1023:
        return math.copysign(INFINITY, x.hi)
    if x.exponent >= -1022:
        return x.hi * power_of_two(x.exponent)
    return math.copysign(_subnormal(x), x.hi)


@compiled
def _subnormal(x):
    """|x| < 2**-1022: a count of the smallest float64, which is that float64's bits."""
    dropped = -1014 - x.exponent
    if dropped > 62:
        return 0.0
    side = x.lo * x.hi  # what lies beyond the bits of hi counts as a bit below
    bits = (np.int64(abs(x.hi) * MANTISSA) << 8) + ((side > 0.0) - (side < 0.0))
    count, rest = bits >> dropped, bits & ((1 << dropped) - 1)
    half = 1 << (dropped - 1)
    count += rest > half or (rest == half and count & 1 == 1)
    return float(np.int64(count).view(np.float64))


@compiled
def add(x, y):
    """x + y."""
    exponent = max(x.exponent, y.exponent)
    of_x = power_of_two(max(x.exponent - exponent, FAR))
    of_y = power_of_two(max(y.exponent - exponent, FAR))
    hi, lo = two_sum(x.hi * of_x, y.hi * of_y)
    if not abs(hi) < INFINITY:
        return parts(hi, 0.0, ABOVE)
    more, least = two_sum(x.lo * of_x, y.lo * of_y)
    if hi == 0.0 and more == 0.0:  # -0 stays -0
        return parts(hi, 0.0, -ABOVE)
    hi, lo = ordered_sum(hi, lo + more)
    return normal(hi, lo + least, exponent)


@compiled
def neg(x):
    """-x."""
    return parts(-x.hi, -x.lo, x.exponent)


# Only exact products are used, fused or by halves, so that every CPU gives the same
# bytes (decision 0022).
@compiled
def mul(x, y):
    """x · y."""
    hi, lo = two_prod(x.hi, y.hi)
    lo += x.hi * y.lo + x.lo * y.hi
    return normal(hi, lo, x.exponent + y.exponent)


@compiled
def div(x, y):
    """x / y; by 0 as in float64, and nothing is raised."""
    if y.hi == 0.0:
        return normal(x.hi * math.copysign(INFINITY, y.hi), 0.0, 0)
    quotient = x.hi / y.hi
    hi, lo = two_prod(quotient, y.hi)
    rest = ((x.hi - hi) - lo) + (x.lo - quotient * y.lo)
    return normal(quotient, rest / y.hi, x.exponent - y.exponent)


@compiled
def less(x, y):
    """x < y."""
    if x.exponent != y.exponent:
        return x.hi < 0.0 if x.exponent > y.exponent else y.hi > 0.0
    return x.hi < y.hi or (x.hi == y.hi and x.lo < y.lo)


@compiled
def equal(x, y):
    """x == y: a number has one form."""
    return x.hi == y.hi and x.lo == y.lo and x.exponent == y.exponent


@compiled
def not_above(x, y):
    """x <= y."""
    return less(x, y) or equal(x, y)


# --- the same for numba ---------------------------------------------------------------


class WideType(types.Type):
    """Wide, as numba sees it."""

    def __init__(self):
        super().__init__(name="Wide")


WIDE = WideType()
FIELDS = {"hi": types.float64, "lo": types.float64, "exponent": types.int64}


@register_model(WideType)
class WideModel(models.StructModel):
    """Three registers."""

    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, list(FIELDS.items()))


for _field in FIELDS:
    make_attribute_wrapper(WideType, _field, _field)


@intrinsic
def _packed(typing, hi, lo, exponent):
    def code(context, builder, signature, arguments):
        found = cgutils.create_struct_proxy(WIDE)(context, builder)
        found.hi, found.lo, found.exponent = arguments
        return found._getvalue()

    return WIDE(*FIELDS.values()), code


@overload(parts)
def _parts(hi, lo, exponent):
    return lambda hi, lo, exponent: _packed(hi, lo, exponent)


@overload(Wide, jit_options=OPTIONS)
def _wide(x):
    if x == WIDE:
        return lambda x: x
    if isinstance(x, types.Integer | types.Float | types.Boolean):
        return lambda x: widened(np.float64(x))
    return None


@overload(float)
def _float(x):
    return (lambda x: rounded(x)) if x == WIDE else None


@overload(operator.neg)
def _neg(x):
    return (lambda x: neg(x)) if x == WIDE else None


def _overload(function, *symbols):
    def chosen(x, y):
        return function if WIDE in (x, y) else None

    for symbol in symbols:
        overload(symbol, jit_options=OPTIONS)(chosen)


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
