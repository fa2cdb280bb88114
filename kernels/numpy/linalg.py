"""Linear algebra on host arrays by LAPACK: factors, norms, determinants, inverses.

A matrix is the last two axes. Elements are float32, float64 or complex, and keep their
type; norms take narrow floats as well, computed in float32 and rounded once. If LAPACK
fails, a kernel raises numpy.linalg.LinAlgError. Not every routine of LAPACK looks for
NaN, so kernels set eigenvalues of Hermitian matrices, determinants and inverses of a
matrix with NaN to NaN.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quiet, quietly
from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.ufunc import in_float32

Array = npt.NDArray[Any]
Axes = tuple[int, ...]


@quiet
def cholesky(x: Array, upper: bool) -> Array:
    """Compute L with x = L · Lᴴ, or U = Lᴴ; only that triangle of x is read."""
    return np.asarray(np.linalg.cholesky(x, upper=upper))


@quiet
def qr(x: Array, mode: str) -> tuple[Array, Array]:
    """Compute Q and R with x = Q · R."""
    q, r = np.linalg.qr(x, mode=mode)  # type: ignore[call-overload]
    return q, r


@quiet
def svd(x: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    """Compute U, S and Vh with x = U · diag(S) · Vh."""
    u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    return u, s, vh


@quiet
def svdvals(x: Array) -> Array:
    """Compute the S of `svd`."""
    return np.asarray(np.linalg.svd(x, compute_uv=False))


@quiet
def eig(x: Array) -> tuple[Array, Array]:
    """Compute eigenvalues, in any order, and eigenvectors; both are complex."""
    # NumPy returns real arrays if all eigenvalues happen to be real; the type of a
    # result must not depend on the elements.
    values, vectors = np.linalg.eig(x)
    wide = np.result_type(x, np.complex64)
    return values.astype(wide, copy=False), vectors.astype(wide, copy=False)


@quiet
def eigvals(x: Array) -> Array:
    """Compute the eigenvalues of `eig`."""
    wide = np.result_type(x, np.complex64)
    return np.asarray(np.linalg.eigvals(x), wide)


@quiet
def eigh(x: Array) -> tuple[Array, Array]:
    """Compute ascending eigenvalues and eigenvectors, from the lower triangle only."""
    unknown = _has_nan(np.tril(x))
    values, vectors = np.linalg.eigh(_blank(x, unknown))
    return _spoil(values, unknown), _spoil(vectors, unknown)


@quiet
def eigvalsh(x: Array) -> Array:
    """Compute the eigenvalues of `eigh`."""
    unknown = _has_nan(np.tril(x))
    return _spoil(np.linalg.eigvalsh(_blank(x, unknown)), unknown)


@in_float32
def vector_norm(x: Array, axes: Axes, keepdims: bool, order: float) -> Array:
    """Compute (Σ |x|^order)^(1/order) over `axes`.

    The orders inf, -inf and 0 are as in the array API.
    """
    if order == inf:
        return np.asarray(np.abs(x).max(axes, keepdims=keepdims, initial=0))
    if order == -inf:
        return np.asarray(np.abs(x).min(axes, keepdims=keepdims))
    return np.asarray(np.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=order))


@in_float32
def matrix_norm(x: Array, keepdims: bool, order: Any) -> Array:
    """Compute the norm of each matrix; orders as in the array API."""
    if order in (None, "fro"):
        return np.asarray(np.linalg.vector_norm(x, axis=(-2, -1), keepdims=keepdims))
    if order in (2, -2, "nuc"):
        parts = svdvals(x)
    else:
        parts = np.abs(x).sum(axis=-2 if abs(order) == 1 else -1)
    if order == "nuc":
        norms = parts.sum(axis=-1)
    else:
        norms = parts.max(-1, initial=0) if order > 0 else parts.min(-1)
    return np.asarray(norms[..., None, None] if keepdims else norms)


def det(x: Array) -> Array:
    """Compute the determinant of each matrix."""
    return _spoil(quietly(np.linalg.det, x), _has_nan(x))


def slogdet(x: Array) -> tuple[Array, Array]:
    """Compute the sign and the logarithm of the magnitude of each determinant."""
    sign, logarithm = quietly(np.linalg.slogdet, x)
    unknown = _has_nan(x)
    return _spoil(sign, unknown), _spoil(logarithm, unknown)


def inv(x: Array) -> Array:
    """Compute the inverse of each matrix."""
    return _spoil(quietly(np.linalg.inv, x), _has_nan(x))


def solve(x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """Compute y with x1 · y = x2; x2 is a vector [m] or has one in each column."""
    return np.asarray(quietly(np.linalg.solve, promote(x1, dtype), promote(x2, dtype)))


def pinv(x: Array, rtol: Any) -> Array:
    """Compute the pseudo-inverse; singular values of rtol · max or less count as 0."""
    return np.asarray(quietly(np.linalg.pinv, x, rtol=_tolerance(x, rtol)))


def matrix_rank(x: Array, rtol: Any) -> Array:
    """Count the singular values of each matrix above rtol · max, as int64."""
    values = svdvals(x)
    least = quietly(np.multiply, values.max(-1, initial=0), _tolerance(x, rtol))
    return np.asarray(np.count_nonzero(values > least[..., None], axis=-1))


def _has_nan(x: Array) -> Array:
    """Return which matrices hold NaN."""
    return np.asarray(np.isnan(x).any(axis=(-2, -1)))


def _blank(x: Array, unknown: Array) -> Array:
    """Return the matrices, with zeros for each matrix where `unknown` is true."""
    # The iteration may not converge for NaN, and would fail for the whole stack.
    return (
        np.where(unknown[..., None, None], x.dtype.type(0), x) if unknown.any() else x
    )


def _spoil(found: Any, unknown: Array) -> Array:
    """Return the results, with NaN for each matrix where `unknown` is true."""
    result = np.asarray(found)
    if not unknown.any():
        return result
    is_lost = unknown.reshape(unknown.shape + (1,) * (result.ndim - unknown.ndim))
    return np.where(is_lost, result.dtype.type(np.nan), result)


def _tolerance(x: Array, rtol: Any) -> Array:
    """Return `rtol` in the real type of x; the default is max(m, n) · eps."""
    real = np.finfo(x.dtype)
    chosen = max(x.shape[-2:]) * real.eps if rtol is None else rtol
    return np.asarray(quietly(np.asarray, chosen, real.dtype))
