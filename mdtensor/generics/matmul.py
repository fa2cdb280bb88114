"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules import matmul as rule


@generic(deduce=rule.matrix_product)
def matmul(x1: Any, x2: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the matrix product over the last axis of `x1` and second-last of `x2`.

    Args:
        x1: [..., m, k] or [k].
        x2: [..., k, n] or [k]; leading axes broadcast.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        [..., m, n] of the promoted type. Integers wrap in it; 8-bit codes multiply
        exactly into a `QInt32Tensor`.

    Raises:
        ShapeError: the two k differ, or leading axes do not broadcast.
        PromotionError: the types do not have a common type.

    Example:
        >>> import mdtensor as md
        >>> md.matmul(md.asarray([[1.0, 2.0]]), md.asarray([[3.0], [4.0]])).tolist()
        [[11.0]]

    Source: array API 2024.12, `matmul`.
    """


@generic(deduce=rule.affine)
def linear(
    x: Any, w: Any, b: Any = None, /, *, out: Any = None, rounding: Any = None
) -> Any:
    """Return x · wᵀ + b, a fully connected layer.

    Args:
        x: [..., k].
        w: [n, k].
        b: [n], or None.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        [..., n].

    Raises:
        ShapeError: the two k differ, or the bias is not [n].

    Example:
        >>> import mdtensor as md
        >>> x, w = md.asarray([[1.0, 2.0]]), md.asarray([[3.0, 4.0]])
        >>> md.linear(x, w, md.asarray([0.5])).tolist()
        [[11.5]]

    Source: PyTorch, `torch.nn.functional.linear`.
    """


@generic(deduce=rule.dot_product)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return Σ conj(x1) · x2 over `axis`; the other axes broadcast.

    Args:
        x1: [..., k, ...].
        x2: [..., k, ...].
        axis: from the end if negative; other values only if the ranks are equal.

    Returns:
        The promoted type, without `axis`. Integers wrap.

    Raises:
        ShapeError: the sizes along `axis` differ, or the others do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> md.vecdot(md.asarray([1j, 2]), md.asarray([1j, 3])).tolist()
        (7+0j)

    Source: array API 2024.12, `vecdot`.
    """


@generic(deduce=rule.contraction)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return Σ x1 · x2 over pairs of axes, one of each operand; not conjugated.

    Args:
        x1: any shape.
        x2: any shape.
        axes: how many of the last axes of `x1` meet as many first axes of `x2`; or
            two sequences, the axes of each that meet one by one.

    Returns:
        The promoted type, with the unpaired axes of `x1`, then of `x2`. Integers wrap.

    Raises:
        ShapeError: paired axes do not exist, repeat, or differ in size.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1, 2], [3, 4]])
        >>> md.tensordot(x, x, axes=([0, 1], [1, 0])).tolist()
        29

    Source: array API 2024.12, `tensordot`.
    """


@generic(deduce=rule.outer_product)
def outer(x1: Any, x2: Any, /) -> Any:
    """Return x1[i] · x2[j] for all pairs of elements of two vectors.

    Args:
        x1: [m].
        x2: [n].

    Returns:
        [m, n] of the promoted type.

    Raises:
        ShapeError: an operand is not a vector.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.outer(md.asarray([1, 2]), md.asarray([3, 4])).tolist()
        [[3, 4], [6, 8]]

    Source: array API 2024.12, `linalg.outer`.
    """


@generic(deduce=rule.cross_product)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the cross product (a₁b₂ - a₂b₁, a₂b₀ - a₀b₂, a₀b₁ - a₁b₀).

    Args:
        x1: any shape, size 3 along `axis`.
        x2: size 3 along `axis`; the other axes broadcast.
        axis: from the end if negative; other values only if the ranks are equal.

    Returns:
        The promoted type. Integers wrap.

    Raises:
        ShapeError: a size along `axis` is not 3, or the others do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.cross(md.asarray([1, 0, 0]), md.asarray([0, 1, 0])).tolist()
        [0, 0, 1]

    Source: array API 2024.12, `linalg.cross`.
    """


@generic(deduce=rule.power)
def matrix_power(x: Any, n: Any, /) -> Any:
    """Return the product of n factors x, by repeated squaring.

    Args:
        x: [..., m, m]. Integers wrap.
        n: an integer. 0 gives the identity; below 0 the inverse is multiplied, and
            `x` must be floating or complex.

    Returns:
        Type and shape of `x`.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: an integer matrix has a negative power.
        LinAlgError: n < 0, and a matrix is singular.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.matrix_power(md.asarray([[1, 1], [1, 0]]), 10).tolist()
        [[89, 55], [55, 34]]

    Source: array API 2024.12, `linalg.matrix_power`; integers are our addition.
    """
