"""Sums, products and extremes of quantized tensors.

Without `out=` a result is exact or refused; with it the exact result is rounded once.
"""

from fractions import Fraction
from typing import Any, Union

import numpy as np

from mdtensor import (
    CastError,
    ComplexTensor,
    LogicalTensor,
    NumericTensor,
    RealTensor,
    TensorSpec,
    add,
    div,
    maximum,
    method,
    minimum,
    mul,
    neg,
    sub,
)
from mdtensor.errors import checked, describe
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.deduction import (
    on_common_grid,
    rounded_product,
    rounded_quotient,
    rounded_sum,
)
from mdtensor.quant.grids import combine
from mdtensor.quant.grids.combine import by_pieces
from mdtensor.quant.lookup import build
from mdtensor.quant.ops.activation import lookup_step
from mdtensor.quant.ops.bound import bound, bound_step
from mdtensor.quant.ops.errors import check_out, refuse_mixed, refused, require_out
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    compiled,
    narrow,
    step_of_codes,
    whole,
)
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    AffineTensor,
    NarrowTensor,
    QInt32Tensor,
    QuantizedTensor,
    ShortTensor,
    quantized,
    spec_of,
)
from mdtensor.spec.shapes import broadcast_shapes

# What has no meaning together: each operation refuses it with the way out.
Anything = Union[QuantizedTensor, NumericTensor, LogicalTensor, int, float, complex]
#: What has an order, and what has none.
Ordered = Union[QuantizedTensor, RealTensor, LogicalTensor, int, float]
Complex = Union[ComplexTensor, complex]


def add_step(
    a: TensorSpec, b: Any, /, *, out: QParams | None = None
) -> steps.Add | steps.Lookup:
    """Codes on three grids; b is like a, or a constant number, for which it is a table.

    Args:
        b: a spec, or the constant itself.
    """
    if (number := _number(a, b)) is not None:
        return lookup_step(build.affine(Fraction(1), number), a, out)
    if a.shape != b.shape:
        raise NotCompiled("a compiled sum takes equal shapes, or a constant number")
    grids = [unsigned_grid(g) for g in (whole(a), whole(b), narrow(out))]
    target = grids[2]
    ratios = [g.fraction / target.fraction for g in grids[:2]]
    zeros = grids[0].zero, grids[1].zero
    return compiled(lambda: steps.Add(ratios, zeros, target.zero))


def _number(a: TensorSpec, b: Any) -> Fraction | None:
    """The number in a constant of one element that leaves the shape of `a` as it is."""
    if isinstance(b, TensorSpec) or b.size != 1 or b.ndim > a.ndim:
        return None
    grid: QParams = b.qparams
    if grid.axis is not None:
        return None
    return (int(np.asarray(b.codes).item()) - grid.zero) * grid.fraction


