"""Operations as methods of their first tensor: `x.sum(axis=0)` is `sum(x, axis=0)`.

Every operation that the package names is one, found by name when it is asked for;
those of other packages are functions only, so that what a tensor has does not depend
on who was imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

#: Attributes of Python's numbers and of NumPy's arrays, which call nothing.
_DATA = frozenset({"real", "imag"})
#: numpy.sum(x) calls x.sum(axis=None, dtype=None, out=None), and so on.
_CALLED_BY_NUMPY = frozenset(
    {"all", "any", "max", "mean", "min", "prod", "std", "sum", "var"}
)


def bound(x: Any, name: str, namespace: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The operation `name` of `namespace` with `x` as its first argument, or None.

    Example:
        >>> import mdtensor as md
        >>> bound(md.asarray([1, 2]), "add", vars(md))(3).tolist()
        [4, 5]
        >>> bound(md.asarray([1, 2]), "asarray", vars(md)) is None
        True
    """
    function = namespace.get(name)
    if not is_method(name, function):
        return None
    method: Callable[..., Any] = MethodType(function, x)
    return _for_numpy(method) if name in _CALLED_BY_NUMPY else method


def is_operation(value: Any) -> bool:
    """Whether it is what `generic` declares."""
    return isinstance(value, FunctionType) and hasattr(value, "operation")


def is_method(name: str, value: Any) -> bool:
    """Whether `value` is an operation whose first argument is one tensor."""
    return is_operation(value) and name not in _DATA and not value.operation.sequence


def _for_numpy(method: Callable[..., Any]) -> Callable[..., Any]:
    """`method`, to which `out=None` and `dtype=None` say nothing."""

    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        for name in ("out", "dtype"):
            if options.get(name, 0) is None:
                del options[name]
        return method(*arguments, **options)

    return call
