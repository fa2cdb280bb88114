"""Shape rules of sorting."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import normalize_axis
from mdtensor.spec.spec import TensorSpec


def ordered(
    x: TensorSpec,
    *,
    axis: int = -1,
    descending: bool = False,
    stable: bool = True,
    **_: Any,
) -> TensorSpec:
    """Infer type and shape of the argument."""
    normalize_axis(axis, x.ndim)
    flag(descending, "descending")
    flag(stable, "stable")
    return x


def order(x: TensorSpec, **options: Any) -> TensorSpec:
    """Infer int64 and the shape of the argument."""
    return ordered(x, **options).with_dtype(dtypes.int64)
