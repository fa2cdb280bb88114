"""Operations on codes and a Python number, rounded once to `out=`.

Without `out=` the result must be exact on a grid, or the call raises.
"""

from collections.abc import Callable
from fractions import Fraction
from math import isfinite
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    CastError,
    GridError,
    OptionError,
    TensorSpec,
    add,
    div,
    maximum,
    method,
    minimum,
    mul,
    sub,
)
from mdtensor.errors import checked, describe, shown
from mdtensor.quant import exact
from mdtensor.quant.deduction import check_integers, on_grid
from mdtensor.quant.dtypes import FLOATS
from mdtensor.quant.grids.combine import by_pieces, singles
from mdtensor.quant.lookup.build import exactly, is_number
from mdtensor.quant.ops.errors import check_out, refusal_rule, refuse_operands
from mdtensor.quant.presets import find_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, QuantizedTensor, quantized

#: Operands without an element type.
PythonNumber = Union[int, float]
Operand = AffineTensor | float
SpecOrNumber = TensorSpec | float
Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]


def codes_of(grid: QParams, shape: tuple[int, ...], number: object) -> Array:
    """Return the codes of `number` on `grid`, for each element of `shape`, read-only.

    Args:
        grid: of any granularity that fits `shape`.
        shape: the shape of the codes.
        number: a finite number.

    Raises:
        CastError: the number is between two codes, or outside the range.
    """
    width = np.dtype(np.uint8 if grid.dtype in FLOATS else grid.dtype.storage)
    # One element is enough on one scale, and broadcasts.
    if grid.axis is None:
        return np.broadcast_to(width.type(_code(grid, number)), shape)
    zeros = np.zeros(shape, np.int64)
    found = by_pieces(
        lambda _, single: np.asarray(_code(single, number)), width, (zeros, grid)
    )
    return np.broadcast_to(found, shape)


def _code(grid: QParams, number: object) -> int:
    """Return the code of `number` on a grid of one scale; the byte of an 8-bit float.

    Raises:
        CastError: the grid does not have such a code.
    """
    if is_number(number):
        quotient = exactly(number) / grid.fraction
        code = _float_code(grid, quotient) if grid.dtype in FLOATS else quotient
        if code is not None and code.denominator == 1:
            code += grid.zero
            if grid.dtype in FLOATS or grid.minimum <= code <= grid.maximum:
                return int(code)
    raise CastError(
        f"{shown(number)} is not on the grid ({grid.describe()})",
        f"Pass a number on the grid, such as {_near(grid, number)}",
    )


def _near(grid: QParams, number: object) -> str:
    """Return the number of the nearest code, with as many digits as it needs."""
    # A scale of 0.1 is a float32, so its multiples have more digits than you see.
    near = 0.0
    if is_number(number) and grid.dtype not in FLOATS:
        exact = _step(grid, number) * grid.fraction
        near = float(exact) if Fraction(float(exact)) == exact else 0.0
    short = f"{near:g}"
    return short if float(short) == near else repr(near)


def _step(grid: QParams, number: object) -> int:
    """Return the nearest code minus the zero point."""
    code = round(exactly(number) / grid.fraction) + grid.zero
    return min(max(code, grid.minimum), grid.maximum) - grid.zero


def _float_code(grid: QParams, quotient: Fraction) -> Fraction | None:
    """Return the byte of the 8-bit float that equals `quotient`, else None."""
    if abs(quotient) > int(grid.dtype.maximum):
        return None
    found = exact.to_floats(np.array([float(quotient)]), grid.dtype)
    if Fraction(float(found[0])) != quotient:
        return None
    return Fraction(int(found.view(np.uint8)[0]))


#: From steps, their scale and the number, exact, to rounded steps of `out`.
Compute = Callable[[IntArray, Fraction, Fraction], IntArray]


def _split_operands(x1: Any, x2: Any) -> tuple[Any, float]:
    """Return the tensor or spec, and the number."""
    return (x2, x1) if isinstance(x1, (int, float)) else (x1, x2)


def _rule_with_out(name: str) -> Callable[..., TensorSpec]:
    """Return the rule of an operation of a tensor and a number that needs `out=`."""

    def deduce(
        x1: SpecOrNumber, x2: SpecOrNumber, *, out: QParams | None = None
    ) -> TensorSpec:
        x, number = _split_operands(x1, x2)
        if out is None:
            refusal_rule(name)(x1, x2)
        _require_finite(number)
        check_integers(out)
        _refuse_rule(name, out)
        return on_grid(x.shape, out)

    return deduce


