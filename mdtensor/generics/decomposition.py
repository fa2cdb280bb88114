"""Matrix decompositions. The last two axes are a matrix, the others a stack."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules import decomposition as rule


@generic(deduce=rule.triangle)
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
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


@generic(deduce=rule.orthogonal_triangular)
def qr(x: Any, /, *, mode: str = "reduced") -> Any:
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


@generic(deduce=rule.singular)
def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
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


@generic(deduce=rule.singular_values)
def svdvals(x: Any, /) -> Any:
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


@generic(deduce=rule.complex_eigenpairs)
def eig(x: Any, /) -> Any:
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


@generic(deduce=rule.complex_spectrum)
def eigvals(x: Any, /) -> Any:
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


@generic(deduce=rule.eigenpairs)
def eigh(x: Any, /) -> Any:
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


@generic(deduce=rule.spectrum)
def eigvalsh(x: Any, /) -> Any:
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
