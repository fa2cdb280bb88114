"""Factors of matrices of host arrays, by LAPACK.

A matrix is the last two axes, of float32, float64 or complex. Where LAPACK fails a
kernel raises numpy.linalg.LinAlgError.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.runtime import quiet

Array = npt.NDArray[Any]


@quiet
def cholesky(x: Array, upper: bool) -> Array:
    """L with x = L · Lᴴ, or U = Lᴴ; reads that triangle only."""
    return np.asarray(np.linalg.cholesky(x, upper=upper))


@quiet
def qr(x: Array, mode: str) -> tuple[Array, Array]:
    """Q and R with x = Q · R."""
    q, r = np.linalg.qr(x, mode=mode)  # type: ignore[call-overload]
    return q, r


@quiet
def svd(x: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    """U, S and Vh with x = U · diag(S) · Vh."""
    u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    return u, s, vh


@quiet
def svdvals(x: Array) -> Array:
    """S of `svd`."""
    return np.asarray(np.linalg.svd(x, compute_uv=False))


@quiet
def eig(x: Array) -> tuple[Array, Array]:
    """Eigenvalues in no order, and eigenvectors; both complex."""
    values, vectors = np.linalg.eig(x)
    wide = np.result_type(x, np.complex64)
    return values.astype(wide, copy=False), vectors.astype(wide, copy=False)


@quiet
def eigvals(x: Array) -> Array:
    """The eigenvalues of `eig`."""
    wide = np.result_type(x, np.complex64)
    return np.asarray(np.linalg.eigvals(x), wide)


@quiet
def eigh(x: Array) -> tuple[Array, Array]:
    """Eigenvalues, rising, and eigenvectors; reads the lower triangle only."""
    values, vectors = np.linalg.eigh(x)
    return values, vectors


@quiet
def eigvalsh(x: Array) -> Array:
    """The eigenvalues of `eigh`."""
    return np.asarray(np.linalg.eigvalsh(x))
