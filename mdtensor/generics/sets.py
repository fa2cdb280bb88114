"""Operations on the set of a tensor's elements, whatever its shape.

Values come ascending, complex numbers by their real parts first. A NaN equals nothing,
so each is a value of its own, after all others; zeros of both signs are equal, and the
one that comes first in `x` stands for both.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.sets import (
    distinct,
    distinct_all,
    distinct_counts,
    distinct_inverse,
    membership,
)


@generic(deduce=distinct_all)
def unique_all(x: Any, /) -> Any:
    """Return the distinct elements, their positions and their counts.

    Args:
        x: any shape and type.

    Returns:
        A named tuple of `values`; `indices`, where each comes first in the flattened
        `x`; `inverse_indices` of the shape of `x`, so that values[inverse_indices] is
        `x`; and `counts` of each value. Indices and counts are Int64Tensors.

    Example:
        >>> import mdtensor as md
        >>> found = md.unique_all(md.asarray([3, 1, 3]))
        >>> found.values.tolist(), found.indices.tolist()
        ([1, 3], [1, 0])
        >>> found.inverse_indices.tolist(), found.counts.tolist()
        ([1, 0, 1], [1, 2])

    Source: array API 2024.12, `unique_all`.
    """


@generic(deduce=distinct_counts)
def unique_counts(x: Any, /) -> Any:
    """Return the distinct elements and their counts.

    Args:
        x: any shape and type.

    Returns:
        A named tuple of `values` and `counts`, see `unique_all`.

    Example:
        >>> import mdtensor as md
        >>> md.unique_counts(md.asarray([3, 1, 3])).counts.tolist()
        [1, 2]

    Source: array API 2024.12, `unique_counts`.
    """


@generic(deduce=distinct_inverse)
def unique_inverse(x: Any, /) -> Any:
    """Return the distinct elements, and for each element the index of its own.

    Args:
        x: any shape and type.

    Returns:
        A named tuple of `values` and `inverse_indices`, see `unique_all`.

    Example:
        >>> import mdtensor as md
        >>> md.unique_inverse(md.asarray([3, 1, 3])).inverse_indices.tolist()
        [1, 0, 1]

    Source: array API 2024.12, `unique_inverse`.
    """


@generic(deduce=distinct)
def unique_values(x: Any, /) -> Any:
    """Return the distinct elements.

    Args:
        x: any shape and type.

    Example:
        >>> import mdtensor as md
        >>> md.unique_values(md.asarray([3, 1, 3])).tolist()
        [1, 3]

    Source: array API 2024.12, `unique_values`.
    """


@generic(deduce=membership)
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Return whether each element of `x1` equals some element of `x2`.

    Args:
        x1, x2: real tensors of any shapes and types, or one of them a Python number.
        invert: return instead whether it equals none.

    Returns:
        BoolTensor of the shape of `x1`. Numbers of any two types compare exactly, as in
        `equal`: a NaN equals nothing, zeros of both signs are equal.

    Raises:
        CastError: the tensor's type cannot hold the Python number.

    Example:
        >>> import mdtensor as md
        >>> md.isin(md.asarray([1, 2, 3]), md.asarray([3, 1])).tolist()
        [True, False, True]

    Source: array API 2025.12, `isin`.
    """
