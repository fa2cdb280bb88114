"""Classes, signs and neighbours of floating-point numbers."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import fractional, predicate


@generic(deduce=predicate)
def isfinite(x: Any, /) -> Any:
    """Return whether x is neither infinite nor NaN; True for every integer.

    Args:
        x: any shape. A complex number is finite if both parts are.

    Returns:
        BoolTensor.

    Example:
        >>> import mdtensor as md
        >>> md.isfinite(md.asarray([1.0, float("inf"), float("nan")])).tolist()
        [True, False, False]

    Source: array API 2024.12, `isfinite`.
    """


@generic(deduce=predicate)
def isinf(x: Any, /) -> Any:
    """Return whether x is infinite; False for every integer.

    Args:
        x: any shape. A complex number is infinite if one part is.

    Returns:
        BoolTensor.

    Example:
        >>> import mdtensor as md
        >>> md.isinf(md.asarray([1.0, float("inf"), float("nan")])).tolist()
        [False, True, False]

    Source: array API 2024.12, `isinf`.
    """


@generic(deduce=predicate)
def isnan(x: Any, /) -> Any:
    """Return whether x is NaN; False for every integer.

    Args:
        x: any shape. A complex number is NaN if one part is.

    Returns:
        BoolTensor.

    Example:
        >>> import mdtensor as md
        >>> md.isnan(md.asarray([1.0, float("inf"), float("nan")])).tolist()
        [False, False, True]

    Source: array API 2024.12, `isnan`.
    """


@generic(deduce=predicate)
def signbit(x: Any, /) -> Any:
    """Return whether the sign bit of x is set, also for -0.0 and NaN.

    Args:
        x: any shape, floating.

    Returns:
        BoolTensor.

    Example:
        >>> import mdtensor as md
        >>> md.signbit(md.asarray([1.0, 0.0, -0.0])).tolist()
        [False, False, True]

    Source: array API 2024.12, `signbit`.
    """


@generic(deduce=fractional)
def copysign(x1: Any, x2: Any, /) -> Any:
    """Return |x1| with the sign bit of x2.

    Args:
        x1: any shape, real.
        x2: broadcasts against `x1`; one of the two is floating.

    Raises:
        PromotionError: no operand is floating.

    Example:
        >>> import mdtensor as md
        >>> md.copysign(md.asarray([1.0, 2.0]), md.asarray([-0.0, 5.0])).tolist()
        [-1.0, 2.0]

    Source: array API 2024.12, `copysign`.
    """


@generic(deduce=fractional)
def nextafter(x1: Any, x2: Any, /) -> Any:
    """Return the number next to x1 in the direction of x2, in the promoted type.

    Args:
        x1: any shape, real.
        x2: broadcasts against `x1`; one of the two is floating.

    Returns:
        x2 where they are equal; NaN if either is NaN.

    Raises:
        PromotionError: no operand is floating.

    Example:
        >>> import mdtensor as md
        >>> md.nextafter(md.asarray([1.0, 2.0]), 2.0).tolist()
        [1.0000001192092896, 2.0]

    Source: array API 2024.12, `nextafter`.
    """
