"""Tensors shaped like another one, and triangles of matrices.

Functions that do not start from a tensor, such as `zeros`, are in
`mdtensor.ops.creation`.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules import creation as rule


@generic(deduce=rule.like)
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor with the shape of `x` and undefined elements.

    Args:
        x: any shape.
        dtype, device: element type and device; as in `x` unless given.

    Example:
        >>> import mdtensor as md
        >>> md.empty_like(md.zeros((2, 3)), dtype=md.int8).shape
        (2, 3)

    Source: array API 2024.12, `empty_like`.
    """


@generic(deduce=rule.filled)
def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Any:
    """Return a tensor with the shape of `x`, filled with `fill_value`.

    Args:
        x: any shape.
        fill_value: a number.
        dtype, device: element type and device; as in `x` unless given.

    Raises:
        CastError: the type does not hold the value.

    Example:
        >>> import mdtensor as md
        >>> md.full_like(md.zeros((2,), dtype=md.int8), 7).tolist()
        [7, 7]

    Source: array API 2024.12, `full_like`.
    """


@generic(deduce=rule.like)
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor of ones with the shape of `x`.

    Args:
        x: any shape.
        dtype, device: element type and device; as in `x` unless given.

    Example:
        >>> import mdtensor as md
        >>> md.ones_like(md.asarray([5, 6])).tolist()
        [1, 1]

    Source: array API 2024.12, `ones_like`.
    """


@generic(deduce=rule.like)
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor of zeros with the shape of `x`.

    Args:
        x: any shape.
        dtype, device: element type and device; as in `x` unless given.

    Example:
        >>> import mdtensor as md
        >>> md.zeros_like(md.asarray([5, 6])).tolist()
        [0, 0]

    Source: array API 2024.12, `zeros_like`.
    """


@generic(deduce=rule.triangle)
def tril(x: Any, /, *, k: int = 0) -> Any:
    """Return the lower triangles of matrices, with zeros above diagonal `k`.

    Args:
        x: [..., m, n].
        k: 0 is the main diagonal, 1 the one above it, -1 below.

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.tril(md.asarray([[1, 2], [3, 4]])).tolist()
        [[1, 0], [3, 4]]

    Source: array API 2024.12, `tril`.
    """


@generic(deduce=rule.triangle)
def triu(x: Any, /, *, k: int = 0) -> Any:
    """Return the upper triangles of matrices, with zeros below diagonal `k`.

    Args:
        x: [..., m, n].
        k: 0 is the main diagonal, 1 the one above it, -1 below.

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.triu(md.asarray([[1, 2], [3, 4]])).tolist()
        [[1, 2], [0, 4]]

    Source: array API 2024.12, `triu`.
    """
