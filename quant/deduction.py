"""Shape rules of quantized methods.

The declared rule of an operation gives the shape; the functions here add the type and
the grid of the result, and raise for grids that the operation does not take.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import mdtensor as md
from mdtensor import (
    BoolTensor,
    DType,
    Float32Tensor,
    GridError,
    Operation,
    OptionError,
    PromotionError,
    ShapeError,
    Tensor,
    TensorSpec,
    dtypes,
    leaf,
    result_type,
)
from mdtensor.errors import grids
from mdtensor.extend import (
    along,
    broadcast,
    normalize_axes,
    reduction,
    same,
    shape_rule,
)
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.grids import combine, moves
from mdtensor.quant.presets import admit
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

ShapeRule = Callable[..., TensorSpec]
#: Returns the grid on which a result lies exactly, from the arguments and the number of
#: axes of the result.
GridRule = Callable[..., QParams]
#: An argument of a rule: a spec in inference, a tensor in a method.
Operand = TensorSpec | QuantizedTensor
Axes = int | tuple[int, ...] | None


def on_grid(shape: Iterable[int], grid: QParams | None) -> TensorSpec:
    """Return the spec of a tensor of codes on `grid`, the `out` of a call."""
    if not isinstance(grid, QParams):
        raise OptionError(f"out is a {type(grid).__name__}", "Pass out=QParams(...)")
    return TensorSpec(leaf(grid.dtype), tuple(shape), grid)


def out_grid_rule(
    rule: ShapeRule,
    exact: GridRule | None = None,
    check: Callable[..., None] | None = None,
) -> ShapeRule:
    """Return the rule for a result of the shape of `rule` on the grid `out`.

    Without `out=` the result is exact and lies on the grid of `exact`.

    Args:
        rule: the declared shape rule.
        exact: the grid rule for exact results; None if they do not lie on any grid.
        check: raises for grids that the operation does not take; its `is_rounded` says
            whether the call has an `out`.
    """

    def infer(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        # Shape errors come first: grids per axis can only be checked on a valid shape.
        shape = shape_of(rule, *specs, **options)
        check_integers(out)
        if out is None and exact is None:
            problem = f"no grid represents the result exactly{grids(specs)}"
            raise GridError(problem, "Pass out=QParams(...)")
        if check is not None:
            check(*specs, is_rounded=out is not None)
        if out is None and exact is not None:
            out = exact(*specs, len(shape))
        return on_grid(shape, out)

    return infer


# A rounding rule does not compute every operation. Inference must raise where the call
# would, so these shape rules know their operation (decision 0019).
@dataclass(frozen=True)
class RoundingAware:
    """A shape rule that also raises if the rounding rule of the call does not apply.

    Args:
        rule: the shape rule.
        operation: the name of the operation, which `of` fills in.
    """

    rule: ShapeRule
    operation: str = ""

    def of(self, operation: Operation) -> "RoundingAware":
        """Return this rule for `operation`; registration calls it for each method."""
        return replace(self, operation=operation.name)

    def __call__(self, *specs: Any, **options: Any) -> TensorSpec:
        found = self.rule(*specs, **options)
        admit(self.operation, *specs, **options)
        return found


def input_grid_rule(rule: ShapeRule) -> ShapeRule:
    """Return the rule for a result of the shape of `rule` on `out`.

    Without `out=` the result lies on the grid that all arguments share.
    """

    def infer(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        shape = shape_of(rule, *specs, **options)
        check_integers(out)
        return on_grid(shape, combine.shared_grid(specs, shape) if out is None else out)

    return infer


def check_integers(out: object) -> None:
    """Raise `GridError` if `out` is a grid of floats: operations round to integers."""
    if isinstance(out, QParams) and out.dtype in FLOATS:
        raise GridError(
            f"out is a grid of {out.dtype}: only quantize and requantize round to it",
            "Pass a grid of integers, or compute with dequantize(x) and quantize the "
            "result",
        )


def check_fit(grid: object, shape: tuple[int, ...]) -> QParams:
    """Return `grid`; raise if it is not a grid, or if its scales do not fit `shape`."""
    if not isinstance(grid, QParams):
        number = grid if isinstance(grid, (int, float)) else "..."
        problem = f"qparams is a {type(grid).__name__}"
        raise OptionError(problem, f"Use QParams({number})")
    grid.check_fit(shape, "shape")
    return grid


def infer_extreme(x: TensorSpec, **options: Any) -> TensorSpec:
    """Infer the largest or smallest element: it stays on the grid of the argument."""
    shape = result_shape(md.max, x, **options)
    return on_grid(shape, reduced_grid(x, **options))


def on_one_grid(rule: ShapeRule) -> ShapeRule:
    """Return `rule`, extended to raise if scales differ along `axis`."""

    def infer(x: TensorSpec, *, axis: Axes, **options: Any) -> TensorSpec:
        found = rule(x, axis=axis, **options)
        reduced_grid(x, axis=axis)
        return found

    return infer


def reduced_grid(
    x: Operand, *, axis: Axes, keepdims: bool = False, **_: Any
) -> QParams:
    """Return the grid of the codes that remain after a reduction along `axis`.

    Raises:
        GridError: scales differ along `axis`.
    """
    axes = normalize_axes(axis, x.ndim)
    return moves.reduce(x.qparams, axes, keepdims)


def check_one_scale(x: Operand, *_: Any, **__: Any) -> None:
    """Raise `GridError` if scales differ along an axis."""
    combine.check_one_scale(x)


def _check_slopes(x: Operand, weight: Operand, **_: Any) -> None:
    """Raise `GridError` if scales of the argument or of its slopes differ."""
    combine.check_one_scale(x, weight)


def require_elements(rule: ShapeRule) -> ShapeRule:
    """Return `rule` of a mean, extended to raise for a mean over an empty axis.

    `axis` has a default because the rule of pooling, which averages the last two axes
    of an image, does not have this option.
    """

    def infer(x: TensorSpec, *, axis: Axes = (-2, -1), **options: Any) -> TensorSpec:
        # Pooling rules have neither of the two options.
        given = {"axis": axis, **options} if "keepdims" in options else options
        found = rule(x, **given)
        if 0 in (x.shape[at] for at in normalize_axes(axis, x.ndim)):
            # The mean would be NaN, and codes cannot represent that.
            raise ShapeError("cannot quantize the mean of an empty tensor")
        return found

    return infer


def _infer_sum(
    x: TensorSpec, *, dtype: object = None, out: QParams | None = None, **options: Any
) -> TensorSpec:
    """Infer a sum of elements: exact on a grid of `qint32`, or rounded to `out`."""
    if dtype is not None:
        raise OptionError(
            "a sum of codes is always qint32; dtype= is for sums of dense tensors",
            "Omit dtype=, or use dequantize(x) first",
        )
    shape = shape_of(reduction, x, **options)
    grid = combine.without_zero(reduced_grid(x, **options))
    check_integers(out)
    return on_grid(shape, grid if out is None else out)


# Declared rules promote the types of their operands, and raise for quantized types. A
# stand-in of one type for all operands leaves only the shapes to them.
def shape_of(rule: ShapeRule, *specs: Any, **options: Any) -> tuple[int, ...]:
    """Return the shape that the declared `rule` infers, for operands of any type."""
    return rule(*map(_stand_in, specs), **options).shape


def result_shape(
    operation: Callable[..., Any], *specs: Any, **options: Any
) -> tuple[int, ...]:
    """Return the shape that `operation` declares, for operands of any type."""
    return shape_of(shape_rule(operation), *specs, **options)


def _stand_in(spec: object) -> object:
    return TensorSpec(_StandIn, spec.shape) if isinstance(spec, TensorSpec) else spec


class _StandIn:
    dtype = qint32

    @classmethod
    def with_dtype(cls, _: DType) -> type["_StandIn"]:
        return cls


def comparison(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Infer a comparison: bool, with the broadcast shape."""
    shape = shape_of(broadcast, x1, x2)
    if qint32 in (x1.dtype, x2.dtype):
        _require_integers(x1, x2)
    return TensorSpec(BoolTensor, shape)