def _require_finite(number: float) -> None:
    if not (isinstance(number, int) or isfinite(number)):
        raise CastError(f"cannot quantize {number}", "Pass finite numbers")


def _refuse_rule(name: str, out: QParams) -> None:
    """Raise OptionError for a rounding rule other than `exact`."""
    # A library defines its rule for two quantized operands, not for a number.
    if find_rule(name, out):
        raise OptionError(
            "only rounding='exact' computes with Python numbers",
            "Quantize the number, or pass out=QParams(..., rounding='exact')",
        )


def _round_to(
    name: str, x1: Operand, x2: Operand, out: Any, compute: Compute
) -> QuantizedTensor:
    """Return compute(steps, scale, number), rounded to `out`.

    Args:
        name: the name of the operation.
        x1, x2: a tensor and a number, in any order.
        out: the grid of the result.
        compute: returns steps of `out`, rounded.
    """
    x, number = _split_operands(x1, x2)
    checked(name, (x1, x2), lambda: _require_finite(number))
    check_out(name, out, x1, x2)
    checked(name, (x1, x2), lambda: _refuse_rule(name, out))

    def codes(steps: IntArray, grid: QParams) -> Array:
        return exact.to_codes(compute(steps, grid.fraction, exactly(number)), out)

    steps = exact.steps_of(x)
    return quantized(by_pieces(codes, out.dtype.storage, (steps, x.qparams)), out)


def _sum(
    name: str,
    x1: Operand,
    x2: Operand,
    signs: tuple[int, int],
    out: QParams | None,
) -> QuantizedTensor:
    """Return the sum of the tensor and the number, each with its sign."""
    if out is None:
        refuse_operands(name, x1, x2)

    def total(steps: IntArray, scale: Fraction, number: Fraction) -> IntArray:
        ratios = signs[0] * scale / out.fraction, signs[1] * number / out.fraction
        return exact.round_sum((steps, ratios[0]), (np.ones_like(steps), ratios[1]))

    return _round_to(name, x1, x2, out, total)


