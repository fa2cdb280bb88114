"""Products of host arrays: sums of products over shared axes, and the cross product.

Operands are cast to `dtype`, the type of the result. Floats and complex numbers go
through BLAS, narrow floats in float32 and rounded once. Integers wrap; BLAS adds their
products if a float type holds every sum exactly, else NumPy adds them one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import widen
from mdtensor.kernels.numpy.ufunc import run_and_round

Array = npt.NDArray[Any]
DType = np.dtype[Any]
#: Number of products that NumPy adds faster than it converts integers to floats.
FEW = 8192


def round_to(x: Array, dtype: DType) -> Array:
    """Convert x to `dtype`, rounded once; too large becomes an infinity."""
    return promote(np.asarray(x), dtype)


def matmul(x1: Array, x2: Array, dtype: DType) -> Array:
    """Compute x1 · x2 over [..., m, k], [..., k, n]; vectors as in `numpy.matmul`."""
    if dtype.kind in "iu":
        return _of_integers(*(promote(x, dtype) for x in (x1, x2)))
    return _product(np.matmul, dtype, x1, x2)


def _of_integers(x1: Array, x2: Array) -> Array:
    """Compute x1 · x2 of one integer type; sums wrap."""
    # With a vector, each element has one product, and no conversion pays off.
    is_vector = x1.ndim == 1 or x2.ndim == 1
    if is_vector or x1.size * x2.shape[-1] < FEW:
        return np.asarray(np.matmul(x1, x2))
    bound = x1.shape[-1] * _largest(x1) * _largest(x2)
    # Up to 2**24 and 2**53 every sum is exact in these types, in whatever order BLAS
    # adds; NumPy adds the products of integers one by one.
    for storage, whole in ((np.float32, 2**24), (np.float64, 2**53)):
        if bound <= whole:
            sums = np.matmul(x1.astype(storage), x2.astype(storage))
            return np.asarray(sums.astype(np.int64).astype(x1.dtype))
    return np.asarray(np.matmul(x1, x2))


def _largest(x: Array) -> int:
    """Return the largest magnitude in x."""
    return max(int(x.max(initial=0)), -int(x.min(initial=0)))


def linear(x: Array, w: Array, b: Array | None, dtype: DType) -> Array:
    """Compute x · wᵀ + b over [..., k], [n, k] and [n]."""
    if b is None:
        return matmul(x, w.T, dtype)
    return _product(lambda x, w, b: np.matmul(x, w) + b, dtype, x, w.T, b)


def vecdot(x1: Array, x2: Array, axis: int, dtype: DType) -> Array:
    """Compute Σ conj(x1) · x2 over `axis`, which counts from the end."""
    a, b = (x if axis == -1 else np.moveaxis(x, axis, -1) for x in (x1, x2))
    return _product(np.vecdot, dtype, a, b)


def tensordot(x1: Array, x2: Array, axes: Any, dtype: DType) -> Array:
    """Compute Σ x1 · x2 over pairs of axes."""
    return _product(lambda a, b: np.tensordot(a, b, axes), dtype, x1, x2)


def cross(x1: Array, x2: Array, axis: int, dtype: DType) -> Array:
    """Compute (a₁b₂ - a₂b₁, a₂b₀ - a₀b₂, a₀b₁ - a₁b₀) over `axis`.

    `axis` counts from the end.
    """

    def components(x1: Array, x2: Array) -> Array:
        a, b = np.moveaxis(x1, axis, 0), np.moveaxis(x2, axis, 0)
        parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
        return np.stack(parts, axis)

    return _product(components, dtype, x1, x2)


def matrix_power(x: Array, n: int) -> Array:
    """Compute x · x · ... · x, n factors by repeated squaring; of the inverse if n < 0.

    Raises:
        numpy.linalg.LinAlgError: n < 0 and a matrix is singular.
    """
    return _product(lambda x: np.linalg.matrix_power(x, n), x.dtype, x)


def _product(product: Callable[..., Any], dtype: DType, *operands: Array) -> Array:
    """Compute `product` of operands in `dtype`; narrow floats round at the end only."""
    typed = [widen(promote(x, dtype)) for x in operands]
    return run_and_round(product, dtype, *typed)
