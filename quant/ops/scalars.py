"""Codes and a Python number: rounded once with `out=`, exact on the grid or refused."""

from collections.abc import Callable
from fractions import Fraction
from math import isfinite
from typing import Any, Union

import numpy as np

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
from mdtensor.quant.ops.arithmetic import quotient
from mdtensor.quant.ops.errors import check_out, refuse_mixed, refused
from mdtensor.quant.presets import find_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, quantized

# Python numbers among codes: a number has a code, or it is refused.

#: What a tensor of numbers takes for an operand without a type.
PythonNumber = Union[int, float]


def codes_of(grid: QParams, shape: tuple[int, ...], number: Any) -> Any:
    """The codes of `number` on `grid`, for each element of `shape`.

    Args:
        grid: of any granularity; it fits `shape`.

    Raises:
        CastError: the number lies between two codes, or beyond all.
    """
    zeros = np.zeros((1,) * len(shape) if grid.axis is None else shape, np.int64)
    width = np.uint8 if grid.dtype in FLOATS else grid.dtype.storage
    found = by_pieces(
        lambda _, single: np.asarray(_code(single, number)), width, (zeros, grid)
    )
    return np.broadcast_to(found, shape)


def _code(grid: QParams, number: Any) -> int:
    """The code of `number` on a grid of one scale; of floats the byte."""
    if is_number(number):
        quotient = exactly(number) / grid.fraction
        code = _float_code(grid, quotient) if grid.dtype in FLOATS else quotient
        if code is not None and code.denominator == 1:
            code += grid.zero
            if grid.dtype in FLOATS or grid.minimum <= code <= grid.maximum:
                return int(code)
    raise CastError(
        f"{shown(number)} is no code of ({grid.describe()})",
        f"Give a number on the grid, such as {_near(grid, number)}",
    )


def _near(grid: QParams, number: Any) -> str:
    """The number of the nearest code, in full: a scale of 0.1 is a float32."""
    near = 0.0
    if is_number(number) and grid.dtype not in FLOATS:
        exact = _step(grid, number) * grid.fraction
        near = float(exact) if Fraction(float(exact)) == exact else 0.0
    short = f"{near:g}"
    return short if float(short) == near else repr(near)


def _step(grid: QParams, number: Any) -> int:
    """How many steps from real 0 the nearest code is."""
    code = round(exactly(number) / grid.fraction) + grid.zero
    return min(max(code, grid.minimum), grid.maximum) - grid.zero


def _float_code(grid: QParams, quotient: Fraction) -> Fraction | None:
    """The byte of the float that `quotient` is."""
    if abs(quotient) > int(grid.dtype.maximum):
        return None
    found = exact.to_floats(np.array([float(quotient)]), grid.dtype)
    if Fraction(float(found[0])) != quotient:
        return None
    return Fraction(int(found.view(np.uint8)[0]))


#: Steps and the exact scale in units of `out` to rounded steps.
Rounded = Callable[[Any, Fraction], Any]


def _parted(x1: Any, x2: Any) -> tuple[Any, float]:
    """The tensor or spec, and the number."""
    return (x2, x1) if isinstance(x1, (int, float)) else (x1, x2)


def _on_out(name: str) -> Callable[..., TensorSpec]:
    """The rule of deduction of what needs `out=` beside a number."""

    def deduce(x1: Any, x2: Any, *, out: QParams | None = None) -> TensorSpec:
        x, number = _parted(x1, x2)
        if out is None:
            refused(name)(x1, x2)
        _check(number)
        check_integers(out)
        _refuse_rule(name, out)
        return on_grid(x.shape, out)

    return deduce


def _check(number: float) -> None:
    if not (isinstance(number, int) or isfinite(number)):
        raise CastError(f"{number} has no code", "Pass finite numbers")


def _refuse_rule(name: str, out: QParams) -> None:
    """Refuse a rule of rounding other than `exact`."""
    if find_rule(name, out):
        raise OptionError(
            "only rounding='exact' computes with Python numbers",
            "Quantize the number, or pass out=QParams(..., rounding='exact')",
        )


