"""Rounding to whole numbers, element by element; the type does not change."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import same


@generic(deduce=same)
def floor(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def ceil(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def trunc(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
def round(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
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