@method(add, deduce=_rule_with_out("add"))
def add(
    x1: AffineTensor, x2: PythonNumber, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _sum("add", x1, x2, (1, 1), out)


@method(add, deduce=_rule_with_out("add"))
def add(
    x1: PythonNumber, x2: AffineTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _sum("add", x1, x2, (1, 1), out)


@method(sub, deduce=_rule_with_out("sub"))
def sub(
    x1: AffineTensor, x2: PythonNumber, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _sum("sub", x1, x2, (1, -1), out)


@method(sub, deduce=_rule_with_out("sub"))
def sub(
    x1: PythonNumber, x2: AffineTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _sum("sub", x1, x2, (-1, 1), out)


def _infer_scale(
    x1: SpecOrNumber, x2: SpecOrNumber, *, out: QParams | None = None
) -> TensorSpec:
    x, number = _split_operands(x1, x2)
    if out is None:
        return on_grid(x.shape, _scale_grid(x.qparams, number))
    return _rule_with_out("mul")(x1, x2, out=out)


def _scale(x1: Operand, x2: Operand, out: QParams | None) -> QuantizedTensor:
    """Return x · number; without `out` with a new scale, if that is exact."""
    if out is None:
        x, number = _split_operands(x1, x2)
        grid = checked("mul", (x1, x2), lambda: _scale_grid(x.qparams, number))
        scaled: QuantizedTensor = x.with_qparams(grid)
        return scaled
    return _round_to(
        "mul",
        x1,
        x2,
        out,
        lambda steps, scale, number: exact.round_sum(
            (steps, scale * number / out.fraction)
        ),
    )


@method(mul, deduce=_infer_scale)
def mul(
    x1: AffineTensor, x2: PythonNumber, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _scale(x1, x2, out)


@method(mul, deduce=_infer_scale)
def mul(
    x1: PythonNumber, x2: AffineTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _scale(x1, x2, out)


def _scale_grid(grid: QParams, factor: float) -> QParams:
    _require_finite(factor)
    # A scale is positive, so a factor of 0 or below cannot go into it.
    if not factor > 0:
        raise GridError(
            f"the scale times {factor} is not a valid scale{_grid_text(grid)}",
            "Pass out=QParams(...), or use neg(x), or factors above 0",
        )
    wanted = [scale * Fraction(factor) for scale in grid.fractions]
    # float() raises OverflowError for a larger fraction. With the limit, the comparison
    # with `wanted` below raises our own error.
    limit = Fraction(float(np.finfo(np.float64).max))
    scales = np.array([float(min(w, limit)) for w in wanted]).reshape(grid.scale.shape)
    fix = "Pass out=QParams(...)"
    # QParams checks the new scales; its problem is repeated with the factor.
    try:
        scaled = grid.replace(scale=scales)
    except GridError as error:
        problem = f"the scale times {factor} is not a valid scale: {error.problem}"
        raise GridError(problem, fix) from None
    if scaled.fractions != wanted:
        named = _grid_text(grid)
        problem = f"the scale times {factor} is not exact in the type of scales{named}"
        raise GridError(problem, fix)
    return scaled


def _grid_text(grid: QParams) -> str:
    """Return the end of a problem: `; the grid is (scale=0.5, zero_point=0)`."""
    return f"; the grid is ({grid.describe()})"


def _quotient_spec(
    x1: SpecOrNumber, x2: SpecOrNumber, *, out: QParams | None = None
) -> TensorSpec:
    """Infer the quotient of a tensor and a number other than 0."""
    _require_divisor(x2)
    return _rule_with_out("div")(x1, x2, out=out)


def _require_divisor(number: object) -> None:
    if number == 0:
        raise CastError("division by 0 is undefined", "Divide by another number")


@method(div, deduce=_quotient_spec)
def div(
    x1: AffineTensor, x2: PythonNumber, /, *, out: QParams | None = None
) -> QuantizedTensor:
    checked("div", (x1, x2), lambda: _require_divisor(x2))
    if out is None:
        refuse_operands("div", x1, x2)
    return _round_to(
        "div",
        x1,
        x2,
        out,
        lambda steps, scale, number: exact.round_sum(
            (steps, scale / number / out.fraction)
        ),
    )


@method(div, deduce=_rule_with_out("div"))
def div(
    x1: PythonNumber, x2: AffineTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    if out is None:
        refuse_operands("div", x1, x2)
    # 0 / code is 0, except for a code that stands for 0.
    if x1 == 0 and not exact.steps_of(x2).all():
        raise CastError("0 / 0 is undefined", "Mask it first", describe("div", x1, x2))

    # The steps are the divisor, so the sign of the number goes to the dividend.
    def divide(steps: IntArray, scale: Fraction, number: Fraction) -> IntArray:
        sign = np.where(number < 0, -1, 1) * np.ones_like(steps)
        return exact.round_quotient(sign, steps, abs(number) / scale / out.fraction)

    return _round_to("div", x1, x2, out, divide)


def _extreme_spec(
    x1: SpecOrNumber, x2: SpecOrNumber, *, out: QParams | None = None
) -> TensorSpec:
    x, number = _split_operands(x1, x2)
    if out is not None:
        return _rule_with_out("maximum")(x1, x2, out=out)
    if 0 not in x.shape:
        # The result stays on the grid, so the number needs a code there.
        for single in singles(x.qparams):
            codes_of(single, (), number)
    return on_grid(x.shape, x.qparams)


def _extreme(
    name: str, choose: np.ufunc, x1: Operand, x2: Operand, out: QParams | None
) -> QuantizedTensor:
    """Return the elementwise minimum or maximum of a tensor and a number."""
    x, number = _split_operands(x1, x2)
    if out is None:
        codes = checked(name, (x1, x2), lambda: codes_of(x.qparams, x.shape, number))
        chosen = np.asarray(choose(x.codes.buffer, codes))
        found: QuantizedTensor = x.from_codes(chosen, x.qparams.rounded(x.rounding))
        return found

    # Rounding is monotone, so it may come before the choice.
    def pick(steps: IntArray, scale: Fraction, number: Fraction) -> IntArray:
        other = exact.round_sum((np.ones_like(steps), number / out.fraction))
        found: IntArray = choose(exact.round_sum((steps, scale / out.fraction)), other)
        return found

    return _round_to(name, x1, x2, out, pick)


@method(maximum, deduce=_extreme_spec)
def maximum(
    x1: AffineTensor, x2: PythonNumber, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _extreme("maximum", np.maximum, x1, x2, out)


@method(maximum, deduce=_extreme_spec)
def maximum(
    x1: PythonNumber, x2: AffineTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _extreme("maximum", np.maximum, x1, x2, out)


@method(minimum, deduce=_extreme_spec)
def minimum(
    x1: AffineTensor, x2: PythonNumber, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _extreme("minimum", np.minimum, x1, x2, out)


@method(minimum, deduce=_extreme_spec)
def minimum(
    x1: PythonNumber, x2: AffineTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _extreme("minimum", np.minimum, x1, x2, out)
