"""Matrix decompositions. The last two axes are a matrix, the others a stack."""

from __future__ import annotations

from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.dispatch.operation import generic
from mdtensor.generics.linalg import check_matrix, check_solvable, check_square
from mdtensor.spec.elementwise import component
from mdtensor.spec.options import choice, flag
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec

# Shape rules of matrix decompositions.

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


def infer_cholesky(x: TensorSpec, *, upper: bool = False) -> TensorSpec:
    """Infer type and shape of the argument, square matrices."""
    # The option is checked first: it is wrong for matrices of any shape.
    flag(upper, "upper")
    check_solvable(x)
    check_square(x.shape)
    return x


def infer_eigvalsh(x: TensorSpec) -> TensorSpec:
    """Infer the real type and [..., m]."""
    # Eigenvalues of Hermitian matrices are real, so complex matrices give real ones.
    return component(infer_cholesky(x)).with_shape(x.shape[:-1])


def infer_eigh(x: TensorSpec) -> EighResult:
    """Infer [..., m] of the real type and [..., m, m] of the argument's type."""
    return EighResult(infer_eigvalsh(x), x)


def infer_eig(x: TensorSpec) -> EigResult:
    """Infer [..., m] and [..., m, m] of the complex type."""
    # A real matrix may have complex eigenvalues. A type that depended on the elements
    # could not be inferred (decision 0010).
    values = infer_eigvals(x)
    return EigResult(values, values.with_shape(x.shape))


def infer_eigvals(x: TensorSpec) -> TensorSpec:
    """Infer [..., m] of the complex type."""
    values = infer_eigvalsh(x)
    # The table is used instead of promotion, whose rules a program may change (decision
    # 0008).
    return values.with_dtype(COMPLEX[values.dtype])


def infer_qr(x: TensorSpec, *, mode: str = "reduced") -> QRResult:
    """Infer [..., m, k] and [..., k, n]; k is m or the smaller of m and n."""
    # Called before the shape is unpacked, because it raises for fewer than two axes.
    smaller = _smaller(x)
    *stack, m, n = x.shape
    k = m if choice(mode, "mode", MODES) == "complete" else smaller
    return QRResult(x.with_shape((*stack, m, k)), x.with_shape((*stack, k, n)))


def infer_svdvals(x: TensorSpec) -> TensorSpec:
    """Infer the real type and [..., k]."""
    # Singular values are lengths, so they are real for complex matrices as well.
    return component(x).with_shape((*x.shape[:-2], _smaller(x)))


def infer_svd(x: TensorSpec, *, full_matrices: bool = True) -> SVDResult:
    """Infer [..., m, m], [..., k], [..., n, n]; the outer two cut to k unless full."""
    values, (*stack, m, n) = infer_svdvals(x), x.shape
    is_full = flag(full_matrices, "full_matrices")
    # Both outer factors are cut to the same size, so that U · diag(S) · Vh still fits.
    left, right = (m, n) if is_full else values.shape[-1:] * 2
    return SVDResult(
        x.with_shape((*stack, m, left)), values, x.with_shape((*stack, right, n))
    )


def _smaller(x: TensorSpec) -> int:
    check_solvable(x)
    check_matrix(x.shape)
    m, n = x.shape[-2:]
    # The smaller of two sizes is unknown even if one is known: the other may be below
    # it.
    return DYNAMIC if DYNAMIC in (m, n) else min(m, n)


@generic(deduce=infer_cholesky)
def cholesky(x: object, /, *, upper: bool = False) -> Any:
    """Return the lower triangular L with x = L · Lᴴ.

    Args:
        x: [..., m, m], symmetric or Hermitian and positive definite; float32,
            float64 or complex. Only the requested triangle is read.
        upper: return U = Lᴴ instead.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: a matrix is not positive definite.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.cholesky(md.asarray([[4.0, 2.0], [2.0, 10.0]])).tolist()
        [[2.0, 0.0], [1.0, 3.0]]

    Source: array API 2024.12, `linalg.cholesky`.
    """


