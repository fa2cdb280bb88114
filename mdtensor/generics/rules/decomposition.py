"""Rules of factors of matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.generics.options import choice, flag
from mdtensor.generics.rules.elementwise import component
from mdtensor.generics.rules.linalg import (
    check_matrix,
    check_solvable,
    check_square,
)
from mdtensor.generics.shapes import DYNAMIC
from mdtensor.generics.spec import TensorSpec

#: The complex type whose parts are of a real one, under any promotion rules.
COMPLEX = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
MODES = ("reduced", "complete")


class EighResult(NamedTuple):
    """x = Q · diag(eigenvalues) · Qᴴ, where Q are the eigenvectors, by column."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """x · V = V · diag(eigenvalues), where V are the eigenvectors, by column."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """x = Q · R."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """x = U · diag(S) · Vh."""

    U: Any
    S: Any
    Vh: Any


def triangle(x: TensorSpec, *, upper: bool = False) -> TensorSpec:
    """Type and shape of the argument, square matrices."""
    flag(upper, "upper")
    check_solvable(x)
    check_square(x.shape)
    return x


def spectrum(x: TensorSpec) -> TensorSpec:
    """Real type, [..., m]."""
    return component(triangle(x)).with_shape(x.shape[:-1])


def eigenpairs(x: TensorSpec) -> EighResult:
    """[..., m] of the real type, [..., m, m] of the argument's."""
    return EighResult(spectrum(x), x)


def complex_eigenpairs(x: TensorSpec) -> EigResult:
    """[..., m] and [..., m, m] of the complex type."""
    values = complex_spectrum(x)
    return EigResult(values, values.with_shape(x.shape))


def complex_spectrum(x: TensorSpec) -> TensorSpec:
    """[..., m] of the complex type."""
    values = spectrum(x)
    return values.with_dtype(COMPLEX[values.dtype])


def orthogonal_triangular(x: TensorSpec, *, mode: str = "reduced") -> QRResult:
    """[..., m, k] and [..., k, n]; k is m if complete, else the smaller of m and n."""
    smaller = _smaller(x)
    *stack, m, n = x.shape
    k = m if choice(mode, "mode", MODES) == "complete" else smaller
    return QRResult(x.with_shape((*stack, m, k)), x.with_shape((*stack, k, n)))


def singular_values(x: TensorSpec) -> TensorSpec:
    """Real type, [..., k]."""
    return component(x).with_shape((*x.shape[:-2], _smaller(x)))


def singular(x: TensorSpec, *, full_matrices: bool = True) -> SVDResult:
    """[..., m, m], [..., k] and [..., n, n]; the outer two cut to k unless full."""
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
