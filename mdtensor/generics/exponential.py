"""Exponentials, logarithms and roots, element by element."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import fractional, same


@generic(deduce=same)
def exp(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def expm1(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def log(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def log1p(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def log2(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def log10(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def sqrt(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def logaddexp(x1: Any, x2: Any, /) -> Any:
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
