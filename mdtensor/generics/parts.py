"""Parts of complex numbers. Results never share memory with their argument."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import component, same


@generic(deduce=component)
def real(x: Any, /) -> Any:
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
def imag(x: Any, /) -> Any:
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
def conj(x: Any, /) -> Any:
    """Return the complex conjugate; a copy for real numbers.

    Args:
        x: any shape.

    Example:
        >>> import mdtensor as md
        >>> md.conj(md.asarray([3 + 4j])).tolist()
        [(3-4j)]

    Source: array API 2024.12, `conj`.
    """
