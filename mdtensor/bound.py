"""Operations as methods of their first tensor: `x.sum(axis=0)` is `sum(x, axis=0)`.

Every operation that the package names becomes one, under that name; those of other
packages are functions only, so that what a tensor has does not depend on who was
imported. Methods also take what methods of NumPy and PyTorch both take with one
meaning: `x.sum(0)`, `x.reshape(3, 2)`, `x.squeeze()`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from mdtensor.errors import DispatchError, describe

#: Attributes of Python's numbers and of NumPy's arrays, which call nothing.
_DATA = frozenset({"real", "imag"})
#: numpy.sum(x) calls x.sum(axis=None, dtype=None, out=None), and so on.
_CALLED_BY_NUMPY = frozenset(
    {"all", "any", "max", "mean", "min", "prod", "std", "sum", "var"}
)
#: Methods whose first argument is the axis in NumPy and in PyTorch.
BY_AXIS = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "mean", "prod", "std", "sum", "var"}
)
#: NumPy's x.max(0) are values, PyTorch's are values and indices.
_SPLIT = frozenset({"max", "min"})


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
            setattr(kind, name, _with_manners(name, value))


def is_operation(value: Any) -> bool:
    """Whether it is what `generic` declares."""
    return isinstance(value, FunctionType) and hasattr(value, "operation")


def _with_manners(name: str, operation: Any) -> Any:
    """Return `operation` as a method that takes what other libraries' methods take."""
    if name == "reshape":
        return _sizes_one_by_one(operation)
    if name == "squeeze":
        return _all_axes_at_once(operation)
    if name in _CALLED_BY_NUMPY or name in BY_AXIS:
        return _for_numpy(operation)
    return operation


def _for_numpy(operation: Any) -> Callable[..., Any]:
    """Return `operation` with NumPy's ddof, out=None and dtype=None, and an axis."""
    name = operation.__name__

    @functools.wraps(operation)
    def call(x: Any, /, *arguments: Any, **options: Any) -> Any:
        if len(arguments) == 1 and "axis" not in options:
            if name in _SPLIT:
                raise _ambiguous(name, x)
            if name in BY_AXIS:
                options["axis"], arguments = arguments[0], ()
        for word in ("out", "dtype"):
            if options.get(word, 0) is None:
                del options[word]
        if "ddof" in options:
            options["correction"] = options.pop("ddof")
        return operation(x, *arguments, **options)

    return call


def _ambiguous(name: str, x: Any) -> DispatchError:
    return DispatchError(
        f"x.{name}(0) gives values in NumPy, and values with indices in PyTorch",
        f"Use x.{name}(axis=0) for values, x.arg{name}(axis=0) for indices",
        describe(name, x),
    )


def _sizes_one_by_one(operation: Any) -> Callable[..., Any]:
    """Return `reshape` that takes a shape, or its sizes one by one."""

    @functools.wraps(operation)
    def call(x: Any, /, *shape: Any, **options: Any) -> Any:
        return operation(x, *(shape if len(shape) < 2 else (shape,)), **options)

    return call


def _all_axes_at_once(operation: Any) -> Callable[..., Any]:
    """Return `squeeze` that removes every axis of size 1 if none is named."""

    @functools.wraps(operation)
    def call(x: Any, /, *axis: Any, **options: Any) -> Any:
        if not (axis or options):
            axis = (tuple(at for at, size in enumerate(x.shape) if size == 1),)
        return operation(x, *axis, **options)

    return call
