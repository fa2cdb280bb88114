"""Shape rules of matrix decompositions."""

from __future__ import annotations

from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.generics.rules.linalg import (
    check_matrix,
    check_solvable,
    check_square,
)
from mdtensor.spec.elementwise import component
from mdtensor.spec.options import choice, flag
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec

#: The complex type whose parts are of a real one, under any promotion rules.
COMPLEX = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
MODES = ("reduced", "complete")


class EighResult(NamedTuple):
    """The result of `eigh`: x = Q · diag(eigenvalues) · Qᴴ, eigenvectors by column."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """The result of `eig`: x · V = V · diag(eigenvalues), eigenvectors by column."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """The result of `qr`: x = Q · R."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """The result of `svd`: x = U · diag(S) · Vh."""

    U: Any
    S: Any
    Vh: Any


def triangle(x: TensorSpec, *, upper: bool = False) -> TensorSpec:
    """Infer type and shape of the argument, square matrices."""
    flag(upper, "upper")
    check_solvable(x)
    check_square(x.shape)
    return x


def spectrum(x: TensorSpec) -> TensorSpec:
    """Infer the real type and [..., m]."""
    return component(triangle(x)).with_shape(x.shape[:-1])


def eigenpairs(x: TensorSpec) -> EighResult:
    """Infer [..., m] of the real type and [..., m, m] of the argument's type."""
    return EighResult(spectrum(x), x)


def complex_eigenpairs(x: TensorSpec) -> EigResult:
    """Infer [..., m] and [..., m, m] of the complex type."""
    values = complex_spectrum(x)
    return EigResult(values, values.with_shape(x.shape))


def complex_spectrum(x: TensorSpec) -> TensorSpec:
    """Infer [..., m] of the complex type."""
    values = spectrum(x)
    return values.with_dtype(COMPLEX[values.dtype])


def orthogonal_triangular(x: TensorSpec, *, mode: str = "reduced") -> QRResult:
    """Infer [..., m, k] and [..., k, n]; k is m or the smaller of m and n."""
    smaller = _smaller(x)
    *stack, m, n = x.shape
    k = m if choice(mode, "mode", MODES) == "complete" else smaller
    return QRResult(x.with_shape((*stack, m, k)), x.with_shape((*stack, k, n)))


def singular_values(x: TensorSpec) -> TensorSpec:
    """Infer the real type and [..., k]."""
    return component(x).with_shape((*x.shape[:-2], _smaller(x)))


def singular(x: TensorSpec, *, full_matrices: bool = True) -> SVDResult:
    """Infer [..., m, m], [..., k], [..., n, n]; the outer two cut to k unless full."""
    values, (*stack, m, n) = singular_values(x), x.shape
    is_full = flag(full_matrices, "full_matrices")
    left, right = (m, n) if is_full else values.shape[-1:] * 2
    return SVDResult(
        x.with_shape((*stack, m, left)), values, x.with_shape((*stack, right, n))
    )


def _smaller(x: TensorSpec) -> int:
    check_solvable(x)
    check_matrix(x.shape)
    m, n = x.shape[-2:]
    return DYNAMIC if DYNAMIC in (m, n) else min(m, n)