def with_number(x1: object, x2: object, **_: Any) -> TensorSpec:
    """Infer a comparison with a Python number: bool, with the shape of the tensor."""
    x = next(x for x in (x1, x2) if isinstance(x, TensorSpec))
    return TensorSpec(BoolTensor, x.shape)


def _require_integers(*specs: TensorSpec) -> None:
    if any(x.dtype in FLOATS for x in specs):
        raise PromotionError(
            f"a QInt32Tensor and 8-bit floats cannot be compared exactly{grids(specs)}",
            "Use requantize(acc, out=QParams(...)) first",
        )


def weight_only(rule: ShapeRule) -> ShapeRule:
    """Return the rule for dequantized arguments: `rule`, in the type of the floats."""

    def infer(*specs: Any, **options: Any) -> TensorSpec:
        found = rule(*map(_as_float_spec, specs), **options)
        return replace(found, type=leaf(type_of_floats(*specs)))

    return infer


def type_of_floats(*arguments: Tensor | TensorSpec | None) -> DType:
    """Return the common type of the arguments that are floats; float32 without any."""
    given = [x for x in arguments if x is not None and x.dtype.is_floating]
    return result_type(*(x.dtype for x in given)) if given else dtypes.float32


def _as_float_spec(spec: object) -> object:
    if isinstance(spec, TensorSpec) and issubclass(spec.type, QuantizedTensor):
        return replace(spec, type=Float32Tensor, qparams=None)
    return spec


