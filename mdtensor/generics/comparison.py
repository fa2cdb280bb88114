"""Comparisons, element by element; numbers of any two types compare exactly."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import bitwise, comparison, same


@generic(deduce=comparison)
def equal(x1: object, x2: object, /) -> Any:
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
def not_equal(x1: object, x2: object, /) -> Any:
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
def less(x1: object, x2: object, /) -> Any:
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
def less_equal(x1: object, x2: object, /) -> Any:
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
def greater(x1: object, x2: object, /) -> Any:
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
def greater_equal(x1: object, x2: object, /) -> Any:
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


# Logic on bools and bits, element by element.


@generic(deduce=bitwise)
def logical_and(x1: object, x2: object, /) -> Any:
    """Return whether both elements are true.

    Args:
        x1: any shape, bools.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.logical_and(md.asarray([True, False]), True).tolist()
        [True, False]

    Source: array API 2024.12, `logical_and`.
    """


@generic(deduce=bitwise)
def logical_or(x1: object, x2: object, /) -> Any:
    """Return whether at least one element is true; operands as in `logical_and`.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.logical_or(md.asarray([True, False]), False).tolist()
        [True, False]

    Source: array API 2024.12, `logical_or`.
    """


@generic(deduce=bitwise)
def logical_xor(x1: object, x2: object, /) -> Any:
    """Return whether exactly one element is true; operands as in `logical_and`.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.logical_xor(md.asarray([True, False]), True).tolist()
        [False, True]

    Source: array API 2024.12, `logical_xor`.
    """


@generic(deduce=same)
def logical_not(x: object, /) -> Any:
    """Return whether x is false.

    Args:
        x: any shape, bools.

    Example:
        >>> import mdtensor as md
        >>> md.logical_not(md.asarray([True, False])).tolist()
        [False, True]

    Source: array API 2024.12, `logical_not`.
    """


@generic(deduce=bitwise)
def bitwise_and(x1: object, x2: object, /) -> Any:
    """Return the bits that are set in both elements.

    Args:
        x1: any shape, integers or bools.
        x2: broadcasts against `x1`.

    Returns:
        The promoted type. Negative integers are two's complement in it.

    Example:
        >>> import mdtensor as md
        >>> md.bitwise_and(md.asarray([6, -1]), 3).tolist()
        [2, 3]

    Source: array API 2024.12, `bitwise_and`.
    """


@generic(deduce=bitwise)
def bitwise_or(x1: object, x2: object, /) -> Any:
    """Return the bits that are set in at least one element.

    Args:
        x1: any shape, integers or bools.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.bitwise_or(md.asarray([6, -1]), 3).tolist()
        [7, -1]

    Source: array API 2024.12, `bitwise_or`.
    """


@generic(deduce=bitwise)
def bitwise_xor(x1: object, x2: object, /) -> Any:
    """Return the bits that are set in exactly one element.

    Args:
        x1: any shape, integers or bools.
        x2: broadcasts against `x1`.

    Example:
        >>> import mdtensor as md
        >>> md.bitwise_xor(md.asarray([6, -1]), 3).tolist()
        [5, -4]

    Source: array API 2024.12, `bitwise_xor`.
    """


@generic(deduce=same)
def bitwise_invert(x: object, /) -> Any:
    """Invert each bit: -1 - x for signed integers, `not` for bools.

    Args:
        x: any shape, integers or bools.

    Example:
        >>> import mdtensor as md
        >>> md.bitwise_invert(md.asarray([0, 5])).tolist()
        [-1, -6]

    Source: array API 2024.12, `bitwise_invert`.
    """


@generic(deduce=bitwise)
def bitwise_left_shift(x1: object, x2: object, /) -> Any:
    """Return x1 · 2**x2, wrapped; 0 once x2 reaches the width of the type.

    Args:
        x1: any shape, integers.
        x2: broadcasts against `x1`; 0 or more.

    Raises:
        DataError: a count is negative.

    Example:
        >>> import mdtensor as md
        >>> md.bitwise_left_shift(md.asarray([1, -3]), md.asarray([64, 2])).tolist()
        [0, -12]

    Source: array API 2024.12, `bitwise_left_shift`.
    """


@generic(deduce=bitwise)
def bitwise_right_shift(x1: object, x2: object, /) -> Any:
    """Return floor(x1 / 2**x2); 0 or -1 once x2 reaches the type's width.

    Args:
        x1: any shape, integers.
        x2: broadcasts against `x1`; 0 or more.

    Raises:
        DataError: a count is negative.

    Example:
        >>> import mdtensor as md
        >>> md.bitwise_right_shift(md.asarray([5, -5]), md.asarray([1, 64])).tolist()
        [2, -1]

    Source: array API 2024.12, `bitwise_right_shift`.
    """
