"""NumPy arrays and scalars as arguments: each becomes a tensor of its own element type.

This one rule holds for functions, methods, operators and NumPy's ufuncs. It costs calls
with tensors nothing: only when the call table does not have a tuple of types, the
operation looks up a function, which for NumPy types is one that converts first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.errors import CastError, checked

NUMPY = (np.ndarray, np.generic)
#: `np.float64` derives from Python's float, so a method for `float` would accept it as
#: a weak scalar. `np.float32` does not, and fits the same parameters otherwise.
_SIBLINGS: dict[type, type] = {np.float64: np.float32, np.complex128: np.complex64}


def is_numpy(kind: type) -> bool:
    """Return whether `kind` is a class of NumPy arrays or scalars."""
    return issubclass(kind, NUMPY)


def need_tensors(operation: Any, types: tuple[type, ...]) -> bool:
    """Return whether a call with `types` must convert NumPy arguments first.

    A method that names NumPy types, or accepts any object, receives them unchanged.
    """
    if not any(map(is_numpy, types)):
        return False
    plain = tuple(_SIBLINGS.get(kind, kind) for kind in types)
    return not any(method.accepts(plain) for method in operation.methods)


def converter(operation: Any, from_numpy: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function that makes tensors of NumPy arguments and calls `operation`."""

    def call(*arguments: Any, **options: Any) -> Any:
        def tensors() -> list[Any]:
            return [from_numpy(x) if isinstance(x, NUMPY) else x for x in arguments]

        # Arrays of strings do not have a tensor type: the error must name the call.
        found = checked(operation.name, arguments, tensors)
        given = (found,) if operation.sequence else found
        return operation.function(*given, **options)

    return call


# NumPy reads the memory behind a mask, which may hold anything.
def require_unmasked(array: object) -> None:
    """Raise `CastError` if `array` is a masked array with masked elements."""
    if not isinstance(array, np.ndarray) or type(array) is np.ndarray:
        return
    if np.ma.is_masked(array):
        count = np.count_nonzero(np.ma.getmaskarray(array))
        problem = f"{count} of {array.size} elements are masked and have no value"
        raise CastError(problem, "Use a.filled(number)")
