"""Rules of matrix products."""

from __future__ import annotations

from typing import Any

from mdtensor.generics.shapes import linear_shape, matmul_shape
from mdtensor.generics.spec import TensorSpec
from mdtensor.promotion import result_type


def matrix_product(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Promoted type, [..., m, n]."""
    shape = matmul_shape(x1.shape, x2.shape)
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def affine(
    x: TensorSpec, w: TensorSpec, b: TensorSpec | None = None, **_: Any
) -> TensorSpec:
    """Type promoted over all that are given, [..., n]."""
    shape = linear_shape(x.shape, w.shape, b.shape if b else None)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)
