"""Linear algebra: diagonals, norms, inverses, determinants, linear systems.

A matrix is the last two axes; the axes before them are a stack.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules import linalg as rule


@generic(deduce=rule.transposed)
def matrix_transpose(x: Any, /) -> Any:
    """Return the transpose of each matrix, not conjugated; a view.

    Args:
        x: [..., m, n].

    Returns:
        [..., n, m].

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.matrix_transpose(md.zeros((5, 2, 3))).shape
        (5, 3, 2)

    Source: array API 2024.12, `matrix_transpose`.
    """


@generic(deduce=rule.diagonals)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return x[..., i, i + offset], one diagonal of each matrix; a view.

    Args:
        x: [..., m, n].
        offset: which diagonal; above the main one if positive.

    Returns:
        [..., k]; k is 0 for a diagonal outside of the matrix.

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.diagonal(md.asarray([[1, 2], [3, 4]])).tolist()
        [1, 4]

    Source: array API 2024.12, `linalg.diagonal`.
    """


@generic(deduce=rule.diagonal_sum)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return Σ x[..., i, i + offset], the sum of one diagonal of each matrix.

    Args:
        x: [..., m, n].
        offset: which diagonal; above the main one if positive.
        dtype: the type to hold the sum, as in `sum`.

    Returns:
        [...]. Integers give int64 or uint64 and wrap there.

    Raises:
        ShapeError: `x` has fewer than 2 axes.
        CastError: as in `sum`.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.trace(md.asarray([[1, 2], [3, 4]], dtype=md.int8)).tolist()
        5

    Source: array API 2024.12, `linalg.trace`.
    """


@generic(deduce=rule.vector_norms)
def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Any:
    """Return (Σ |x|ᵒʳᵈ)^(1/ord) over `axis`.

    Args:
        x: any shape, floating or complex.
        axis: one axis, several, or None for all; they are one vector.
        keepdims: keep these axes with size 1.
        ord: a number; inf is max |x|, -inf is min |x|, 0 counts non-zero elements.

    Returns:
        The type of |x|. The norm of no elements is 0.

    Raises:
        ShapeError: an axis does not exist, or there are no elements for order -inf.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.vector_norm(md.asarray([3.0, 4.0])).tolist()
        5.0

    Source: array API 2024.12, `linalg.vector_norm`.
    """


@generic(deduce=rule.matrix_norms)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norm of each matrix, by default √(Σ |x|²).

    Args:
        x: [..., m, n], floating or complex.
        keepdims: keep the last two axes with size 1.
        ord: "fro" or None as above; "nuc" the sum of the singular values; 2 and -2
            the largest and the smallest of them; 1 and -1 of the sums of |x| over
            columns; inf and -inf of those over rows.

    Returns:
        [...] of the type of |x|. The norm of no elements is 0.

    Raises:
        ShapeError: `x` has fewer than 2 axes, or no elements for the smallest value.
        OptionError: `ord` is not one of these.
        LinAlgError: singular values do not converge.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.matrix_norm(md.asarray([[1.0, -2.0], [3.0, 4.0]]), ord=1).tolist()
        6.0

    Source: array API 2024.12, `linalg.matrix_norm`.
    """


@generic(deduce=rule.determinant)
def det(x: Any, /) -> Any:
    """Return the determinant of each matrix, from its LU factors.

    Args:
        x: [..., m, m]; float32, float64 or complex.

    Returns:
        [...]; 1 for m = 0.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.det(md.asarray([[2.0, 1.0], [0.0, 4.0]])).tolist()
        8.0

    Source: array API 2024.12, `linalg.det`.
    """


@generic(deduce=rule.signed_logarithm)
def slogdet(x: Any, /) -> Any:
    """Return each determinant as sign · exp(logabsdet), which cannot overflow.

    Args:
        x: [..., m, m]; float32, float64 or complex.

    Returns:
        `sign` of the type of `x`, `logabsdet` of the type of |x|; both [...]. A
        determinant of 0 gives 0 and -inf.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.slogdet(md.asarray([[0.0, 1.0], [1.0, 0.0]])).sign.tolist()
        -1.0

    Source: array API 2024.12, `linalg.slogdet`.
    """


@generic(deduce=rule.inverse)
def inv(x: Any, /) -> Any:
    """Return x⁻¹, the matrix whose product with `x` is the identity.

    Args:
        x: [..., m, m]; float32, float64 or complex.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: a matrix is singular.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.inv(md.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.25]]

    Source: array API 2024.12, `linalg.inv`.
    """


@generic(deduce=rule.solution)
def solve(x1: Any, x2: Any, /) -> Any:
    """Return the y with x1 · y = x2.

    Args:
        x1: [..., m, m].
        x2: [m] is a vector for each matrix; [..., m, k] are k columns, even where
            the rank is one below the rank of `x1`. Stacks broadcast.

    Returns:
        [..., m] for a vector, else [..., m, k]; of the promoted type, which is
        float32, float64 or complex.

    Raises:
        ShapeError: `x1` is not square, or the two m differ.
        PromotionError: the promoted type is integer or has 16 bits.
        LinAlgError: a matrix is singular.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[2.0, 0.0], [0.0, 4.0]])
        >>> md.linalg.solve(x, md.asarray([1, 2])).tolist()
        [0.5, 0.5]

    Source: array API 2024.12, `linalg.solve`.
    """


@generic(deduce=rule.pseudoinverse)
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Return the pseudo-inverse V · S⁺ · Uᴴ, for least-squares solutions.

    pinv(x) · y solves x · z = y in the least-squares sense.

    Args:
        x: [..., m, n]; float32, float64 or complex.
        rtol: singular values up to `rtol` times the largest count as 0: a number, or
            floats that broadcast to the stack [...]. max(m, n) · eps if None.

    Returns:
        [..., n, m].

    Raises:
        ShapeError: `x` has fewer than 2 axes, or `rtol` does not fit the stack.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: singular values do not converge.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.pinv(md.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.0]]

    Source: array API 2024.12, `linalg.pinv`.
    """


@generic(deduce=rule.ranks)
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """Count the singular values of each matrix above `rtol` times the largest.

    Args:
        x: [..., m, n]; float32, float64 or complex.
        rtol: as in `pinv`.

    Returns:
        [...], int64.

    Raises:
        ShapeError: `x` has fewer than 2 axes, or `rtol` does not fit the stack.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: singular values do not converge.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.matrix_rank(md.ones((3, 3))).tolist()
        1

    Source: array API 2024.12, `linalg.matrix_rank`.
    """
