"""NumPy arrays and scalars as arguments: each becomes a tensor of its own element type.

This is the one rule for functions, methods, operators and NumPy's ufuncs. A call with
tensors never meets it: the table of an operation asks for the function of an unknown
tuple of types, and gets one that converts first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.errors import checked

NUMPY = (np.ndarray, np.generic)
#: NumPy's doubles derive from Python's numbers, and a method for `float` would take
#: them as weak ones; their narrower siblings fit the same places otherwise.
_SIBLINGS: dict[type, type] = {np.float64: np.float32, np.complex128: np.complex64}


def is_numpy(kind: type) -> bool:
    """Return whether instances are arrays or scalars of NumPy."""
    return issubclass(kind, NUMPY)


def need_tensors(operation: Any, types: tuple[type, ...]) -> bool:
    """Return whether a call with `types` converts arguments before it selects.

    A method that names NumPy's types, or takes any object, gets them as they are.
    """
    if not any(map(is_numpy, types)):
        return False
    plain = tuple(_SIBLINGS.get(kind, kind) for kind in types)
    return not any(method.accepts(plain) for method in operation.methods)


def converting(operation: Any, from_numpy: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return what calls `operation` once NumPy's arguments are tensors."""

    def call(*arguments: Any, **options: Any) -> Any:
        def tensors() -> list[Any]:
            return [from_numpy(x) if isinstance(x, NUMPY) else x for x in arguments]

        # An array may have no tensor type, as texts do: the error names the call.
        found = checked(operation.name, arguments, tensors)
        given = (found,) if operation.sequence else found
        return operation.function(*given, **options)

    return call
