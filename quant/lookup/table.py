"""`Table`: a lookup table of your own function, for 8-bit and 16-bit codes."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from math import isinf, isnan
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import CastError, GridError, OptionError
from mdtensor.errors import describe, shown
from mdtensor.extend import Case, Lost, counting, explain_wrong_calls
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant.codes import contiguous, from_unsigned, unsigned, unsigned_grid
from mdtensor.quant.dtypes import qint8, qint16, quint8
from mdtensor.quant.lookup.build import exactly, is_number
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

Array = npt.NDArray[Any]
#: Default bound of the relative error of a float that a function returns.
ERROR = 2.0**-48
#: Types of results that are exact.
EXACT = (Rational, Decimal)


@explain_wrong_calls
class Table:
    """A lookup table of a function: each result is rounded once, half to even.

    The constructor calls the function for each code: 256 times, or 65,536 times for a
    16-bit source.

    Args:
        function: takes a `Fraction`, the exact number that a code stands for. A result
            is exact if it is an integer, a `Fraction` or a `Decimal`; a float may be
            off by at most `error`.
        source, out: the grids of argument and result, of `qint8`, `quint8` or `qint16`.
        error: a bound of the relative error of floats; 0 if they are exact.

    Raises:
        CastError: a result is NaN, or a float so near to the middle of two codes that
            its error could change the code.
        OptionError: a grid has another type; the function raises for a code or returns
            something that is not a number; the rounding rule is not `exact`.

    Example:
        >>> import math
        >>> from mdtensor import quant
        >>> grid = quant.QParams(0.25)
        >>> softer = quant.Table(lambda x: math.asinh(x), grid, grid)
        >>> softer(quant.QInt8Tensor([-8, 0, 8], scale=0.25)).codes.tolist()
        [-6, 0, 6]
        >>> softer.code(127)
        17
    """

    def __init__(
        self,
        function: Callable[[Fraction], Any],
        source: QParams,
        out: QParams,
        *,
        error: float = ERROR,
    ) -> None:
        if not callable(function):
            raise OptionError(
                f"function is {shown(function)}", "Pass a function of a Fraction"
            )
        if not is_number(error) or error < 0:
            raise OptionError(f"error is {shown(error)}", "Use a number of 0 or more")
        for name, grid in (("source", source), ("out", out)):
            _check_grid(name, grid)
        # A rule reproduces a library, and libraries do not have tables of functions.
        rounding_rule("table", out)
        self.source, self.out = source, out.rounded(None)
        low, size = int(source.dtype.minimum), 2**source.dtype.bits
        numbers = [(low + i - source.zero) * source.fraction for i in range(size)]
        values = [_call(function, x) for x in numbers]
        pairs = zip(values, numbers, strict=True)
        codes = [_nearest_code(value, x, out, error) for value, x in pairs]
        self._codes = np.array(codes, out.dtype.storage)
        self._past = np.array([_is_past(value, out) for value in values])
        # The compiled kernel reads 8-bit codes only; NumPy indexes the 16-bit ones.
        self._step = None
        if qint16 not in (source.dtype, out.dtype):
            offset = unsigned_grid(out).zero - out.zero
            self._step = steps.Lookup((np.array(codes) + offset).astype(np.uint8))

    def code(self, code: int) -> int:
        """Return the code of `out` for a code of `source`.

        Raises:
            CastError: `code` is not a code of `source`.
        """
        low, high = int(self.source.dtype.minimum), self.source.maximum
        if not isinstance(code, Integral) or not low <= code <= high:
            problem = f"{shown(code)} is not a code of {self.source.dtype}"
            raise CastError(problem, f"Use integers from {low} to {high}", "Table")
        return int(self._codes[int(code) - low])

    def __call__(self, x: Any) -> Any:
        """Apply the function to every number of `x`; the result is on `out`.

        Raises:
            GridError: the grid of `x` is not `source`.
        """
        if getattr(x, "qparams", None) != self.source:
            given = describe("table", x)
            raise GridError(
                f"the table is for ({self.source.describe()})",
                "Requantize the argument, or make a table for its grid",
                given,
            )
        return counting("table", self._look_up, self._saturations)(x)

    def _look_up(self, x: Any) -> Any:
        if self._step is not None:
            return from_unsigned(self._step(contiguous(unsigned(x))), self.out)
        return quantized(self._codes[self._places(x)], self.out)

    def _places(self, x: QuantizedTensor) -> Array:
        # int64, because the smallest code subtracted in 8 or 16 bits would wrap.
        places: Array = x.buffer.astype(np.int64) - int(self.source.dtype.minimum)
        return places

    def _saturations(self, case: Case) -> Iterator[Lost]:
        # `checked()` counts results that the end of the grid replaced.
        found = self._past[self._places(*case.arguments)]
        yield Lost("saturated", int(np.count_nonzero(found)))

    def __repr__(self) -> str:
        return f"Table({self.source} -> {self.out})"


def _check_grid(name: str, grid: object) -> None:
    if not isinstance(grid, QParams):
        raise OptionError(f"{name} is a {type(grid).__name__}", "Pass a QParams")
    if grid.dtype not in (qint8, quint8, qint16) or grid.axis is not None:
        problem = f"{name} must be a grid of qint8, quint8 or qint16 with one scale"
        fix = "Give such a QParams, and requantize the argument to it"
        raise OptionError(f"{problem}, but is {grid}", fix, "Table")


def _call(function: Callable[[Fraction], Any], x: Fraction) -> Any:
    try:
        return function(x)
    except (ArithmeticError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise OptionError(
            f"the function raises for {float(x):g}: {reason}",
            "Return a number for each code; each code is passed as a Fraction",
            "Table",
        ) from error


def _nearest_code(value: Any, x: Fraction, out: QParams, error: float) -> int:
    """Return the code nearest to `value`, the result of the function for `x`.

    Raises:
        OptionError: `value` is not a number.
        CastError: `value` is NaN, or the middle of two codes is within its error.
    """
    low, high = out.minimum, out.maximum
    is_exact = isinstance(value, EXACT)
    if not is_exact and not isinstance(value, Real):
        raise OptionError(
            f"the function returned {shown(value)}", "Return numbers", "Table"
        )
    if _is(isnan, value):
        raise CastError(f"f({float(x):g}) is NaN", "Return a number there", "Table")
    if _is(isinf, value):
        return high if value > 0 else low
    exact = _exactly(value) / out.fraction
    # If both ends of the error interval round to one code, the error does not matter.
    slack = 0 if is_exact else abs(exact) * exactly(error)
    first, last = (
        min(max(round(edge) + out.zero, low), high)
        for edge in (exact - slack, exact + slack)
    )
    if first != last:
        raise CastError(
            f"f({float(x):g}) = {float(value)!r} is within its error of the middle of "
            "two codes",
            "Return a Fraction or a Decimal, or pass error=0 if floats are exact",
            "Table",
        )
    return first


def _is(test: Callable[[Any], bool], value: object) -> bool:
    """Return whether `test`, `isnan` or `isinf`, is true for `value`."""
    # `math.isnan` overflows on large integers and fractions, which are always finite.
    return not isinstance(value, Rational) and test(value)


def _exactly(value: Any) -> Fraction:
    # `exactly` would round a decimal to float64.
    return Fraction(value) if isinstance(value, Decimal) else exactly(value)


def _is_past(value: Any, out: QParams) -> bool:
    """Return whether a number is beyond the ends of the grid."""
    if _is(isinf, value):
        return True
    code = round(_exactly(value) / out.fraction) + out.zero
    return not out.minimum <= code <= out.maximum
