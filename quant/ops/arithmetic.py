"""Sums, products, quotients and extremes of quantized tensors.

Without `out=` the result is exact or the call raises; with `out=` the exact result is
rounded once.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    CastError,
    GridError,
    TensorSpec,
    abs,
    add,
    ceil,
    clip,
    div,
    floor,
    maximum,
    method,
    minimum,
    mul,
    neg,
    reciprocal,
    round,
    sign,
    square,
    sub,
    trunc,
)
from mdtensor.errors import checked, describe
from mdtensor.extend import broadcast_shapes, same
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.deduction import (
    GridRule,
    RoundingAware,
    curve,
    on_common_grid,
    on_grid,
    out_grid_rule,
    rounded_product,
    rounded_quotient,
    rounded_sum,
)
from mdtensor.quant.dtypes import qint4, qint8, qint32, quint4, quint8
from mdtensor.quant.grids import combine
from mdtensor.quant.grids.combine import by_pieces
from mdtensor.quant.lookup import build, functions as elementary
from mdtensor.quant.ops.bound import Run, bind_once, bind_step
from mdtensor.quant.ops.errors import (
    check_out,
    require_out,
)
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    find_step,
    make_step,
    require_one_grid,
    require_output_grid,
)
from mdtensor.quant.ops.lookup_calls import (
    bind_clip,
    bind_lookup,
    clip_step,
    infer_clip,
    lookup_step,
    step_of,
)
from mdtensor.quant.ops.pair_tables import (
    by_table,
    is_usual_product,
    is_usual_sum,
    tabulated,
)
from mdtensor.quant.ops.short_codes import round_quickly
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    AffineTensor,
    NarrowTensor,
    QInt16Tensor,
    QInt32Tensor,
    QuantizedTensor,
    ShortTensor,
    quantized,
    spec_of,
    wrap_codes,
)

Array = npt.NDArray[Any]
#: Types whose zero point is always 0.
Symmetric = Union[QInt16Tensor, QInt32Tensor]
IntArray = npt.NDArray[np.int64]


def add_step(
    a: Any, b: Any, /, *, out: QParams | None = None, sign: int = 1
) -> steps.Add | steps.Lookup:
    """Return the step of a + sign · b on `out`; a lookup table if b is a number.

    Args:
        a: the spec of the first operand.
        b: a spec of the same shape, or a constant tensor.
        out: the grid of the result.
        sign: 1 or -1.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    if not isinstance(a, TensorSpec) and (number := _number(b, a)) is not None:
        return lookup_step(build.affine(Fraction(sign), number), b, out)
    if (number := _number(a, b)) is not None:
        return lookup_step(build.affine(Fraction(1), sign * number), a, out)
    # A compiled program does not broadcast.
    if a.shape != b.shape:
        raise NotCompiled("a compiled sum takes equal shapes, or a constant number")
    grids = [
        unsigned_grid(g)
        for g in (require_one_grid(a), require_one_grid(b), require_output_grid(out))
    ]
    target = grids[2]
    ratios = [g.fraction / target.fraction for g in grids[:2]]
    zeros = grids[0].zero, grids[1].zero
    kind: Any = steps.Add if sign > 0 else steps.Sub
    made: steps.Add = make_step(lambda: kind(ratios, zeros, target.zero))
    return made


def _number(a: TensorSpec, b: Any) -> Fraction | None:
    """Return the number of a constant with one element; None for other operands.

    The result has the shape of `a`, so `b` must not have more axes.
    """
    if isinstance(b, TensorSpec) or b.size != 1 or b.ndim > a.ndim:
        return None
    grid: QParams = b.qparams
    if grid.axis is not None:
        return None
    return (int(np.asarray(b.codes).item()) - grid.zero) * grid.fraction


