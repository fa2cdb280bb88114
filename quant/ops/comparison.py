"""Exact comparison of the real numbers of codes, on any two grids."""

from fractions import Fraction
from math import floor, isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import (
    BoolTensor,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    method,
    not_equal,
)
from mdtensor.errors import checked
from mdtensor.quant import exact
from mdtensor.quant.deduction import comparison, with_number
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.grids.combine import by_pieces
from mdtensor.quant.ops.pair_tables import PairTable, is_long
from mdtensor.quant.ops.scalars import PythonNumber
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, spec_of

Array = npt.NDArray[Any]
#: Larger than twice any step of a 32-bit code, so a bound can be clipped to it.
PAST = 2**40


def _compare(
    name: str, ufunc: np.ufunc, x1: QuantizedTensor, x2: QuantizedTensor
) -> BoolTensor:
    """Return ufunc(x1, x2) of the real numbers, exactly.

    Accumulators are compared as integers: x1 · s1 and x2 · s2 over one denominator.
    """
    checked(name, (x1, x2), lambda: comparison(spec_of(x1), spec_of(x2)))
    grids = x1.qparams, x2.qparams
    # On one grid, codes have the order of their numbers; bytes of floats do not.
    if grids[0] == grids[1] and grids[0].axis is None and x1.dtype not in FLOATS:
        return BoolTensor.wrap(np.asarray(ufunc(x1.codes.buffer, x2.codes.buffer)))
    if is_long(x1, x2):
        return _look_up(ufunc, x1, x2)
    # float64 holds each product of a 16-bit code and a float32 scale.
    if qint32 not in (x1.dtype, x2.dtype):
        return BoolTensor.wrap(np.asarray(ufunc(exact.reals(x1), exact.reals(x2))))

    def compare(a: Array, b: Array, g1: QParams, g2: QParams) -> Array:
        return _compare_scaled(ufunc, a, b, g1.fraction / g2.fraction)

    operands = [(exact.steps_of(x), x.qparams) for x in (x1, x2)]
    return BoolTensor.wrap(by_pieces(compare, np.bool_, *operands))


def _look_up(ufunc: np.ufunc, x1: QuantizedTensor, x2: QuantizedTensor) -> BoolTensor:
    """Return ufunc(x1, x2) of 8-bit codes or fewer, by a table of all pairs."""

    def compare(a: QuantizedTensor, b: QuantizedTensor) -> BoolTensor:
        return BoolTensor.wrap(np.asarray(ufunc(exact.reals(a), exact.reals(b))))

    found: Any = PairTable(compare, compare, x1, x2)(x1, x2)
    return found  # type: ignore[no-any-return]


def _compare_scaled(ufunc: np.ufunc, a: Array, b: Array, ratio: Fraction) -> Array:
    """Return ufunc(a · ratio, b), exactly."""
    if ratio != 1:
        # Python integers: the products may need more than 64 bits.
        a = np.asarray(a).astype(object) * ratio.numerator
        b = np.asarray(b).astype(object) * ratio.denominator
    found: Array = ufunc(a, b)
    return found


def _compare_number(ufunc: np.ufunc, x: QuantizedTensor, number: float) -> BoolTensor:
    """Return ufunc(x, number) of real numbers, exactly; `number` may be infinite."""
    # A Fraction cannot hold an infinity or NaN, and each integer is finite.
    if not (isinstance(number, int) or isfinite(number)):
        numbers = exact.reals(x) if x.dtype in FLOATS else np.zeros(x.shape)
        return BoolTensor.wrap(np.asarray(ufunc(numbers, float(number))))
    if x.dtype in FLOATS:
        # Python compares an int and a float exactly; NumPy would round the int.
        numbers = exact.reals(x).astype(object)
        # A code may be NaN, and NumPy warns when it compares one.
        with np.errstate(invalid="ignore"):
            bools = np.asarray(ufunc(numbers, number))
        return BoolTensor.wrap(bools.astype(bool))

    def compare(steps: Array, grid: QParams) -> Array:
        # Integers compare alike with every number between two neighbours, so with the
        # middle, which doubling makes an integer.
        twice = 2 * Fraction(number) / grid.fraction
        bound = 2 * floor(twice / 2) + (twice % 2 != 0)
        found: Array = ufunc(2 * steps, min(max(bound, -PAST), PAST))
        return found

    return BoolTensor.wrap(by_pieces(compare, np.bool_, (exact.steps_of(x), x.qparams)))


@method(equal, deduce=comparison)
def equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("equal", np.equal, x1, x2)


@method(equal, deduce=with_number)
def equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.equal, x1, x2)


@method(equal, deduce=with_number)
def equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.equal, x2, x1)


@method(not_equal, deduce=comparison)
def not_equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("not_equal", np.not_equal, x1, x2)


@method(not_equal, deduce=with_number)
def not_equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.not_equal, x1, x2)


@method(not_equal, deduce=with_number)
def not_equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.not_equal, x2, x1)


@method(less, deduce=comparison)
def less(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("less", np.less, x1, x2)


@method(less, deduce=with_number)
def less(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.less, x1, x2)


@method(less, deduce=with_number)
def less(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.greater, x2, x1)


@method(less_equal, deduce=comparison)
def less_equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("less_equal", np.less_equal, x1, x2)


@method(less_equal, deduce=with_number)
def less_equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.less_equal, x1, x2)


@method(less_equal, deduce=with_number)
def less_equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.greater_equal, x2, x1)


@method(greater, deduce=comparison)
def greater(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("greater", np.greater, x1, x2)


@method(greater, deduce=with_number)
def greater(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.greater, x1, x2)


@method(greater, deduce=with_number)
def greater(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.less, x2, x1)


@method(greater_equal, deduce=comparison)
def greater_equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("greater_equal", np.greater_equal, x1, x2)


@method(greater_equal, deduce=with_number)
def greater_equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.greater_equal, x1, x2)


@method(greater_equal, deduce=with_number)
def greater_equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.less_equal, x2, x1)