def check_row_scales(
    x: Operand, w: Operand, b: Operand | None = None, *, is_rounded: bool = False
) -> None:
    """Raise unless the grids of a product with the rows of `w` can be computed.

    `x` has one scale; `w` has one, or one for each row; the bias lies on the grid of
    the products. A rounded sum also takes scales of `w` that differ inside a row; then
    the products do not have a common grid, and the bias may lie on any.
    """
    combine.check_one_scale(x, others=[t for t in (w, b) if t is not None])
    if w.qparams.is_along(None, 0):
        combine.check_bias_grid(x.qparams, w, b)
    elif not is_rounded:
        raise GridError(
            f"weights have scales along {_where(w.qparams)}",
            "Pass out=QParams(...), or give them one scale for each output channel: "
            "axis=0",
        )


def _where(grid: QParams) -> str:
    blocks = "" if grid.block_size is None else f" in blocks of {grid.block_size}"
    return f"axis {grid.axis}{blocks}"


def check_column_scales(x1: Operand, x2: Operand, *, is_rounded: bool = False) -> None:
    """Raise unless the grids of a product with the columns of `x2` can be computed.

    `x1` has one scale; `x2` has one, or one for each column. A rounded product takes
    any scales of `x2`.
    """
    combine.check_one_scale(x1, others=(x2,))
    if not is_rounded and not has_column_scales(x2):
        raise GridError(
            f"scales along {_where(x2.qparams)} differ inside a sum",
            "Pass out=QParams(...), or give one scale for each output column",
        )


def has_column_scales(x2: Operand) -> bool:
    """Return whether `x2` has one scale, or one for each of its columns.

    Only such a scale is a common factor of all terms of a sum.
    """
    return bool(x2.qparams.is_along(None, max(x2.ndim - 1, 1)))


def _sum_grid(x1: Operand, x2: Operand, _: int) -> QParams:
    return combine.of_sum(x1, x2)


def _product_grid(x1: Operand, x2: Operand, _: int) -> QParams:
    return combine.of_product(x1, x2)


def _conv_grid(x: Operand, w: Operand, *_: Any) -> QParams:
    # Axis 1 of an image has the output channels.
    return combine.of_products(x.qparams, w.qparams, 1)


def _matmul_grid(x: Operand, w: Operand, *rest: Any) -> QParams:
    # The last of `rest` is the number of axes; a bias of `linear` may come before it.
    return combine.of_products(x.qparams, w.qparams, rest[-1] - 1)


curve = RoundingAware(out_grid_rule(same))
rounded_sum = RoundingAware(out_grid_rule(broadcast, _sum_grid))
rounded_product = RoundingAware(out_grid_rule(broadcast, _product_grid))
rounded_quotient = RoundingAware(out_grid_rule(broadcast))
rounded_matmul = RoundingAware(
    out_grid_rule(shape_rule(md.matmul), _matmul_grid, check_column_scales)
)
rounded_linear = RoundingAware(
    out_grid_rule(shape_rule(md.linear), _matmul_grid, check_row_scales)
)
rounded_conv = RoundingAware(
    out_grid_rule(shape_rule(md.conv2d), _conv_grid, check_row_scales)
)
rounded_total = RoundingAware(_infer_sum)
rounded_mean = RoundingAware(require_elements(on_one_grid(out_grid_rule(reduction))))
rounded_softmax = RoundingAware(on_one_grid(out_grid_rule(along)))
rounded_prelu = RoundingAware(out_grid_rule(shape_rule(md.prelu), check=_check_slopes))
rounded_norm = RoundingAware(
    out_grid_rule(shape_rule(md.layer_norm), check=check_one_scale)
)
rounded_window = RoundingAware(
    require_elements(out_grid_rule(shape_rule(md.max_pool2d), check=check_one_scale))
)
rounded_image = RoundingAware(
    require_elements(
        out_grid_rule(shape_rule(md.global_avg_pool2d), check=check_one_scale)
    )
)
on_input_grid = RoundingAware(input_grid_rule(same))
on_common_grid = RoundingAware(input_grid_rule(broadcast))
