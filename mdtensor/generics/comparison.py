"""Comparisons, element by element; numbers of any two types compare exactly."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import comparison


@generic(deduce=comparison)
def equal(x1: Any, x2: Any, /) -> Any:
    """Return whether x1 = x2 as numbers, whatever their types; NaN equals nothing.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Returns:
        BoolTensor. Values are compared exactly: no operand is rounded first.

    Example:
        >>> import mdtensor as md
        >>> big = md.asarray([2**24 + 1])
        >>> md.equal(big, md.asarray([2.0**24])).tolist()
        [False]

    Source: array API 2024.12, `equal`; exactness as Julia's `==`.
    """


@generic(deduce=comparison)
def not_equal(x1: Any, x2: Any, /) -> Any:
    """Return whether x1 ≠ x2, compared exactly as in `equal`.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.not_equal(md.asarray([1, 2]), 1).tolist()
        [False, True]

    Source: array API 2024.12, `not_equal`.
    """


@generic(deduce=comparison)
def less(x1: Any, x2: Any, /) -> Any:
    """Return whether x1 < x2, compared exactly as in `equal`.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.less(md.asarray([1, 2]), 2).tolist()
        [True, False]

    Source: array API 2024.12, `less`.
    """


@generic(deduce=comparison)
def less_equal(x1: Any, x2: Any, /) -> Any:
    """Return whether x1 ≤ x2, compared exactly as in `equal`.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.less_equal(md.asarray([1, 2]), 1).tolist()
        [True, False]

    Source: array API 2024.12, `less_equal`.
    """


@generic(deduce=comparison)
def greater(x1: Any, x2: Any, /) -> Any:
    """Return whether x1 > x2, compared exactly as in `equal`.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.greater(md.asarray([1, 2]), 1).tolist()
        [False, True]

    Source: array API 2024.12, `greater`.
    """


@generic(deduce=comparison)
def greater_equal(x1: Any, x2: Any, /) -> Any:
    """Return whether x1 ≥ x2, compared exactly as in `equal`.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.greater_equal(md.asarray([1, 2]), 2).tolist()
        [False, True]

    Source: array API 2024.12, `greater_equal`.
    """
