"""Circular and hyperbolic functions and their inverses, element by element."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import fractional, predicate, same


@generic(deduce=same)
def sin(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def cos(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def tan(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def asin(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def acos(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def atan(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def sinh(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def cosh(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def tanh(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def asinh(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def acosh(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def atanh(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
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
def atan2(x1: object, x2: object, /) -> Any:
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
def hypot(x1: object, x2: object, /) -> Any:
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


# Exponentials, logarithms and roots, element by element.


@generic(deduce=same)
def exp(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return e to the power of x.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.exp(md.asarray([0.0])).tolist()
        [1.0]

    Source: array API 2024.12, `exp`.
    """


@generic(deduce=same)
def expm1(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return exp(x) - 1, accurate near 0.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.expm1(md.asarray([0.0, 1e-30], dtype=md.float64)).tolist()
        [0.0, 1e-30]

    Source: array API 2024.12, `expm1`.
    """


@generic(deduce=same)
def log(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the natural logarithm; NaN below 0, -infinity at 0.

    Args:
        x: any shape, floating, complex or quantized. Complex logarithms are on the
            principal branch, with its cut below 0.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.log(md.asarray([1.0, 0.0])).tolist()
        [0.0, -inf]

    Source: array API 2024.12, `log`.
    """


@generic(deduce=same)
def log1p(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return log(1 + x), accurate near 0.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.log1p(md.asarray([0.0, 1e-30], dtype=md.float64)).tolist()
        [0.0, 1e-30]

    Source: array API 2024.12, `log1p`.
    """


@generic(deduce=same)
def log2(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the logarithm to base 2; limits and branch cut as in `log`.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.log2(md.asarray([8.0, 0.25])).tolist()
        [3.0, -2.0]

    Source: array API 2024.12, `log2`.
    """


@generic(deduce=same)
def log10(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the logarithm to base 10; limits and branch cut as in `log`.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.log10(md.asarray([1000.0, 0.1], dtype=md.float64)).tolist()
        [3.0, -1.0]

    Source: array API 2024.12, `log10`.
    """


@generic(deduce=same)
def sqrt(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the square root, correctly rounded; NaN below 0.

    Args:
        x: any shape, floating, complex or quantized. A complex root has a real part
            of at least 0.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sqrt(md.asarray([4.0, 2.0], dtype=md.float64)).tolist()
        [2.0, 1.4142135623730951]

    Source: array API 2024.12, `sqrt`.
    """


@generic(deduce=fractional)
def logaddexp(x1: object, x2: object, /) -> Any:
    """Return log(exp(x1) + exp(x2)), computed without overflow.

    Args:
        x1: any shape, real.
        x2: broadcasts against `x1`; one of the two is floating.

    Raises:
        PromotionError: no operand is floating.

    Example:
        >>> import mdtensor as md
        >>> md.logaddexp(md.asarray([1000.0, 0.0]), -1000.0).tolist()
        [1000.0, 0.0]

    Source: array API 2024.12, `logaddexp`.
    """


# Classes, signs and neighbours of floating-point numbers.


@generic(deduce=predicate)
def isfinite(x: object, /) -> Any:
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
def isinf(x: object, /) -> Any:
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
def isnan(x: object, /) -> Any:
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
def signbit(x: object, /) -> Any:
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
def copysign(x1: object, x2: object, /) -> Any:
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
def nextafter(x1: object, x2: object, /) -> Any:
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


# Special functions, element by element.


@generic(deduce=same)
def erf(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the error function, 2/√π · ∫ exp(-t²) dt from 0 to x.

    Within 1 ulp in float64; narrower floats are computed in float64, rounded once.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.erf(md.asarray([0.0, float("inf")])).tolist()
        [0.0, 1.0]

    Source: ONNX `Erf`; PyTorch, `torch.special.erf`.
    """
