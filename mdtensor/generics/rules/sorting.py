"""Rules of operations that order elements."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.generics.options import flag
from mdtensor.generics.shapes import normalize_axis
from mdtensor.generics.spec import TensorSpec


def ordered(
    x: TensorSpec,
    *,
    axis: int = -1,
    descending: bool = False,
    stable: bool = True,
    **_: Any,
) -> TensorSpec:
    """Type and shape of the argument."""
    normalize_axis(axis, x.ndim)
    flag(descending, "descending")
    flag(stable, "stable")
    return x


def order(x: TensorSpec, **options: Any) -> TensorSpec:
    """Int64, the shape of the argument."""
    return ordered(x, **options).with_dtype(dtypes.int64)
