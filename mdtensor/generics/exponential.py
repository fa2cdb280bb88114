"""Exponentials and logarithms, element by element."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.elementwise import same


@generic(deduce=same)
def exp(x: Any, /, *, out: Any = None) -> Any:
    """The exponential function.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.exp(md.asarray([0.0])).tolist()
        [1.0]

    Source: array API 2024.12, `exp`.
    """
