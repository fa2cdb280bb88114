"""Rules of normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.errors import ShapeError
from mdtensor.generics.shapes import DYNAMIC, Shape
from mdtensor.generics.spec import TensorSpec


def per_channel(x: TensorSpec, *statistics: TensorSpec, **_: Any) -> TensorSpec:
    """Type and shape of the first argument, whose axis 1 holds the channels."""
    check_statistics(x.shape, 1, [s.shape for s in statistics])
    return x


def folded(
    w: TensorSpec, b: TensorSpec | None, *statistics: TensorSpec, **_: Any
) -> tuple[TensorSpec, TensorSpec]:
    """Weights and bias, both of the type of the weights."""
    given = [s.shape for s in (b, *statistics) if s is not None]
    check_statistics(w.shape, 0, given)
    return w, w.with_shape(w.shape[:1])


def check_statistics(shape: Shape, axis: int, statistics: Sequence[Shape]) -> None:
    """Refuse statistics that are not one number for each index of `axis`."""
    if len(shape) <= axis:
        raise ShapeError(f"no axis of channels in shape {shape}")
    for found in statistics:
        if found != shape[axis : axis + 1] and DYNAMIC not in (*found, shape[axis]):
            raise ShapeError(
                f"a statistic has shape {found}, there are {shape[axis]} channels",
                f"Give it shape ({shape[axis]},)",
            )
