"""Comparison of the real numbers that codes stand for, exact on any two grids."""

from fractions import Fraction
from math import floor, isfinite
from typing import Any, Union

import numpy as np

from mdtensor import (
    BoolTensor,
    ComplexTensor,
    LogicalTensor,
    NumericTensor,
    RealTensor,
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
from mdtensor.quant.ops.errors import refuse_mixed, refused
from mdtensor.quant.ops.scalars import PythonNumber
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, spec_of

Anything = Union[QuantizedTensor, NumericTensor, LogicalTensor, int, float, complex]
#: What has an order, and what has none.
Ordered = Union[QuantizedTensor, RealTensor, LogicalTensor, int, float]
Complex = Union[ComplexTensor, complex]
#: No code of 32 bits is as far from zero.
PAST = 2**40


def _compare(name: str, ufunc: np.ufunc, x1: Any, x2: Any) -> BoolTensor:
    """Of float64, which holds every code of 16 bits times a float32; else of integers.

    Accumulators are compared as x1 · s1 and x2 · s2 over a common denominator.
    """
    checked(name, (x1, x2), lambda: comparison(spec_of(x1), spec_of(x2)))
    grids = x1.qparams, x2.qparams
    if grids[0] == grids[1] and grids[0].axis is None and x1.dtype not in FLOATS:
        return BoolTensor.wrap(np.asarray(ufunc(x1.codes.buffer, x2.codes.buffer)))
    if qint32 not in (x1.dtype, x2.dtype):
        return BoolTensor.wrap(np.asarray(ufunc(exact.reals(x1), exact.reals(x2))))

    def truth(a: Any, b: Any, g1: QParams, g2: QParams) -> Any:
        return _of_ratio(ufunc, a, b, g1.fraction / g2.fraction)

    operands = [(exact.steps_of(x), x.qparams) for x in (x1, x2)]
    return BoolTensor.wrap(by_pieces(truth, np.bool_, *operands))


def _of_ratio(ufunc: np.ufunc, a: Any, b: Any, ratio: Fraction) -> Any:
    """ufunc(a · ratio, b), exact."""
    if ratio != 1:
        # Python integers: the products may need more than 64 bits.
        a = np.asarray(a).astype(object) * ratio.numerator
        b = np.asarray(b).astype(object) * ratio.denominator
    return ufunc(a, b)


def _compare_number(ufunc: np.ufunc, x: Any, number: float) -> BoolTensor:
    """With a Python number, as exactly; with no finite one as numbers do."""
    if not (isinstance(number, int) or isfinite(number)):
        numbers = exact.reals(x) if x.dtype in FLOATS else np.zeros(x.shape)
        return BoolTensor.wrap(np.asarray(ufunc(numbers, float(number))))
    if x.dtype in FLOATS:
        numbers = exact.reals(x).astype(object)  # Python compares integers exactly
        with np.errstate(invalid="ignore"):  # of a NaN
            truths = np.asarray(ufunc(numbers, number))
        return BoolTensor.wrap(truths.astype(bool))

    def truth(steps: Any, grid: QParams) -> Any:
        # Among integers, every number between two of them is as good as their middle.
        twice = 2 * Fraction(number) / grid.fraction
        bound = 2 * floor(twice / 2) + (twice % 2 != 0)
        return ufunc(2 * steps, min(max(bound, -PAST), PAST))

    return BoolTensor.wrap(by_pieces(truth, np.bool_, (exact.steps_of(x), x.qparams)))


@method(equal, deduce=comparison)
def equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("equal", np.equal, x1, x2)


@method(equal, deduce=with_number)
def equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.equal, x1, x2)


@method(equal, deduce=with_number)
def equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.equal, x2, x1)


@method(equal, deduce=refused("equal"))
def equal(x1: Anything, x2: Anything, /) -> BoolTensor:
    refuse_mixed("equal", x1, x2)


@method(not_equal, deduce=comparison)
def not_equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("not_equal", np.not_equal, x1, x2)


