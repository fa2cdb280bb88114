"""Rules of deduction for quantized methods: the declared shape, our types and grids."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdtensor import BoolTensor, Float32Tensor, GridError, TensorSpec, leaf
from mdtensor.generics.rules.conv import convolution
from mdtensor.generics.rules.elementwise import broadcast, same
from mdtensor.generics.rules.matmul import affine, matrix_product
from mdtensor.generics.rules.reduction import reduction
from mdtensor.quant import accumulators
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

Rule = Callable[..., TensorSpec]
Grid = Callable[..., QParams]


def on_grid(shape: Any, grid: QParams) -> TensorSpec:
    """The tensor of codes on `grid`."""
    return TensorSpec(leaf(grid.dtype), tuple(shape), grid)


def rounded(rule: Rule, exact: Grid | None = None, *, weights: bool = False) -> Rule:
    """The shape of `rule`, on the grid `out`; without it exact, on the grid `exact`.

    Args:
        rule: the declared one.
        exact: the arguments and the number of axes of the result to a grid; None if
            there is no such grid.
        weights: the first argument has one grid, the others may have many.
    """

    def deduce(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        shape = shape_of(rule, *specs, **options)
        if out is None and exact is None:
            raise GridError("the result is on no grid exactly", "Pass out=QParams(...)")
        if out is not None:
            _refuse_axes(specs[:1] if weights else specs)
        return on_grid(shape, out or exact(*specs, len(shape)))  # type: ignore[misc]

    return deduce


def kept(rule: Rule) -> Rule:
    """The shape of `rule`, on the grid `out`; without it on the arguments' grid."""

    def deduce(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        shape = shape_of(rule, *specs, **options)
        _refuse_axes(specs)
        if out is None and any(x.qparams != specs[0].qparams for x in specs):
            accumulators.refuse_unlike(*specs)
        return on_grid(shape, out or specs[0].qparams)

    return deduce


def _refuse_axes(specs: Any) -> None:
    for spec in specs:
        spec.qparams.refuse_axis("grid")


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
    return TensorSpec(BoolTensor, shape_of(broadcast, x1, x2))


def weight_only(rule: Rule) -> Rule:
    """What `rule` gives for dequantized arguments."""

    def deduce(*specs: Any, **options: Any) -> TensorSpec:
        return rule(*map(_dequantized, specs), **options)

    return deduce


def _dequantized(spec: Any) -> Any:
    if isinstance(spec, TensorSpec) and issubclass(spec.type, QuantizedTensor):
        return replace(spec, type=Float32Tensor, qparams=None)
    return spec


def _sum_grid(x1: Any, x2: Any, _: int) -> QParams:
    return accumulators.of_sum(x1, x2)


def _product_grid(x1: Any, x2: Any, _: int) -> QParams:
    return accumulators.of_product(x1, x2)


def _conv_grid(x: Any, w: Any, *_: Any) -> QParams:
    return accumulators.of_products(x.qparams, w.qparams, 1)


def _matmul_grid(x: Any, w: Any, *rest: Any) -> QParams:
    return accumulators.of_products(x.qparams, w.qparams, rest[-1] - 1)


def _steps_grid(x: Any, _: int) -> QParams:
    return accumulators.of_steps(x)


curve = rounded(same)
rounded_sum = rounded(broadcast, _sum_grid)
rounded_product = rounded(broadcast, _product_grid)
rounded_quotient = rounded(broadcast)
rounded_matmul = rounded(matrix_product, _matmul_grid, weights=True)
rounded_linear = rounded(affine, _matmul_grid, weights=True)
rounded_conv = rounded(convolution, _conv_grid, weights=True)
rounded_mean = rounded(reduction)
accumulated = rounded(reduction, _steps_grid)
kept_same = kept(same)
kept_broadcast = kept(broadcast)