@generic(deduce=infer_qr)
def qr(x: object, /, *, mode: str = "reduced") -> Any:
    """Return Q with orthonormal columns and upper triangular R with x = Q · R.

    Args:
        x: [..., m, n]; float32, float64 or complex.
        mode: "reduced", or "complete" for a square Q.

    Returns:
        `Q` [..., m, k] and `R` [..., k, n]; k is min(m, n), or m if complete. The
        signs of the columns of Q are arbitrary.

    Raises:
        ShapeError: `x` has fewer than 2 axes.
        PromotionError: 16-bit floats are not supported.
        OptionError: `mode` is neither of them.

    Example:
        >>> import mdtensor as md
        >>> Q, R = md.linalg.qr(md.ones((3, 2)))
        >>> Q.shape, R.shape
        ((3, 2), (2, 2))

    Source: array API 2024.12, `linalg.qr`.
    """


@generic(deduce=infer_svd)
def svd(x: object, /, *, full_matrices: bool = True) -> Any:
    """Return U, S and Vh with x = U · diag(S) · Vh and orthonormal U and Vhᴴ.

    Args:
        x: [..., m, n]; float32, float64 or complex.
        full_matrices: square U and Vh; otherwise their k = min(m, n) first columns
            and rows.

    Returns:
        `U`, `S` and `Vh`; S is [..., k], real, from the largest down.

    Raises:
        ShapeError: `x` has fewer than 2 axes.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: the iteration does not converge: an element is not finite.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.svd(md.asarray([[0.0, 2.0], [1.0, 0.0]])).S.tolist()
        [2.0, 1.0]

    Source: array API 2024.12, `linalg.svd`.
    """


@generic(deduce=infer_svdvals)
def svdvals(x: object, /) -> Any:
    """Return the singular values of each matrix in descending order.

    Args:
        x: [..., m, n]; float32, float64 or complex.

    Returns:
        [..., min(m, n)] of the type of |x|.

    Raises:
        ShapeError, PromotionError, LinAlgError: as in `svd`.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.svdvals(md.asarray([[0.0, 2.0], [1.0, 0.0]])).tolist()
        [2.0, 1.0]

    Source: array API 2024.12, `linalg.svdvals`.
    """


@generic(deduce=infer_eig)
def eig(x: object, /) -> Any:
    """Return the eigenvalues and V with x · V = V · diag(eigenvalues).

    Args:
        x: [..., m, m]; float32, float64 or complex; finite.

    Returns:
        `eigenvalues` [..., m] in no order and `eigenvectors` [..., m, m], the columns
        of V, each of length 1; both complex.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: an element is not finite, or the iteration does not converge.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.eig(md.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
        [(2+0j), (1+0j)]

    Source: array API 2025.12, `linalg.eig`.
    """


@generic(deduce=infer_eigvals)
def eigvals(x: object, /) -> Any:
    """Return the eigenvalues of square matrices, in no particular order.

    Args:
        x: [..., m, m]; float32, float64 or complex; finite.

    Returns:
        [..., m], complex.

    Raises:
        ShapeError, PromotionError, LinAlgError: as in `eig`.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.eigvals(md.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
        [(2+0j), (1+0j)]

    Source: array API 2025.12, `linalg.eigvals`.
    """


@generic(deduce=infer_eigh)
def eigh(x: object, /) -> Any:
    """Return the eigenvalues and Q of symmetric or Hermitian x = Q · diag · Qᴴ.

    Args:
        x: [..., m, m]; float32, float64 or complex. Only the lower triangle is read.

    Returns:
        `eigenvalues` [..., m], real, from the smallest up; `eigenvectors`
        [..., m, m], the columns of Q.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: the iteration does not converge.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.eigh(md.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
        [1.0, 2.0]

    Source: array API 2024.12, `linalg.eigh`.
    """


@generic(deduce=infer_eigvalsh)
def eigvalsh(x: object, /) -> Any:
    """Return the eigenvalues of symmetric or Hermitian matrices, ascending.

    Args:
        x: [..., m, m]; float32, float64 or complex. Only the lower triangle is read.

    Returns:
        [..., m] of the type of |x|.

    Raises:
        ShapeError, PromotionError, LinAlgError: as in `eigh`.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.eigvalsh(md.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
        [1.0, 2.0]

    Source: array API 2024.12, `linalg.eigvalsh`.
    """