@method(add, deduce=rounded_sum, prepare=add_step)
@bind_once
@tabulated(is_usual_sum)
def add(x1: NarrowTensor, x2: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    _check("add", x1, x2, out)
    if rounding_rule("add", out):
        return lambda x1, x2: rounding_rule("add", out)(x1, x2, out)
    found = None if out is None else _by_kernel(add_step, x1, x2, out)
    return _sum("add", x1, x2, 1, out) if found is None else found


@method(add, deduce=rounded_sum)
@bind_once
def add(x1: AffineTensor, x2: AffineTensor, /, *, out: QParams | None = None) -> Run:
    _check("add", x1, x2, out)
    return _sum("add", x1, x2, 1, out)


def sub_step(a: Any, b: Any, /, *, out: Any = None) -> steps.Add | steps.Lookup:
    """Return the step of a - b on `out`, see `add_step`."""
    return add_step(a, b, out=out, sign=-1)


@method(sub, deduce=rounded_sum, prepare=sub_step)
@bind_once
@tabulated(is_usual_sum)
def sub(x1: NarrowTensor, x2: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    _check("sub", x1, x2, out)
    if rounding_rule("sub", out):
        return lambda x1, x2: rounding_rule("sub", out)(x1, x2, out)
    # neg is exact, so a difference is a sum and needs no kernel of its own.
    call = None if out is None else _by_kernel(add_step, x1, neg(x2), out)
    if call is None:
        return _sum("sub", x1, x2, -1, out)
    return lambda x1, x2: call(x1, neg(x2))


@method(sub, deduce=rounded_sum)
@bind_once
def sub(x1: AffineTensor, x2: AffineTensor, /, *, out: QParams | None = None) -> Run:
    _check("sub", x1, x2, out)
    return _sum("sub", x1, x2, -1, out)


def _check(
    name: str, x1: QuantizedTensor, x2: QuantizedTensor, out: QParams | None
) -> None:
    checked(name, (x1, x2), lambda: broadcast_shapes(x1.shape, x2.shape))
    if out is not None:
        check_out(name, out, x1, x2)


def _by_kernel(
    prepare: Callable[..., Any], x1: QuantizedTensor, x2: QuantizedTensor, out: QParams
) -> Run | None:
    """Bind a call to the step of `prepare`; return None if no kernel can do it."""
    # Kernels take one ratio per operand, so scales along an axis go to integers.
    if (x1.qparams.axis, x2.qparams.axis) != (None, None):
        return None
    specs, shape = [spec_of(x) for x in (x1, x2)], x1.shape
    if x2.shape != shape:
        shape = broadcast_shapes(shape, x2.shape)
        # Steps take equal shapes: laying a small operand out costs less than integers.
        specs = [spec.with_shape(shape) for spec in specs]
    step = find_step(prepare, *specs, out=out)
    if step is None:
        return None
    wide = None if x1.shape == x2.shape else shape
    return bind_step(step, x1, x2, grid=out, shape=wide)


def _sum(
    name: str,
    x1: QuantizedTensor,
    x2: QuantizedTensor,
    sign: int,
    out: QParams | None,
) -> Run:
    """Bind x1 + sign · x2, exact or rounded by the rule of `out`."""
    if rounding_rule(name, out):
        return lambda x1, x2: rounding_rule(name, out)(x1, x2, out)
    if out is not None:

        def ratios_of(g1: QParams, g2: QParams) -> list[Fraction]:
            return [g1.fraction / out.fraction, sign * g2.fraction / out.fraction]

        def codes(a: Array, b: Array, g1: QParams, g2: QParams) -> Array:
            first, second = ratios_of(g1, g2)
            return exact.to_codes(exact.round_sum((a, first), (b, second)), out)

        return lambda x1, x2: _round_to(codes, x1, x2, out, ratios_of)
    grid = checked(name, (x1, x2), lambda: combine.of_sum(x1, x2))

    def run(x1: QuantizedTensor, x2: QuantizedTensor) -> QuantizedTensor:
        if qint32 not in (x1.dtype, x2.dtype):
            short = exact.short_steps(x1), sign * exact.short_steps(x2)
            return QInt32Tensor.wrap(np.asarray(short[0] + short[1]), grid)
        sums = exact.steps_of(x1) + sign * exact.steps_of(x2)
        return _accumulator(name, sums, grid, x1, x2)

    return run


def _round_to(
    codes: Callable[..., Array],
    x1: QuantizedTensor,
    x2: QuantizedTensor,
    out: QParams,
    ratios_of: Callable[..., list[Fraction]] | None = None,
) -> QuantizedTensor:
    """Return the tensor on `out` of codes(steps, steps, grid, grid).

    Args: ratios_of: the ratios of a sum or a product, of two grids with one scale.
    """
    quick = round_quickly(codes, ratios_of, x1, x2, out) if ratios_of else None
    if quick is not None:
        return quick
    operands = [(exact.steps_of(x), x.qparams) for x in (x1, x2)]
    return quantized(by_pieces(codes, out.dtype.storage, *operands), out)


def _accumulator(
    name: str, sums: IntArray, grid: QParams, *arguments: QuantizedTensor
) -> QInt32Tensor:
    checked(name, arguments, lambda: combine.check_fits(sums))
    return QInt32Tensor.wrap(sums.astype(np.int32), grid)


def mul_step(
    a: TensorSpec, b: Any, /, *, out: QParams | None = None
) -> steps.Mul | steps.Lookup:
    """Return the step of a · b on `out`; a lookup table if b is a constant number.

    Args:
        a: the spec of the first operand.
        b: a spec of the same shape or of [n, c, 1, 1], or a constant tensor.
        out: the grid of the result.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    if (number := _number(a, b)) is not None:
        return lookup_step(build.affine(number, Fraction(0)), a, out)
    is_factor = len(a.shape) == 4 and b.shape == (*a.shape[:2], 1, 1)
    if not a.shape or not (a.shape == b.shape or is_factor):
        problem = "a compiled product takes equal shapes, [n, c, 1, 1], or a number"
        raise NotCompiled(problem)
    grids = [
        unsigned_grid(g)
        for g in (require_one_grid(a), require_one_grid(b), require_output_grid(out))
    ]
    ratio = grids[0].fraction * grids[1].fraction / grids[2].fraction
    zeros = grids[0].zero, grids[1].zero
    return make_step(lambda: steps.Mul(ratio, zeros, grids[2].zero))


@method(mul, deduce=rounded_product, prepare=mul_step)
@bind_once
@tabulated(is_usual_product)
def mul(x1: ShortTensor, x2: ShortTensor, /, *, out: QParams | None = None) -> Run:
    _check("mul", x1, x2, out)
    if rounding_rule("mul", out):
        return lambda x1, x2: rounding_rule("mul", out)(x1, x2, out)
    found = None if out is None else _by_kernel(mul_step, x1, x2, out)
    return _product(x1, x2, out) if found is None else found


def _product(x1: QuantizedTensor, x2: QuantizedTensor, out: QParams | None) -> Run:
    if out is not None:

        def ratios_of(g1: QParams, g2: QParams) -> list[Fraction]:
            return [g1.fraction * g2.fraction / out.fraction]

        def codes(a: Array, b: Array, g1: QParams, g2: QParams) -> Array:
            return exact.to_codes(exact.round_sum((a * b, ratios_of(g1, g2)[0])), out)

        return lambda x1, x2: _round_to(codes, x1, x2, out, ratios_of)
    grid = checked("mul", (x1, x2), lambda: combine.of_product(x1, x2))

    def run(x1: QuantizedTensor, x2: QuantizedTensor) -> QuantizedTensor:
        # Both have at most 16 bits, so their product fits 32.
        products = exact.short_steps(x1) * exact.short_steps(x2)
        return QInt32Tensor.wrap(np.asarray(products), grid)

    return run


def div_step(a: TensorSpec, b: Any, /, *, out: QParams | None = None) -> steps.Lookup:
    """Return the lookup step of a / b for a constant number b other than 0.

    Raises:
        NotCompiled: b is not constant, or is 0.
    """
    number = _number(a, b)
    if not number:
        raise NotCompiled("a compiled division needs a constant divisor other than 0")
    return lookup_step(build.affine(1 / number, Fraction(0)), a, out)


@method(div, deduce=rounded_quotient, prepare=div_step)
@bind_once
def div(x1: ShortTensor, x2: ShortTensor, /, *, out: QParams | None = None) -> Run:
    grid = require_out("div", out, x1, x2)
    _check("div", x1, x2, out)
    has_rule = rounding_rule("div", grid) is not None

    def codes(a: Array, b: Array, g1: QParams, g2: QParams) -> Array:
        ratio = g1.fraction / (g2.fraction * grid.fraction)
        a, b = np.broadcast_arrays(a, b)
        return exact.to_codes(exact.round_quotient(a, b, ratio), grid)

    def round(x1: QuantizedTensor, x2: QuantizedTensor) -> Any:
        if has_rule:
            return rounding_rule("div", grid)(x1, x2, grid)
        return _round_to(codes, x1, x2, grid)

    compute = by_table(round, round, x1, x2, grid)

    def run(x1: QuantizedTensor, x2: QuantizedTensor) -> Any:
        # Elements are not part of the key, so this check runs at each call.
        if (exact.is_zero(x1) & exact.is_zero(x2)).any():
            call = describe("div", x1, x2)
            raise CastError("0 / 0 is undefined", "Mask it first", call)
        return compute(x1, x2)

    return run


# Rounding is monotone, so it comes before the choice, as a table of each operand.
def _extreme_step(
    is_maximum: bool, a: TensorSpec, b: Any, out: QParams | None
) -> steps.Extreme | steps.Lookup:
    """Return the step of the larger or smaller of two numbers, on `out`.

    It is a lookup table if b is a constant number.

    Args:
        is_maximum: whether the larger number is taken.
        a: the spec of the first operand.
        b: a spec of the same shape, or a constant tensor.
        out: the grid of the result; None for the grid of both operands.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    source, other = require_one_grid(a), require_one_grid(b)
    if out is None and source != other:
        raise NotCompiled("without out= a compiled extreme takes operands on one grid")
    if (number := _number(a, b)) is not None:
        low, high = (number, None) if is_maximum else (None, number)
        return lookup_step(build.clip(low, high), a, out or source)
    if not a.shape or a.shape != b.shape:
        raise NotCompiled("a compiled extreme takes equal shapes, or a constant number")
    if out is None:
        return steps.Extreme(is_maximum)
    target = unsigned_grid(require_output_grid(out))
    same = build.affine(Fraction(1), Fraction(0))
    first, second = (
        build.lookup_table(same, unsigned_grid(grid), target)
        for grid in (source, other)
    )
    # Operands on one grid share a table, which then comes after the choice.
    tables = (None, None, first) if source == other else (first, second, None)
    return steps.Extreme(is_maximum, tables)


def maximum_step(
    a: TensorSpec, b: Any, /, *, out: QParams | None = None
) -> steps.Extreme | steps.Lookup:
    return _extreme_step(True, a, b, out)


def minimum_step(
    a: TensorSpec, b: Any, /, *, out: QParams | None = None
) -> steps.Extreme | steps.Lookup:
    return _extreme_step(False, a, b, out)


@method(minimum, deduce=on_common_grid, prepare=minimum_step)
@bind_once
def minimum(
    x1: AffineTensor, x2: AffineTensor, /, *, out: QParams | None = None
) -> Run:
    return _extreme("minimum", minimum_step, np.minimum, x1, x2, out)


@method(maximum, deduce=on_common_grid, prepare=maximum_step)
@bind_once
def maximum(
    x1: AffineTensor, x2: AffineTensor, /, *, out: QParams | None = None
) -> Run:
    return _extreme("maximum", maximum_step, np.maximum, x1, x2, out)


def _extreme(
    name: str,
    prepare: Callable[..., Any],
    choose: np.ufunc,
    x1: QuantizedTensor,
    x2: QuantizedTensor,
    out: QParams | None,
) -> Run:
    """Bind the elementwise minimum or maximum."""
    _check(name, x1, x2, out)
    if out is None:
        shape = broadcast_shapes(x1.shape, x2.shape)
        grid = checked(name, (x1, x2), lambda: combine.shared_grid((x1, x2), shape))
        return lambda x1, x2: quantized(choose(x1.code_array, x2.code_array), grid)
    if rounding_rule(name, out):
        return lambda x1, x2: rounding_rule(name, out)(x1, x2, out)

    if (call := _by_kernel(prepare, x1, x2, out)) is not None:
        return call

    # Rounding is monotone, so it may come before the choice.
    def run(*xs: QuantizedTensor) -> QuantizedTensor:
        steps = [exact.rescale_steps(exact.steps_of(x), x.qparams, out) for x in xs]
        return quantized(exact.to_codes(choose(*steps), out), out)

    return run


def _magnitude_grid(grid: QParams) -> QParams:
    """Return the grid of magnitudes: the same scale, unsigned codes, zero point 0."""
    # Magnitudes of n-bit codes are at most 2**n - 1 steps, so unsigned n bits hold all.
    dtype = quint4 if grid.dtype.bits == 4 else quint8
    return grid.replace(zero_point=0, dtype=dtype, narrow_range=False)


def _sign_grid(grid: QParams) -> QParams:
    """Return the grid of -1, 0 and 1, in signed codes of the same width."""
    return QParams(1, dtype=qint4 if grid.dtype.bits == 4 else qint8)


def _infer_magnitude(x: TensorSpec, _: int) -> QParams:
    return _magnitude_grid(x.qparams)


def _infer_sign(x: TensorSpec, _: int) -> QParams:
    return _sign_grid(x.qparams)


def _infer_square(x: TensorSpec, _: int) -> QParams:
    return combine.of_product(x, x)


def _on_grid_or_out(exact: GridRule) -> RoundingAware:
    """Return the shape rule of a result on `out`, or else on the grid `exact`."""
    return RoundingAware(out_grid_rule(same, exact))


@method(abs, deduce=_on_grid_or_out(_infer_magnitude), prepare=step_of(build.magnitude))
@bind_once
def abs(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    if out is None:
        grid = _magnitude_grid(x.qparams)
        return lambda x: quantized(
            exact.to_codes(np.abs(exact.steps_of(x)), grid), grid
        )
    return bind_lookup(abs, build.magnitude, x, out)


@method(sign, deduce=_on_grid_or_out(_infer_sign), prepare=step_of(build.sign))
@bind_once
def sign(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    if out is None:
        grid = _sign_grid(x.qparams)
        return lambda x: quantized(
            exact.to_codes(np.sign(exact.steps_of(x)), grid), grid
        )
    return bind_lookup(sign, build.sign, x, out)


@method(square, deduce=_on_grid_or_out(_infer_square), prepare=step_of(build.square))
@bind_once
def square(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    if out is None:
        grid = checked("square", (x,), lambda: combine.of_product(x, x))
        return lambda x: quantized(exact.to_codes(exact.steps_of(x) ** 2, grid), grid)
    return bind_lookup(square, build.square, x, out)


@method(reciprocal, deduce=curve, prepare=step_of(elementary.reciprocal))
@bind_once
def reciprocal(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(reciprocal, elementary.reciprocal, x, out)


@method(floor, deduce=curve, prepare=step_of(build.floor))
@bind_once
def floor(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(floor, build.floor, x, out)


@method(ceil, deduce=curve, prepare=step_of(build.ceil))
@bind_once
def ceil(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(ceil, build.ceil, x, out)


@method(trunc, deduce=curve, prepare=step_of(build.trunc))
@bind_once
def trunc(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(trunc, build.trunc, x, out)


@method(round, deduce=curve, prepare=step_of(build.nearest))
@bind_once
def round(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(round, build.nearest, x, out)


@method(clip, deduce=RoundingAware(infer_clip), prepare=clip_step)
@bind_once
def clip(
    x: ShortTensor, /, *, min: object, max: object, out: QParams | None = None
) -> Run:
    return bind_clip(clip, x, min, max, out)


def _mirror_grid(grid: QParams) -> QParams:
    """Return the grid of the negated numbers, with codes counted from the other end.

    -(code - zero point) = (ends - code) - (ends - zero point)
    """
    zeros = grid.minimum + grid.maximum - grid.zero_point
    return grid.replace(zero_point=zeros)


@method(neg, deduce=lambda x: on_grid(x.shape, _mirror_grid(x.qparams)))
@bind_once
def neg(x: NarrowTensor, /) -> Run:
    # The sum of both ends mirrors the range, so no code can overflow.
    ends = x.qparams.minimum + x.qparams.maximum
    grid, stored = _mirror_grid(x.qparams), x.dtype.storage

    def run(x: QuantizedTensor) -> QuantizedTensor:
        codes = ends - x.code_array.astype(np.int16)
        # Arithmetic on a 0-d array returns a NumPy scalar, not an array.
        return wrap_codes(type(x), np.asarray(codes, stored), grid, None)

    return run


@method(neg)
def neg(x: Symmetric, /) -> QuantizedTensor:
    bits = x.dtype.bits
    # These types keep their zero point of 0, so the lowest code lacks a counterpart.
    if (x.buffer == -(1 << (bits - 1))).any():
        problem = f"-(-2**{bits - 1}) does not fit {bits} bits"
        raise GridError(problem, "Requantize first", describe("neg", x))
    return x.wrap(np.negative(x.buffer), x.qparams)
