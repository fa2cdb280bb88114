"""Circular and hyperbolic functions and their inverses, element by element."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import fractional, same


@generic(deduce=same)
def sin(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the sine of x in radians; NaN at an infinity.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sin(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `sin`.
    """


@generic(deduce=same)
def cos(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the cosine of x in radians; NaN at an infinity.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.cos(md.asarray([0.0])).tolist()
        [1.0]

    Source: array API 2024.12, `cos`.
    """


@generic(deduce=same)
def tan(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the tangent of x in radians; NaN at an infinity.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.tan(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `tan`.
    """


@generic(deduce=same)
def asin(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the arc sine, from -π/2 to π/2; NaN for real x outside [-1, 1].

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.asin(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `asin`.
    """


@generic(deduce=same)
def acos(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the arc cosine, from 0 to π; NaN for real x outside [-1, 1].

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.acos(md.asarray([1.0])).tolist()
        [0.0]

    Source: array API 2024.12, `acos`.
    """


@generic(deduce=same)
def atan(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the arc tangent, from -π/2 to π/2.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.atan(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `atan`.
    """


@generic(deduce=same)
def sinh(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the hyperbolic sine.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sinh(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `sinh`.
    """


@generic(deduce=same)
def cosh(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the hyperbolic cosine.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.cosh(md.asarray([0.0])).tolist()
        [1.0]

    Source: array API 2024.12, `cosh`.
    """


@generic(deduce=same)
def tanh(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the hyperbolic tangent.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.tanh(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `tanh`.
    """


@generic(deduce=same)
def asinh(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the inverse hyperbolic sine.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.asinh(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `asinh`.
    """


@generic(deduce=same)
def acosh(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the inverse hyperbolic cosine, at least 0; NaN for real x below 1.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.acosh(md.asarray([1.0])).tolist()
        [0.0]

    Source: array API 2024.12, `acosh`.
    """


@generic(deduce=same)
def atanh(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the inverse hyperbolic tangent; NaN for real x outside [-1, 1].

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.atanh(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `atanh`.
    """


@generic(deduce=fractional)
def atan2(x1: Any, x2: Any, /) -> Any:
    """Return the angle of the point (x2, x1), from -π to π.

    Args:
        x1: any shape, real: the opposite side.
        x2: broadcasts against `x1`: the adjacent side; one of the two is floating.

    Returns:
        The promoted type. Signs of zeros choose the quadrant, as in IEEE 754.

    Raises:
        PromotionError: no operand is floating.

    Example:
        >>> import mdtensor as md
        >>> md.atan2(md.asarray([0.0, -0.0]), 1.0).tolist()
        [0.0, -0.0]

    Source: array API 2024.12, `atan2`.
    """


@generic(deduce=fractional)
def hypot(x1: Any, x2: Any, /) -> Any:
    """Return sqrt(x1² + x2²), without overflow in between.

    Args:
        x1: any shape, real.
        x2: broadcasts against `x1`; one of the two is floating.

    Returns:
        The promoted type; infinite if either is, even if the other is NaN.

    Raises:
        PromotionError: no operand is floating.

    Example:
        >>> import mdtensor as md
        >>> md.hypot(md.asarray([3.0, 5e30]), md.asarray([4.0, 12e30])).tolist()[0]
        5.0

    Source: array API 2024.12, `hypot`.
    """