@method(not_equal, deduce=with_number)
def not_equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.not_equal, x1, x2)


@method(not_equal, deduce=with_number)
def not_equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.not_equal, x2, x1)


@method(not_equal, deduce=refused("not_equal"))
def not_equal(x1: Anything, x2: Anything, /) -> BoolTensor:
    refuse_mixed("not_equal", x1, x2)


@method(less, deduce=comparison)
def less(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("less", np.less, x1, x2)


@method(less, deduce=with_number)
def less(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.less, x1, x2)


@method(less, deduce=with_number)
def less(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.greater, x2, x1)


@method(less, deduce=refused("less"))
def less(x1: Ordered, x2: Ordered, /) -> BoolTensor:
    refuse_mixed("less", x1, x2)


@method(less, deduce=refused("less"))
def less(x1: QuantizedTensor, x2: Complex, /) -> BoolTensor:
    refuse_mixed("less", x1, x2)


@method(less, deduce=refused("less"))
def less(x1: Complex, x2: QuantizedTensor, /) -> BoolTensor:
    refuse_mixed("less", x1, x2)


@method(less_equal, deduce=comparison)
def less_equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("less_equal", np.less_equal, x1, x2)


@method(less_equal, deduce=with_number)
def less_equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.less_equal, x1, x2)


@method(less_equal, deduce=with_number)
def less_equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.greater_equal, x2, x1)


@method(less_equal, deduce=refused("less_equal"))
def less_equal(x1: Ordered, x2: Ordered, /) -> BoolTensor:
    refuse_mixed("less_equal", x1, x2)


@method(less_equal, deduce=refused("less_equal"))
def less_equal(x1: QuantizedTensor, x2: Complex, /) -> BoolTensor:
    refuse_mixed("less_equal", x1, x2)


@method(less_equal, deduce=refused("less_equal"))
def less_equal(x1: Complex, x2: QuantizedTensor, /) -> BoolTensor:
    refuse_mixed("less_equal", x1, x2)


@method(greater, deduce=comparison)
def greater(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("greater", np.greater, x1, x2)


@method(greater, deduce=with_number)
def greater(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.greater, x1, x2)


@method(greater, deduce=with_number)
def greater(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.less, x2, x1)


@method(greater, deduce=refused("greater"))
def greater(x1: Ordered, x2: Ordered, /) -> BoolTensor:
    refuse_mixed("greater", x1, x2)


@method(greater, deduce=refused("greater"))
def greater(x1: QuantizedTensor, x2: Complex, /) -> BoolTensor:
    refuse_mixed("greater", x1, x2)


@method(greater, deduce=refused("greater"))
def greater(x1: Complex, x2: QuantizedTensor, /) -> BoolTensor:
    refuse_mixed("greater", x1, x2)


@method(greater_equal, deduce=comparison)
def greater_equal(x1: QuantizedTensor, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare("greater_equal", np.greater_equal, x1, x2)


@method(greater_equal, deduce=with_number)
def greater_equal(x1: QuantizedTensor, x2: PythonNumber, /) -> BoolTensor:
    return _compare_number(np.greater_equal, x1, x2)


@method(greater_equal, deduce=with_number)
def greater_equal(x1: PythonNumber, x2: QuantizedTensor, /) -> BoolTensor:
    return _compare_number(np.less_equal, x2, x1)


@method(greater_equal, deduce=refused("greater_equal"))
def greater_equal(x1: Ordered, x2: Ordered, /) -> BoolTensor:
    refuse_mixed("greater_equal", x1, x2)


@method(greater_equal, deduce=refused("greater_equal"))
def greater_equal(x1: QuantizedTensor, x2: Complex, /) -> BoolTensor:
    refuse_mixed("greater_equal", x1, x2)


@method(greater_equal, deduce=refused("greater_equal"))
def greater_equal(x1: Complex, x2: QuantizedTensor, /) -> BoolTensor:
    refuse_mixed("greater_equal", x1, x2)
