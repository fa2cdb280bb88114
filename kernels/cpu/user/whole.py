"""Conversions of floats to integers that raise where int64 does not hold the result.

numba converts by one instruction, which gives -2**63 for NaN, infinities and numbers
from 2**63 on, where Python raises or gives a long integer. `with_checks` copies a
user's function so that it calls the conversions here instead of Python's: `int`,
`round`, `math.floor`, `math.ceil` and `math.trunc`, by whatever name it reads them.

    whole(x) = f(x) if -2**63 ≤ f(x) < 2**63, else raise OverflowError("outside")

Functions that the user compiled himself keep numba's conversions.
"""

import builtins
import math
from functools import cache
from types import CellType, FunctionType, ModuleType

import numpy as np
from numba import types
from numba.extending import overload

from mdtensor.kernels.cpu.user.views import compiled

#: The least float64 that is too large for an int64.
END = 2.0**63


@compiled
def require_int64(x):
    """Return a whole float as it is; raise unless int64 holds it."""
    if not -END <= x < END:
        raise OverflowError("outside")
    return x


def _checked(function, round_float):
    """Return a stand-in for `function` that converts floats by `round_float`."""

    def stand_in(x):
        raise NotImplementedError

    def of_float(x):
        return np.int64(require_int64(round_float(np.float64(x))))

    def of_others(x):
        return function(x)

    @overload(stand_in, jit_options={"error_model": "numpy"})
    def choose(x):
        kind = types.unliteral(x)
        if isinstance(kind, types.Float):
            return of_float
        return of_others if function is int else _of_integer(kind) or of_others

    return stand_in


def _of_integer(kind):
    """Return the conversion of an integer, which is whole; None for other types.

    numba's `floor` and its kin convert integers through float64.
    """
    if not isinstance(kind, types.Integer | types.Boolean):
        return None
    if kind == types.uint64:
        return lambda x: x
    return lambda x: np.int64(x)


def _checked_round():
    """Return the stand-in for `round`, which also takes a number of digits."""

    def stand_in(x, ndigits=None):
        raise NotImplementedError

    def of_float(x, ndigits=None):
        return np.int64(require_int64(np.rint(np.float64(x))))

    def of_integer(x, ndigits=None):
        return np.int64(x)

    def of_uint64(x, ndigits=None):
        return x

    def of_others(x, ndigits=None):
        return round(x)

    def with_digits(x, ndigits=None):
        return round(x, ndigits)

    @overload(stand_in, jit_options={"error_model": "numpy"})
    def choose(x, ndigits=None):
        if ndigits is not None and not isinstance(
            ndigits, types.NoneType | types.Omitted
        ):
            return with_digits
        kind = types.unliteral(x)
        if isinstance(kind, types.Float):
            return of_float
        if isinstance(kind, types.Integer | types.Boolean):
            return of_uint64 if kind == types.uint64 else of_integer
        return of_others

    return stand_in


@cache
def _stand_ins():
    """Return the stand-in of each conversion, by the identity of the original."""
    found = {
        int: _checked(int, compiled(lambda x: np.trunc(x))),
        math.trunc: _checked(math.trunc, compiled(lambda x: np.trunc(x))),
        math.floor: _checked(math.floor, compiled(lambda x: np.floor(x))),
        math.ceil: _checked(math.ceil, compiled(lambda x: np.ceil(x))),
        round: _checked_round(),
    }
    return {id(original): made for original, made in found.items()}


@cache
def _math():
    """Return a copy of the module `math` with the stand-ins in it."""
    copy = ModuleType("math")
    vars(copy).update(
        {name: _stand_ins().get(id(x), x) for name, x in vars(math).items()}
    )
    return copy


def _replace(value):
    return _math() if value is math else _stand_ins().get(id(value), value)


# Every function is copied, so that its module can be imported (decision 0059).
def with_checks(function, names):
    """Return a copy of `function` that converts floats to integers with checks.

    Args:
        function: a Python function.
        names: the global names that it may read.
    """
    outer = function.__globals__
    given = {}
    for name in names:
        value = outer.get(name, vars(builtins).get(name))
        if _replace(value) is not value:
            given[name] = _replace(value)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    closure = tuple(CellType(_replace(value)) for value in cells)
    copy = FunctionType(
        function.__code__,
        {**outer, **given},
        function.__name__,
        function.__defaults__,
        closure or None,
    )
    # Cached code imports the modules of its functions, which a made-up name would stop.
    copy.__module__, copy.__qualname__ = __name__, function.__qualname__
    return copy