def _rounded(name: str, x1: Any, x2: Any, out: Any, compute: Any) -> Any:
    """compute(steps, scale / step of out, number / step of out), rounded to `out`."""
    x, number = _parted(x1, x2)
    checked(name, (x1, x2), lambda: _check(number))
    check_out(name, out, x1, x2)
    checked(name, (x1, x2), lambda: _refuse_rule(name, out))

    def codes(steps: Any, grid: QParams) -> Any:
        return exact.to_codes(compute(steps, grid.fraction, exactly(number)), out)

    steps = exact.steps_of(x)
    return quantized(by_pieces(codes, out.dtype.storage, (steps, x.qparams)), out)


def _sum(name: str, x1: Any, x2: Any, signs: tuple[int, int], out: Any) -> Any:
    """The tensor by the first sign, and the number by the second."""
    if out is None:
        refuse_mixed(name, x1, x2)

    def total(steps: Any, scale: Fraction, number: Fraction) -> Any:
        ratios = signs[0] * scale / out.fraction, signs[1] * number / out.fraction
        return exact.round_sum((steps, ratios[0]), (np.ones_like(steps), ratios[1]))

    return _rounded(name, x1, x2, out, total)


@method(add, deduce=_on_out("add"))
def add(x1: AffineTensor, x2: PythonNumber, /, *, out: Any = None) -> Any:
    return _sum("add", x1, x2, (1, 1), out)


@method(add, deduce=_on_out("add"))
def add(x1: PythonNumber, x2: AffineTensor, /, *, out: Any = None) -> Any:
    return _sum("add", x1, x2, (1, 1), out)


@method(sub, deduce=_on_out("sub"))
def sub(x1: AffineTensor, x2: PythonNumber, /, *, out: Any = None) -> Any:
    return _sum("sub", x1, x2, (1, -1), out)


@method(sub, deduce=_on_out("sub"))
def sub(x1: PythonNumber, x2: AffineTensor, /, *, out: Any = None) -> Any:
    return _sum("sub", x1, x2, (-1, 1), out)


def _scaled_spec(x1: Any, x2: Any, *, out: QParams | None = None) -> TensorSpec:
    x, number = _parted(x1, x2)
    if out is None:
        return on_grid(x.shape, _scaled_grid(x.qparams, number))
    return _on_out("mul")(x1, x2, out=out)


def _scaled(x1: Any, x2: Any, out: Any) -> Any:
    """x · number; without `out` by scaling the scale, where that is exact."""
    if out is None:
        x, number = _parted(x1, x2)
        grid = checked("mul", (x1, x2), lambda: _scaled_grid(x.qparams, number))
        return x.with_qparams(grid)
    return _rounded(
        "mul",
        x1,
        x2,
        out,
        lambda steps, scale, number: exact.round_sum(
            (steps, scale * number / out.fraction)
        ),
    )


@method(mul, deduce=_scaled_spec)
def mul(x1: AffineTensor, x2: PythonNumber, /, *, out: Any = None) -> Any:
    return _scaled(x1, x2, out)


@method(mul, deduce=_scaled_spec)
def mul(x1: PythonNumber, x2: AffineTensor, /, *, out: Any = None) -> Any:
    return _scaled(x1, x2, out)


def _scaled_grid(grid: QParams, factor: float) -> QParams:
    _check(factor)
    if not factor > 0:
        raise GridError(
            f"a scale times {factor} is no scale{_named(grid)}",
            "Pass out=QParams(...), or use neg(x), or factors above 0",
        )
    wanted = [scale * Fraction(factor) for scale in grid.fractions]
    limit = Fraction(float(np.finfo(np.float64).max))
    scales = np.array([float(min(w, limit)) for w in wanted]).reshape(grid.scale.shape)
    fix = "Pass out=QParams(...)"
    try:
        scaled = grid.replace(scale=scales)
    except GridError as error:
        problem = f"a scale times {factor} is no scale: {error.problem}"
        raise GridError(problem, fix) from None
    if scaled.fractions != wanted:
        problem = (
            f"a scale times {factor} is not exact in the type of scales{_named(grid)}"
        )
        raise GridError(problem, fix)
    return scaled


