"""Matrix products."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.matmul import affine, matrix_product


@generic(deduce=matrix_product)
def matmul(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """The matrix product over the last axis of `x1` and the second-last of `x2`.

    Args:
        x1: [..., m, k] or [k].
        x2: [..., k, n] or [k]; leading axes broadcast.
        out: grid of a quantized result.

    Returns:
        [..., m, n] of the promoted type. Integers wrap in it; 8-bit codes multiply
        exactly into a `QInt32Tensor`.

    Raises:
        ShapeError: the two k differ, or leading axes do not broadcast.
        PromotionError: the types have no common type.

    Example:
        >>> import mdtensor as md
        >>> md.matmul(md.asarray([[1.0, 2.0]]), md.asarray([[3.0], [4.0]])).tolist()
        [[11.0]]

    Source: array API 2024.12, `matmul`.
    """


@generic(deduce=affine)
def linear(x: Any, w: Any, b: Any = None, /, *, out: Any = None) -> Any:
    """x · wᵀ + b, a fully connected layer.

    Args:
        x: [..., k].
        w: [n, k].
        b: [n], or None.
        out: grid of a quantized result.

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
