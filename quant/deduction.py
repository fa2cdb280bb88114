"""Rules of deduction for quantized methods: the declared shape, our types."""

from collections.abc import Callable
from typing import Any

from mdtensor import TensorSpec, leaf
from mdtensor.generics.deduction import (
    affine,
    broadcast,
    convolution,
    matrix_product,
    reduction,
    same,
)
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.qparams import QParams

Rule = Callable[..., TensorSpec]


def rounded(rule: Rule) -> Rule:
    """The shape of `rule`, on the grid `out`; without it an exact accumulator."""

    def deduce(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        plain = [_without_grid(spec) for spec in specs]
        shape = rule(*plain, **options).shape
        return TensorSpec(leaf(out.dtype if out else qint32), shape, out)

    return deduce


def kept(rule: Rule) -> Rule:
    """The shape of `rule`, on the grid `out`; without it on the argument's grid."""

    def deduce(*specs: Any, out: QParams | None = None, **options: Any) -> TensorSpec:
        shape = rule(*map(_without_grid, specs), **options).shape
        grid = out or specs[0].qparams
        return TensorSpec(leaf(out.dtype) if out else specs[0].type, shape, grid)

    return deduce


def _without_grid(spec: Any) -> Any:
    """Shape rules promote types; a stand-in keeps quantized types out of that."""
    if not isinstance(spec, TensorSpec):
        return spec
    return TensorSpec(_STAND_IN, spec.shape)


class _StandIn:
    dtype = qint32

    @classmethod
    def with_dtype(cls, _: Any) -> type["_StandIn"]:
        return cls


_STAND_IN = _StandIn

rounded_same = rounded(same)
rounded_broadcast = rounded(broadcast)
rounded_matmul = rounded(matrix_product)
rounded_linear = rounded(affine)
rounded_conv = rounded(convolution)
rounded_reduction = rounded(reduction)
kept_same = kept(same)
kept_broadcast = kept(broadcast)