@method(add, deduce=rounded_sum, prepare=add_step)
@bound
def add(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    _check("add", x1, x2, out)
    if ruled("add", out):
        return lambda x1, x2: ruled("add", out)(x1, x2, out)
    found = None if out is None else _by_kernel(add_step, x1, x2, out)
    return _sum("add", x1, x2, 1, out) if found is None else found


@method(add, deduce=rounded_sum)
@bound
def add(x1: AffineTensor, x2: AffineTensor, /, *, out: Any = None) -> Any:
    _check("add", x1, x2, out)
    return _sum("add", x1, x2, 1, out)


@method(add, deduce=refused("add"))
def add(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("add", x1, x2)


@method(sub, deduce=rounded_sum)
@bound
def sub(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    _check("sub", x1, x2, out)
    if ruled("sub", out):
        return lambda x1, x2: ruled("sub", out)(x1, x2, out)
    call = None if out is None else _by_kernel(add_step, x1, neg(x2), out)
    if call is None:
        return _sum("sub", x1, x2, -1, out)
    return lambda x1, x2: call(x1, neg(x2))


@method(sub, deduce=rounded_sum)
@bound
def sub(x1: AffineTensor, x2: AffineTensor, /, *, out: Any = None) -> Any:
    _check("sub", x1, x2, out)
    return _sum("sub", x1, x2, -1, out)


@method(sub, deduce=refused("sub"))
def sub(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("sub", x1, x2)


def _check(name: str, x1: Any, x2: Any, out: Any) -> None:
    checked(name, (x1, x2), lambda: broadcast_shapes(x1.shape, x2.shape))
    if out is not None:
        check_out(name, out, x1, x2)


def _by_kernel(prepare: Any, x1: Any, x2: Any, out: QParams) -> Any:
    """Bind to the step of `prepare`, which takes equal shapes; None without one."""
    if (x1.qparams.axis, x2.qparams.axis) != (None, None):
        return None
    specs, shape = [spec_of(x) for x in (x1, x2)], x1.shape
    if x2.shape != shape:
        shape = broadcast_shapes(shape, x2.shape)
        specs = [spec.with_shape(shape) for spec in specs]
    step = step_of_codes(prepare, *specs, out=out)
    if step is None:
        return None
    wide = None if x1.shape == x2.shape else shape
    return bound_step(step, x1, x2, grid=out, shape=wide)


def _sum(name: str, x1: Any, x2: Any, sign: int, out: QParams | None) -> Any:
    """Bind the exact sum or difference, by the rule of `out`."""
    if ruled(name, out):
        return lambda x1, x2: ruled(name, out)(x1, x2, out)
    if out is not None:

        def codes(a: Any, b: Any, g1: QParams, g2: QParams) -> Any:
            ratios = g1.fraction / out.fraction, sign * g2.fraction / out.fraction
            return exact.to_codes(exact.round_sum((a, ratios[0]), (b, ratios[1])), out)

        return lambda x1, x2: _rounded(codes, x1, x2, out)
    grid = checked(name, (x1, x2), lambda: combine.of_sum(x1, x2))

    def run(x1: Any, x2: Any) -> Any:
        sums = exact.steps_of(x1) + sign * exact.steps_of(x2)
        return _accumulator(name, sums, grid, x1, x2)

    return run


def _rounded(codes: Any, x1: Any, x2: Any, out: QParams) -> Any:
    """The tensor of codes(steps, steps, grid, grid) on `out`."""
    operands = [(exact.steps_of(x), x.qparams) for x in (x1, x2)]
    return quantized(by_pieces(codes, out.dtype.storage, *operands), out)


def _accumulator(name: str, sums: Any, grid: QParams, *arguments: Any) -> QInt32Tensor:
    checked(name, arguments, lambda: combine.check_fits(sums))
    return QInt32Tensor.wrap(sums.astype(np.int32), grid)


def mul_step(
    a: TensorSpec, b: Any, /, *, out: QParams | None = None
) -> steps.Mul | steps.Lookup:
    """Codes on three grids; b is like a, a factor per image and channel, or a number.

    Args:
        b: a spec, or the constant itself.
    """
    if (number := _number(a, b)) is not None:
        return lookup_step(build.affine(number, Fraction(0)), a, out)
    is_factor = len(a.shape) == 4 and b.shape == (*a.shape[:2], 1, 1)
    if not a.shape or not (a.shape == b.shape or is_factor):
        problem = "a compiled product takes equal shapes, [n, c, 1, 1], or a number"
        raise NotCompiled(problem)
    grids = [unsigned_grid(g) for g in (whole(a), whole(b), narrow(out))]
    ratio = grids[0].fraction * grids[1].fraction / grids[2].fraction
    zeros = grids[0].zero, grids[1].zero
    return compiled(lambda: steps.Mul(ratio, zeros, grids[2].zero))


@method(mul, deduce=rounded_product, prepare=mul_step)
@bound
def mul(x1: ShortTensor, x2: ShortTensor, /, *, out: Any = None) -> Any:
    _check("mul", x1, x2, out)
    if ruled("mul", out):
        return lambda x1, x2: ruled("mul", out)(x1, x2, out)
    found = None if out is None else _by_kernel(mul_step, x1, x2, out)
    return _product(x1, x2, out) if found is None else found


def _product(x1: Any, x2: Any, out: QParams | None) -> Any:
    if out is not None:

        def codes(a: Any, b: Any, g1: QParams, g2: QParams) -> Any:
            ratio = g1.fraction * g2.fraction / out.fraction
            return exact.to_codes(exact.round_sum((a * b, ratio)), out)

        return lambda x1, x2: _rounded(codes, x1, x2, out)
    grid = checked("mul", (x1, x2), lambda: combine.of_product(x1, x2))

    def run(x1: Any, x2: Any) -> Any:
        products = exact.steps_of(x1) * exact.steps_of(x2)
        return _accumulator("mul", products, grid, x1, x2)

    return run


@method(mul, deduce=refused("mul"))
def mul(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("mul", x1, x2)


def div_step(a: TensorSpec, b: Any, /, *, out: QParams | None = None) -> steps.Lookup:
    """Codes by a constant number other than 0: a table.

    Args:
        b: the constant itself; of a spec there is no step.
    """
    number = _number(a, b)
    if not number:
        raise NotCompiled("a compiled quotient takes a constant number other than 0")
    return lookup_step(build.affine(1 / number, Fraction(0)), a, out)


@method(div, deduce=rounded_quotient, prepare=div_step)
@bound
def div(x1: ShortTensor, x2: ShortTensor, /, *, out: Any = None) -> Any:
    grid = require_out("div", out, x1, x2)
    _check("div", x1, x2, out)
    is_ruled = ruled("div", grid) is not None

    def codes(a: Any, b: Any, g1: QParams, g2: QParams) -> Any:
        ratio = g1.fraction / (g2.fraction * grid.fraction)
        a, b = np.broadcast_arrays(a, b)
        return exact.to_codes(quotient(a, b, ratio), grid)

    def run(x1: Any, x2: Any) -> Any:
        a, b = (exact.steps_of(x) for x in (x1, x2))
        if ((a == 0) & (b == 0)).any():
            call = describe("div", x1, x2)
            raise CastError("0 / 0 has no code", "Mask it first", call)
        if is_ruled:
            return ruled("div", grid)(x1, x2, grid)
        return _rounded(codes, x1, x2, grid)

    return run


def quotient(a: Any, b: Any, ratio: Fraction) -> Any:
    """round(a / b · ratio), cut to ±2**40; a / 0 is infinite.

    Float64 decides all but near ties: one rational for each distinct pair of these.
    """
    if not 1 / exact.FINITE < ratio < exact.FINITE:
        return _quotient_exactly(a.ravel(), b.ravel(), ratio).reshape(a.shape)
    with np.errstate(divide="ignore"):
        found = np.clip(a / b * float(ratio), -exact.LARGE, exact.LARGE)
    nearest = np.rint(found)
    error = np.abs(found) * exact.ERROR
    doubt = np.abs(np.abs(found - nearest) - 0.5) <= error
    rounded = np.asarray(nearest, np.int64)
    rounded[doubt] = _quotient_exactly(a[doubt], b[doubt], ratio)
    return rounded


def _quotient_exactly(a: Any, b: Any, ratio: Fraction) -> Any:
    pairs, index = np.unique(np.stack([a, b], 1), axis=0, return_inverse=True)
    limit = int(exact.LARGE)
    values = [
        min(max(round(Fraction(int(p), int(q)) * ratio), -limit), limit)
        if q
        else int(np.sign(p)) * limit
        for p, q in pairs
    ]
    return np.array(values, np.int64)[index.ravel()]


@method(div, deduce=refused("div"))
def div(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("div", x1, x2)


@method(minimum, deduce=on_common_grid)
@bound
def minimum(x1: AffineTensor, x2: AffineTensor, /, *, out: Any = None) -> Any:
    return _extreme("minimum", np.minimum, x1, x2, out)


@method(minimum, deduce=refused("minimum"))
def minimum(x1: Ordered, x2: Ordered, /, *, out: Any = None) -> Any:
    refuse_mixed("minimum", x1, x2)


@method(minimum, deduce=refused("minimum"))
def minimum(x1: QuantizedTensor, x2: Complex, /, *, out: Any = None) -> Any:
    refuse_mixed("minimum", x1, x2)


@method(minimum, deduce=refused("minimum"))
def minimum(x1: Complex, x2: QuantizedTensor, /, *, out: Any = None) -> Any:
    refuse_mixed("minimum", x1, x2)


@method(maximum, deduce=on_common_grid)
@bound
def maximum(x1: AffineTensor, x2: AffineTensor, /, *, out: Any = None) -> Any:
    return _extreme("maximum", np.maximum, x1, x2, out)


@method(maximum, deduce=refused("maximum"))
def maximum(x1: Ordered, x2: Ordered, /, *, out: Any = None) -> Any:
    refuse_mixed("maximum", x1, x2)


@method(maximum, deduce=refused("maximum"))
def maximum(x1: QuantizedTensor, x2: Complex, /, *, out: Any = None) -> Any:
    refuse_mixed("maximum", x1, x2)


@method(maximum, deduce=refused("maximum"))
def maximum(x1: Complex, x2: QuantizedTensor, /, *, out: Any = None) -> Any:
    refuse_mixed("maximum", x1, x2)


def _extreme(name: str, choose: np.ufunc, x1: Any, x2: Any, out: Any) -> Any:
    """Bind an extreme: rounding is monotone, so it commutes with the choice."""
    _check(name, x1, x2, out)
    if out is None:
        shape = broadcast_shapes(x1.shape, x2.shape)
        grid = checked(name, (x1, x2), lambda: combine.shared((x1, x2), shape))
        return lambda x1, x2: quantized(choose(x1.code_array, x2.code_array), grid)
    if ruled(name, out):
        return lambda x1, x2: ruled(name, out)(x1, x2, out)

    def run(*xs: Any) -> Any:
        steps = [exact.rescale_steps(exact.steps_of(x), x.qparams, out) for x in xs]
        return quantized(exact.to_codes(choose(*steps), out), out)

    return run
