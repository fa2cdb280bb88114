"""Circular and hyperbolic functions and their inverses, element by element."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.elementwise import same


@generic(deduce=same)
def tanh(x: Any, /, *, out: Any = None) -> Any:
    """The hyperbolic tangent.

    Args:
        x: any shape, floating or quantized.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.tanh(md.asarray([0.0])).tolist()
        [0.0]

    Source: array API 2024.12, `tanh`.
    """
