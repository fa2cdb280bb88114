"""Operations as methods of their first tensor: `x.sum(axis=0)` is `sum(x, axis=0)`.

Every operation that the package names becomes one, under that name; those of other
packages are functions only, so that what a tensor has does not depend on who was
imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

#: Attributes of Python's numbers and of NumPy's arrays, which call nothing.
_DATA = frozenset({"real", "imag"})
#: numpy.sum(x) calls x.sum(axis=None, dtype=None, out=None), and so on.
_CALLED_BY_NUMPY = frozenset(
    {"all", "any", "max", "mean", "min", "prod", "std", "sum", "var"}
)


# Only our operations become attributes, so that a tensor's attributes do not depend on
# other imports (decision 0015).
def bind(kind: type, namespace: Mapping[str, Any]) -> None:
    """Give `kind` the operations of `namespace` as methods, but where it has its own.

    Those of sequences are left out, and `real` and `imag`.

    Example:
        >>> import mdtensor as md
        >>> md.asarray([1, 2]).add(3).tolist(), md.Tensor.add is md.add
        ([4, 5], True)
    """
    for name, value in namespace.items():
        is_method = is_operation(value) and not value.operation.sequence
        if is_method and not (name in _DATA or hasattr(kind, name)):
            by_numpy = name in _CALLED_BY_NUMPY
            setattr(kind, name, _for_numpy(value) if by_numpy else value)


def is_operation(value: Any) -> bool:
    """Whether it is what `generic` declares."""
    return isinstance(value, FunctionType) and hasattr(value, "operation")


def _for_numpy(operation: Any) -> Callable[..., Any]:
    """`operation` with NumPy's words: ddof, and out=None or dtype=None for nothing."""

    @functools.wraps(operation)
    def call(x: Any, /, *arguments: Any, **options: Any) -> Any:
        for name in ("out", "dtype"):
            if options.get(name, 0) is None:
                del options[name]
        if "ddof" in options:
            options["correction"] = options.pop("ddof")
        return operation(x, *arguments, **options)

    return call