def _named(grid: QParams) -> str:
    return f"; the grid is ({grid.describe()})"


def _quotient_spec(x1: Any, x2: Any, *, out: QParams | None = None) -> TensorSpec:
    """Of a tensor by a number other than 0."""
    _check_divisor(x2)
    return _on_out("div")(x1, x2, out=out)


def _check_divisor(number: float) -> None:
    if number == 0:
        raise CastError("a quotient by 0 has no code", "Divide by another number")


@method(div, deduce=_quotient_spec)
def div(x1: AffineTensor, x2: PythonNumber, /, *, out: Any = None) -> Any:
    checked("div", (x1, x2), lambda: _check_divisor(x2))
    if out is None:
        refuse_mixed("div", x1, x2)
    return _rounded(
        "div",
        x1,
        x2,
        out,
        lambda steps, scale, number: exact.round_sum(
            (steps, scale / number / out.fraction)
        ),
    )


@method(div, deduce=_on_out("div"))
def div(x1: PythonNumber, x2: AffineTensor, /, *, out: Any = None) -> Any:
    if out is None:
        refuse_mixed("div", x1, x2)
    if x1 == 0 and not exact.steps_of(x2).all():
        raise CastError("0 / 0 has no code", "Mask it first", describe("div", x1, x2))

    def rounded(steps: Any, scale: Fraction, number: Fraction) -> Any:
        sign = np.where(number < 0, -1, 1) * np.ones_like(steps)
        return quotient(sign, steps, abs(number) / scale / out.fraction)

    return _rounded("div", x1, x2, out, rounded)


def _extreme_spec(x1: Any, x2: Any, *, out: QParams | None = None) -> TensorSpec:
    x, number = _parted(x1, x2)
    if out is not None:
        return _on_out("maximum")(x1, x2, out=out)
    if 0 not in x.shape:
        for single in singles(x.qparams):
            codes_of(single, (), number)
    return on_grid(x.shape, x.qparams)


def _extreme(name: str, choose: np.ufunc, x1: Any, x2: Any, out: Any) -> Any:
    """Rounding is monotone, so it commutes with the choice."""
    x, number = _parted(x1, x2)
    if out is None:
        codes = checked(name, (x1, x2), lambda: codes_of(x.qparams, x.shape, number))
        found = choose(x.codes.buffer, codes)
        return x.from_codes(np.asarray(found), x.qparams.rounded(x.rounding))

    def chosen(steps: Any, scale: Fraction, number: Fraction) -> Any:
        other = exact.round_sum((np.ones_like(steps), number / out.fraction))
        return choose(exact.round_sum((steps, scale / out.fraction)), other)

    return _rounded(name, x1, x2, out, chosen)


@method(maximum, deduce=_extreme_spec)
def maximum(x1: AffineTensor, x2: PythonNumber, /, *, out: Any = None) -> Any:
    return _extreme("maximum", np.maximum, x1, x2, out)


@method(maximum, deduce=_extreme_spec)
def maximum(x1: PythonNumber, x2: AffineTensor, /, *, out: Any = None) -> Any:
    return _extreme("maximum", np.maximum, x1, x2, out)


@method(minimum, deduce=_extreme_spec)
def minimum(x1: AffineTensor, x2: PythonNumber, /, *, out: Any = None) -> Any:
    return _extreme("minimum", np.minimum, x1, x2, out)


@method(minimum, deduce=_extreme_spec)
def minimum(x1: PythonNumber, x2: AffineTensor, /, *, out: Any = None) -> Any:
    return _extreme("minimum", np.minimum, x1, x2, out)
