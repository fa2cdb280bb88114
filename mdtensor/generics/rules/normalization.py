"""Shape rules of normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.spec.options import number
from mdtensor.spec.shapes import (
    DYNAMIC,
    Shape,
    are_like,
    integers,
    is_size,
    normalize_axes,
)
from mdtensor.spec.spec import TensorSpec


def per_channel(
    x: TensorSpec, *statistics: TensorSpec, eps: float = 1e-5
) -> TensorSpec:
    """Infer type and shape of the first argument; axis 1 holds the channels."""
    number(eps, "eps", least=0)
    check_statistics(x.shape, 1, [s.shape for s in statistics])
    return x


def folded(
    w: TensorSpec, b: TensorSpec | None, *statistics: TensorSpec, eps: float = 1e-5
) -> tuple[TensorSpec, TensorSpec]:
    """Infer weights and bias, both of the type of the weights."""
    number(eps, "eps", least=0)
    given = [s.shape for s in (b, *statistics) if s is not None]
    check_statistics(w.shape, 0, given)
    return w, w.with_shape(w.shape[:1])


def check_statistics(shape: Shape, axis: int, statistics: Sequence[Shape]) -> None:
    """Raise unless each statistic has one number per index of `axis`."""
    if len(shape) <= axis:
        raise ShapeError(f"shape {shape} does not have an axis of channels")
    for found in statistics:
        if not are_like(found, shape[axis : axis + 1]):
            raise ShapeError(
                f"a statistic has shape {found}, there are {shape[axis]} channels",
                f"Give it shape ({shape[axis]},)",
            )


def over_last(
    x: TensorSpec,
    *weights: TensorSpec | None,
    normalized_shape: Any,
    eps: float | None = None,
) -> TensorSpec:
    """Infer type and shape of an argument that ends in `normalized_shape`."""
    if eps is not None:
        number(eps, "eps", least=0)
    sizes = normalized_sizes(normalized_shape)
    last = x.shape[max(x.ndim - len(sizes), 0) :]
    if len(last) != len(sizes) or not _fits(last, sizes):
        raise ShapeError(f"shape {x.shape} does not end in {sizes}")
    for weight in filter(None, weights):
        if weight.ndim != len(sizes) or not _fits(weight.shape, sizes):
            raise ShapeError(
                f"a weight has shape {weight.shape}, the normalized shape is {sizes}",
                f"Give it shape {sizes}",
            )
    return x


def normalized_sizes(normalized_shape: Any) -> Shape:
    """Return the sizes of the last axes, at least one."""
    fix = "Use one size from 0 or more"
    sizes = integers(normalized_shape, "normalized_shape", fix)
    if not sizes or min(sizes) < 0:
        raise OptionError(f"normalized_shape is {shown(normalized_shape)}", fix)
    return sizes


def _fits(known: Shape, sizes: Shape) -> bool:
    return all(m in (n, DYNAMIC) for m, n in zip(known, sizes, strict=True))


def grouped(
    x: TensorSpec,
    weight: TensorSpec | None = None,
    bias: TensorSpec | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> TensorSpec:
    """Infer type and shape of an argument whose channels split into groups."""
    number(eps, "eps", least=0)
    check_statistics(x.shape, 1, [w.shape for w in (weight, bias) if w is not None])
    channels = x.shape[1]
    if not is_size(num_groups) or num_groups < 1:
        raise OptionError(
            f"num_groups is {shown(num_groups)}", "Use an integer from 1 on"
        )
    if channels != DYNAMIC and channels % num_groups:
        raise ShapeError(f"{channels} channels do not split into {num_groups} groups")
    return x


def over_spatial(
    x: TensorSpec,
    weight: TensorSpec | None = None,
    bias: TensorSpec | None = None,
    *,
    eps: float = 1e-5,
) -> TensorSpec:
    """Infer type and shape of an argument with axes after its channels."""
    if x.ndim < 3:
        raise ShapeError(f"shape {x.shape} ends at the channels, axis 1")
    return grouped(x, weight, bias, num_groups=1, eps=eps)


def to_unit(x: TensorSpec, *, p: float, axis: Any, eps: float) -> TensorSpec:
    """Infer type and shape of the argument."""
    number(eps, "eps", least=0)
    if not number(p, "p") > 0:
        raise OptionError(f"p is {shown(p)}", "Use a number above 0")
    normalize_axes(axis, x.ndim)
    return x
