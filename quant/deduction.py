"""Rules of deduction for quantized methods: the declared shape, our types and grids."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mdtensor import (
    BoolTensor,
    DType,
    Float32Tensor,
    GridError,
    OptionError,
    PromotionError,
    ShapeError,
    TensorSpec,
    dtypes,
    leaf,
    result_type,
)
from mdtensor.errors import grids
from mdtensor.generics.conv import convolution, global_pooling, pooling
from mdtensor.generics.matmul import affine, matrix_product
from mdtensor.generics.reduction import extreme, reduction
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.grids import combine, moves
from mdtensor.quant.presets import admit
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor
from mdtensor.spec.elementwise import along, broadcast, same
from mdtensor.spec.shapes import normalize_axes

Rule = Callable[..., TensorSpec]
Grid = Callable[..., QParams]


def on_grid(shape: Any, grid: QParams | None) -> TensorSpec:
    """The tensor of codes on `grid`."""
    if not isinstance(grid, QParams):
        problem = f"the grid is a {type(grid).__name__}"
        raise OptionError(problem, "Pass out=QParams(...)")
    return TensorSpec(leaf(grid.dtype), tuple(shape), grid)


def rounded(
    rule: Rule, exact: Grid | None = None, check: Callable[..., None] | None = None
) -> Rule:
    """The shape of `rule`, on the grid `out`; without it exact, on the grid `exact`.

    Args:
        rule: the declared one.
        exact: the arguments and the number of axes of the result to a grid; None if
            there is no such grid.
        check: refuses grids that the operation does not take; its `is_rounded` says
            whether there is an `out`.
    """

    def deduce(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        shape = shape_of(rule, *specs, **options)
        check_integers(out)
        if out is None and exact is None:
            problem = f"no grid holds the result exactly{grids(specs)}"
            raise GridError(problem, "Pass out=QParams(...)")
        if check is not None:
            check(*specs, is_rounded=out is not None)
        if out is None and exact is not None:
            out = exact(*specs, len(shape))
        return on_grid(shape, out)

    return deduce


@dataclass(frozen=True)
class Ruled:
    """What `rule` gives, of a call that the rule of rounding in force computes.

    Args:
        rule: of deduction.
        operation: its name, which `of` fills in.
    """

    rule: Rule
    operation: str = ""

    def of(self, operation: Any) -> "Ruled":
        """This rule for an operation that takes `out=`."""
        return replace(self, operation=operation.name)

    def __call__(self, *specs: Any, **options: Any) -> TensorSpec:
        found = self.rule(*specs, **options)
        admit(self.operation, *specs, **options)
        return found


def kept(rule: Rule) -> Rule:
    """The shape of `rule`, on the grid `out`; without it on the arguments' grid."""

    def deduce(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        shape = shape_of(rule, *specs, **options)
        check_integers(out)
        return on_grid(shape, combine.shared_grid(specs, shape) if out is None else out)

    return deduce


def check_integers(out: Any) -> None:
    """Refuse a grid of floats: results are rounded to integers, and once."""
    if isinstance(out, QParams) and out.dtype in FLOATS:
        raise GridError(
            f"out is a grid of {out.dtype}: only quantize and requantize round to it",
            "Pass a grid of integers, or quantize what dequantize(x) gives",
        )


def check_fit(grid: Any, shape: tuple[int, ...]) -> None:
    """Refuse what is no grid, or one whose scales do not fit `shape`."""
    if not isinstance(grid, QParams):
        raise OptionError(f"qparams is a {type(grid).__name__}", "Use QParams(...)")
    grid.check_fit(shape, "shape")


def kept_extreme(x: TensorSpec, **options: Any) -> TensorSpec:
    """The shape of the largest or smallest, on the grid of the argument."""
    shape = shape_of(extreme, x, **options)
    return on_grid(shape, reduced_grid(x, **options))


def on_one_grid(rule: Rule) -> Rule:
    """What `rule` gives for codes that are on one grid along the axis."""

    def deduce(x: TensorSpec, *, axis: Any, **options: Any) -> TensorSpec:
        found = rule(x, axis=axis, **options)
        reduced_grid(x, axis=axis)
        return found

    return deduce


def reduced_grid(x: Any, *, axis: Any, keepdims: bool = False, **_: Any) -> QParams:
    """The grid of what is left of codes along `axis`, a tensor's or a spec's.

    Raises:
        GridError: scales differ along it.
    """
    axes = normalize_axes(axis, x.ndim)
    return moves.reduce(x.qparams, axes, keepdims)


def one_scale(x: Any, *_: Any, **__: Any) -> None:
    """Refuse scales that differ along an axis."""
    combine.check_one_scale(x)


def of_something(rule: Rule) -> Rule:
    """What `rule` gives: a mean over `axis`, by default of images, of some elements."""

    def deduce(x: TensorSpec, *, axis: Any = (-2, -1), **options: Any) -> TensorSpec:
        given = {"axis": axis, **options} if "keepdims" in options else options
        found = rule(x, **given)
        if 0 in (x.shape[at] for at in normalize_axes(axis, x.ndim)):
            raise ShapeError("cannot quantize the mean of an empty tensor")
        return found

    return deduce


def _codes_summed(
    x: TensorSpec, *, dtype: Any = None, out: QParams | None = None, **options: Any
) -> TensorSpec:
    """An exact sum, or one rounded to `out`; codes add up to codes."""
    if dtype is not None:
        raise OptionError(
            "codes add up to qint32 codes, dtype= is for numbers",
            "Omit dtype=, or use dequantize(x) first",
        )
    shape = shape_of(reduction, x, **options)
    grid = combine.without_zero(reduced_grid(x, **options))
    check_integers(out)
    return on_grid(shape, grid if out is None else out)


def shape_of(rule: Rule, *specs: Any, **options: Any) -> tuple[int, ...]:
    """The shape that `rule` gives; a stand-in keeps quantized types from promotion."""
    return rule(*map(_stand_in, specs), **options).shape


def _stand_in(spec: Any) -> Any:
    return TensorSpec(_StandIn, spec.shape) if isinstance(spec, TensorSpec) else spec


class _StandIn:
    dtype = qint32

    @classmethod
    def with_dtype(cls, _: Any) -> type["_StandIn"]:
        return cls


def comparison(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Bool, broadcast shape."""
    shape = shape_of(broadcast, x1, x2)
    if qint32 in (x1.dtype, x2.dtype):
        _refuse_floats(x1, x2)
    return TensorSpec(BoolTensor, shape)


def with_number(x1: Any, x2: Any, **_: Any) -> TensorSpec:
    """Bool, the shape of the tensor."""
    x = x1 if isinstance(x1, TensorSpec) else x2
    return TensorSpec(BoolTensor, x.shape)


def _refuse_floats(*specs: TensorSpec) -> None:
    if any(x.dtype in FLOATS for x in specs):
        raise PromotionError(
            f"an accumulator and a float grid do not compare exactly{grids(specs)}",
            "Use requantize(acc, out=QParams(...)) first",
        )


def weight_only(rule: Rule) -> Rule:
    """What `rule` gives for dequantized arguments, in the type of the floats."""

    def deduce(*specs: Any, **options: Any) -> TensorSpec:
        found = rule(*map(_dequantized, specs), **options)
        return replace(found, type=leaf(type_of_floats(*specs)))

    return deduce


def type_of_floats(*arguments: Any) -> DType:
    """The joint type of tensors or specs that are floats; float32 of codes alone."""
    given = [x for x in arguments if x is not None and x.dtype.is_floating]
    return result_type(*(x.dtype for x in given)) if given else dtypes.float32


def _dequantized(spec: Any) -> Any:
    if isinstance(spec, TensorSpec) and issubclass(spec.type, QuantizedTensor):
        return replace(spec, type=Float32Tensor, qparams=None)
    return spec


def by_rows(x: Any, w: Any, b: Any = None, *, is_rounded: bool = False) -> None:
    """One grid for x; one a row of w, or one, and a bias on the grid of the products.

    Where the sum is rounded, scales of w may differ inside it. There is no grid of the
    products then, and the bias is on any.
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


def by_columns(x1: Any, x2: Any, *, is_rounded: bool = False) -> None:
    """One grid for x1; one a column of x2 or one, any where it is rounded."""
    combine.check_one_scale(x1, others=(x2,))
    if not is_rounded and not leaves_sum(x2):
        raise GridError(
            f"scales along {_where(x2.qparams)} cannot leave the sum",
            "Pass out=QParams(...), or give one scale for each output column",
        )


def leaves_sum(x2: Any) -> bool:
    """Whether the scales of a second factor are those of columns, or one."""
    return bool(x2.qparams.is_along(None, max(x2.ndim - 1, 1)))


def _sum_grid(x1: Any, x2: Any, _: int) -> QParams:
    return combine.of_sum(x1, x2)


def _product_grid(x1: Any, x2: Any, _: int) -> QParams:
    return combine.of_product(x1, x2)


def _conv_grid(x: Any, w: Any, *_: Any) -> QParams:
    return combine.of_products(x.qparams, w.qparams, 1)


def _matmul_grid(x: Any, w: Any, *rest: Any) -> QParams:
    return combine.of_products(x.qparams, w.qparams, rest[-1] - 1)


curve = Ruled(rounded(same))
rounded_sum = Ruled(rounded(broadcast, _sum_grid))
rounded_product = Ruled(rounded(broadcast, _product_grid))
rounded_quotient = Ruled(rounded(broadcast))
rounded_matmul = Ruled(rounded(matrix_product, _matmul_grid, by_columns))
rounded_linear = Ruled(rounded(affine, _matmul_grid, by_rows))
rounded_conv = Ruled(rounded(convolution, _conv_grid, by_rows))
rounded_total = Ruled(_codes_summed)
rounded_mean = Ruled(of_something(on_one_grid(rounded(reduction))))
rounded_share = Ruled(on_one_grid(rounded(along)))
rounded_window = Ruled(of_something(rounded(pooling, check=one_scale)))
rounded_image = Ruled(of_something(rounded(global_pooling, check=one_scale)))
kept_same = Ruled(kept(same))
kept_broadcast = Ruled(kept(broadcast))
