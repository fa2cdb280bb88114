"""Arithmetic, element by element.

All follow one pattern. Arguments broadcast; the result has the promoted type
(`result_type`); Python scalars are weak. `out=` is for quantized arguments only: the
grid to which the exact result is rounded once, half to even. Without it a quantized
operation is exact or raises.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import (
    arithmetic,
    clip_spec,
    component,
    power,
    quotient,
    same,
)


@generic(deduce=arithmetic)
def add(
    x1: object, x2: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return the sum of two tensors, element by element.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        The promoted type. Integers wrap modulo 2**bits; floats round once.

    Raises:
        ShapeError: the shapes do not broadcast.
        PromotionError: the types do not have a common type.
        GridError: quantized on different grids without `out`.

    Example:
        >>> import mdtensor as md
        >>> md.add(md.asarray([1, 2], dtype=md.int8), md.asarray([0.5, 0.25])).tolist()
        [1.5, 2.25]

    Source: array API 2024.12, `add`.
    """


@generic(deduce=arithmetic)
def sub(
    x1: object, x2: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return x1 - x2, element by element; wraps and rounds as `add` does.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sub(md.asarray([3, 2]), 1).tolist()
        [2, 1]

    Source: array API 2024.12, `subtract`.
    """


@generic(deduce=arithmetic)
def mul(
    x1: object, x2: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return x1 · x2, element by element; wraps and rounds as `add` does.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out, rounding: grid and rounding rule of a quantized result. Without `out`,
            8-bit codes multiply exactly into a `QInt32Tensor` whose scale is the
            product of the scales.

    Example:
        >>> import mdtensor as md
        >>> md.mul(md.asarray([1.0, 2.0]), 0.5).tolist()
        [0.5, 1.0]

    Source: array API 2024.12, `multiply`.
    """


@generic(deduce=quotient)
def div(
    x1: object, x2: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return x1 / x2 in floating types; x / 0 is an infinity or NaN (IEEE 754).

    Integers are converted to float64 first, as in NumPy and Julia. Under the promotion
    rules "jax" and "torch" their quotients have the types of those libraries.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out, rounding: grid and rounding rule of a quantized result.

    Raises:
        PromotionError: no operand is floating, and both are bools or the promotion
            rules ("strict", "array_api", "pypto") do not divide integers.

    Example:
        >>> import mdtensor as md
        >>> md.div(md.asarray([1.0, 3.0]), 2).tolist()
        [0.5, 1.5]
        >>> md.div(md.asarray([1, 3]), 2)
        Float64Tensor[2]([0.5, 1.5])

    Source: array API 2024.12, `divide`.
    """


@generic(deduce=arithmetic)
def floor_divide(x1: object, x2: object, /) -> Any:
    """Return floor(x1 / x2), Python's `//`; the floor of an infinity is itself.

    Args:
        x1: any shape, real.
        x2: broadcasts against `x1`.

    Returns:
        The promoted type. The smallest signed integer by -1 wraps; by 0, a float is an
        infinity or NaN.

    Raises:
        DataError: an integer divisor is 0.

    Example:
        >>> import mdtensor as md
        >>> md.floor_divide(md.asarray([7, -7]), 2).tolist()
        [3, -4]

    Source: array API 2024.12, `floor_divide`.
    """


@generic(deduce=arithmetic)
def remainder(x1: object, x2: object, /) -> Any:
    """Return x1 - floor(x1 / x2) · x2, Python's `%`, with the sign of x2.

    Args:
        x1: any shape, real.
        x2: broadcasts against `x1`.

    Raises:
        DataError: an integer divisor is 0.

    Example:
        >>> import mdtensor as md
        >>> md.remainder(md.asarray([7, -7]), 2).tolist()
        [1, 1]

    Source: array API 2024.12, `remainder`.
    """


@generic(deduce=power)
def pow(x1: object, x2: object, /) -> Any:
    """Return x1 to the power of x2. Integers wrap; 0 to the power of 0 is 1.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.

    Raises:
        DataError: an exponent of an integer result is negative.

    Example:
        >>> import mdtensor as md
        >>> md.pow(2, md.asarray([0, 1, 10])).tolist()
        [1, 2, 1024]

    Source: array API 2024.12, `pow`.
    """


@generic(deduce=same)
def neg(x: object, /) -> Any:
    """Return -x. The smallest signed integer and unsigned integers wrap.

    Args:
        x: any shape.

    Example:
        >>> import mdtensor as md
        >>> md.neg(md.asarray([1, -2])).tolist()
        [-1, 2]

    Source: array API 2024.12, `negative`.
    """


@generic(deduce=same)
def positive(x: object, /) -> Any:
    """Return a copy of x.

    Args:
        x: any shape.

    Example:
        >>> import mdtensor as md
        >>> md.positive(md.asarray([1, -2])).tolist()
        [1, -2]

    Source: array API 2024.12, `positive`.
    """


@generic(deduce=component)
def abs(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return |x|. The smallest signed integer wraps to itself.

    Args:
        x: any shape.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        The type of `x`; of complex numbers, the real type of the same precision.

    Example:
        >>> import mdtensor as md
        >>> md.abs(md.asarray([3 + 4j, -1])).tolist()
        [5.0, 1.0]

    Source: array API 2024.12, `abs`.
    """


@generic(deduce=same)
def sign(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return -1, 0 or 1; z / |z| for complex numbers, NaN for NaN, 0.0 for -0.0.

    Args:
        x: any shape.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sign(md.asarray([-3, 0, 5])).tolist()
        [-1, 0, 1]

    Source: array API 2024.12, `sign`.
    """


@generic(deduce=same)
def square(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return x · x; wraps and rounds as `mul` does.

    Args:
        x: any shape.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.square(md.asarray([-3, 2])).tolist()
        [9, 4]

    Source: array API 2024.12, `square`.
    """


@generic(deduce=same)
def reciprocal(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return 1 / x; the reciprocal of 0 is an infinity.

    Args:
        x: any shape, floating, complex or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.reciprocal(md.asarray([2.0, -4.0])).tolist()
        [0.5, -0.25]

    Source: array API 2024.12, `reciprocal`.
    """


@generic(deduce=arithmetic)
def minimum(
    x1: object, x2: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return the smaller of x1 and x2; NaN if either is NaN.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out, rounding: grid and rounding rule of a quantized result; not needed if
            the grids are equal.

    Example:
        >>> import mdtensor as md
        >>> md.minimum(md.asarray([1, 5]), 3).tolist()
        [1, 3]

    Source: array API 2024.12, `minimum`.
    """


@generic(deduce=arithmetic)
def maximum(
    x1: object, x2: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return the larger of x1 and x2; NaN if either is NaN.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out, rounding: grid and rounding rule of a quantized result; not needed if
            the grids are equal.

    Example:
        >>> import mdtensor as md
        >>> md.maximum(md.asarray([1, 5]), 3).tolist()
        [3, 5]

    Source: array API 2024.12, `maximum`.
    """


@generic(deduce=clip_spec)
def clip(
    x: object,
    /,
    min: object = None,
    max: object = None,
    *,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return min(max(x, `min`), `max`); None leaves a side open.

    Args:
        x: any shape, real.
        min, max: Python numbers, or tensors that broadcast against `x` and whose type
            promotes to the type of `x`.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        The type of `x`. NaN if the element or a bound is NaN.

    Raises:
        OptionError: `min` is above `max`, or a bound is neither a number nor a tensor.
        CastError: the type of `x` cannot hold a number.
        PromotionError: the type of `x` cannot hold the type of a tensor.

    Example:
        >>> import mdtensor as md
        >>> md.clip(md.asarray([-1.0, 0.5, 9.0]), 0, 6).tolist()
        [0.0, 0.5, 6.0]

    Source: array API 2024.12, `clip`.
    """


# Parts of complex numbers. Results never share memory with their argument.


@generic(deduce=component)
def real(x: object, /) -> Any:
    """Return the real part; a copy for real numbers.

    Args:
        x: any shape.

    Returns:
        The type of `x`; of complex numbers, the real type of the same precision.

    Example:
        >>> import mdtensor as md
        >>> md.real(md.asarray([3 + 4j])).tolist()
        [3.0]

    Source: array API 2024.12, `real`.
    """


@generic(deduce=component)
def imag(x: object, /) -> Any:
    """Return the imaginary part.

    Args:
        x: any shape, complex.

    Returns:
        The real type of the same precision.

    Example:
        >>> import mdtensor as md
        >>> md.imag(md.asarray([3 + 4j])).tolist()
        [4.0]

    Source: array API 2024.12, `imag`.
    """


@generic(deduce=same)
def conj(x: object, /) -> Any:
    """Return the complex conjugate; a copy for real numbers.

    Args:
        x: any shape.

    Example:
        >>> import mdtensor as md
        >>> md.conj(md.asarray([3 + 4j])).tolist()
        [(3-4j)]

    Source: array API 2024.12, `conj`.
    """


# Rounding to whole numbers, element by element; the type does not change.


@generic(deduce=same)
def floor(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the largest integer that is at most x.

    Args:
        x: any shape, real or quantized. Integers stay as they are.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.floor(md.asarray([1.5, -1.5])).tolist()
        [1.0, -2.0]

    Source: array API 2024.12, `floor`.
    """


@generic(deduce=same)
def ceil(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the smallest integer that is at least x.

    Args:
        x: any shape, real or quantized. Integers stay as they are.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.ceil(md.asarray([1.5, -1.5])).tolist()
        [2.0, -1.0]

    Source: array API 2024.12, `ceil`.
    """


@generic(deduce=same)
def trunc(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return x without its fraction: rounded toward zero.

    Args:
        x: any shape, real or quantized. Integers stay as they are.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.trunc(md.asarray([1.5, -1.5])).tolist()
        [1.0, -1.0]

    Source: array API 2024.12, `trunc`.
    """


@generic(deduce=same)
def round(x: object, /, *, out: object = None, rounding: str | None = None) -> Any:
    """Return the integer nearest to x; ties go to the even one.

    Args:
        x: any shape. Integers stay as they are; complex numbers round part by part.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.round(md.asarray([0.5, 1.5, -2.5])).tolist()
        [0.0, 2.0, -2.0]

    Source: array API 2024.12, `round`.
    """
