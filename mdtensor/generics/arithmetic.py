"""Arithmetic, element by element.

All follow one pattern. Arguments broadcast; the result has the promoted type
(`result_type`); Python scalars are weak. `out=` is for quantized arguments only: the
grid to which the exact result is rounded once, half to even. Without it a quantized
operation is exact or raises.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.elementwise import broadcast, same


@generic(deduce=broadcast)
def add(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 + x2.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result.

    Returns:
        The promoted type. Integers wrap modulo 2**bits; floats round once.

    Raises:
        ShapeError: the shapes do not broadcast.
        PromotionError: the types have no common type.
        GridError: quantized on different grids without `out`.

    Example:
        >>> import mdtensor as md
        >>> md.add(md.asarray([1, 2], dtype=md.int8), md.asarray([0.5, 0.25])).tolist()
        [1.5, 2.25]

    Source: array API 2024.12, `add`.
    """


@generic(deduce=broadcast)
def sub(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 - x2; wraps and rounds as `add` does.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.sub(md.asarray([3, 2]), 1).tolist()
        [2, 1]

    Source: array API 2024.12, `subtract`.
    """


@generic(deduce=broadcast)
def mul(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 · x2; wraps and rounds as `add` does.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result. Without it, 8-bit codes multiply exactly
            into a `QInt32Tensor` whose scale is the product of the scales.

    Example:
        >>> import mdtensor as md
        >>> md.mul(md.asarray([1.0, 2.0]), 0.5).tolist()
        [0.5, 1.0]

    Source: array API 2024.12, `multiply`.
    """


@generic(deduce=broadcast)
def div(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """x1 / x2 in floating types; x / 0 is an infinity or NaN, as IEEE 754 says.

    Args:
        x1: any shape, floating.
        x2: broadcasts against `x1`.
        out: grid of a quantized result.

    Raises:
        PromotionError: no operand is floating; integers do not divide exactly.

    Example:
        >>> import mdtensor as md
        >>> md.div(md.asarray([1.0, 3.0]), 2).tolist()
        [0.5, 1.5]

    Source: array API 2024.12, `divide`.
    """


@generic(deduce=same)
def neg(x: Any, /) -> Any:
    """-x. The smallest signed integer and unsigned integers wrap.

    Args:
        x: any shape.

    Example:
        >>> import mdtensor as md
        >>> md.neg(md.asarray([1, -2])).tolist()
        [-1, 2]

    Source: array API 2024.12, `negative`.
    """


@generic(deduce=broadcast)
def minimum(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """The smaller of x1 and x2; NaN if either is NaN.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result; not needed where the grids are equal.

    Example:
        >>> import mdtensor as md
        >>> md.minimum(md.asarray([1, 5]), 3).tolist()
        [1, 3]

    Source: array API 2024.12, `minimum`.
    """


@generic(deduce=broadcast)
def maximum(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """The larger of x1 and x2; NaN if either is NaN.

    Args:
        x1: any shape.
        x2: broadcasts against `x1`.
        out: grid of a quantized result; not needed where the grids are equal.

    Example:
        >>> import mdtensor as md
        >>> md.maximum(md.asarray([1, 5]), 3).tolist()
        [3, 5]

    Source: array API 2024.12, `maximum`.
    """


@generic(deduce=same)
def clip(x: Any, /, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """x limited to [min, max]; None leaves a side open.

    Args:
        x: any shape.
        min, max: Python numbers, `min` ≤ `max`.
        out: grid of a quantized result.

    Returns:
        The type of `x`.

    Raises:
        OptionError: `min` is above `max`.
        CastError: an integer type cannot hold a bound.

    Example:
        >>> import mdtensor as md
        >>> md.clip(md.asarray([-1.0, 0.5, 9.0]), 0, 6).tolist()
        [0.0, 0.5, 6.0]

    Source: array API 2024.12, `clip`.
    """
