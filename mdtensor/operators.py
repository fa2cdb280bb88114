"""Operators: `x + y` is `add(x, y)`, for tensors, Python numbers and NumPy arrays.

`x += y` writes the result into the buffer of `x` once all of it is computed. If the
type or the shape of `x` would change, it raises.

NumPy arrays and scalars become tensors of their own element type, on either side of an
operator and in NumPy's ufuncs, so that a tensor never becomes an array by accident.
For operands of other classes, Python's protocol decides: if the reflected method of
the right operand is missing or returns NotImplemented, the error is ours. Equality with
such operands is identity, unless they are arrays of another library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType, NotImplementedType
from typing import Any

import numpy as np

from mdtensor import ufuncs
from mdtensor.dispatch.call import NUMPY
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import (
    DispatchError,
    GridError,
    OptionError,
    PromotionError,
    ShapeError,
    describe,
    shown,
    type_and_shape,
)
from mdtensor.foreign import is_array_like
from mdtensor.generics import arithmetic, comparison, indexing, reduction
from mdtensor.generics.matmul import matmul

#: The method of the right operand that Python calls if the left one cannot compute.
_REFLECTED = {
    "add": "__radd__",
    "sub": "__rsub__",
    "mul": "__rmul__",
    "div": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "pow": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "bitwise_left_shift": "__rlshift__",
    "bitwise_right_shift": "__rrshift__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}
_EQUALITY = frozenset({"equal", "not_equal"})
_NUMBERS = frozenset({bool, int, float, complex})


class Operators:
    """The operators of tensors."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: object) -> Any:
        return _binary(arithmetic.add, self, other)

    def __radd__(self, other: object) -> Any:
        return _binary(arithmetic.add, other, self)

    def __iadd__(self, other: object) -> Any:
        return _in_place(arithmetic.add, self, other)

    def __sub__(self, other: object) -> Any:
        return _binary(arithmetic.sub, self, other)

    def __rsub__(self, other: object) -> Any:
        return _binary(arithmetic.sub, other, self)

    def __isub__(self, other: object) -> Any:
        return _in_place(arithmetic.sub, self, other)

    def __mul__(self, other: object) -> Any:
        return _binary(arithmetic.mul, self, other)

    def __rmul__(self, other: object) -> Any:
        return _binary(arithmetic.mul, other, self)

    def __imul__(self, other: object) -> Any:
        return _in_place(arithmetic.mul, self, other)

    def __truediv__(self, other: object) -> Any:
        return _binary(arithmetic.div, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return _binary(arithmetic.div, other, self)

    def __itruediv__(self, other: object) -> Any:
        return _in_place(arithmetic.div, self, other)

    def __floordiv__(self, other: object) -> Any:
        return _binary(arithmetic.floor_divide, self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return _binary(arithmetic.floor_divide, other, self)

    def __ifloordiv__(self, other: object) -> Any:
        return _in_place(arithmetic.floor_divide, self, other)

    def __mod__(self, other: object) -> Any:
        return _binary(arithmetic.remainder, self, other)

    def __rmod__(self, other: object) -> Any:
        return _binary(arithmetic.remainder, other, self)

    def __imod__(self, other: object) -> Any:
        return _in_place(arithmetic.remainder, self, other)

    def __divmod__(self, other: object) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Any, Any]:
        return other // self, other % self  # type: ignore[operator]

    def __pow__(self, other: object) -> Any:
        return _binary(arithmetic.pow, self, other)

    def __rpow__(self, other: object) -> Any:
        return _binary(arithmetic.pow, other, self)

    def __ipow__(self, other: object) -> Any:
        return _in_place(arithmetic.pow, self, other)

    def __matmul__(self, other: object) -> Any:
        return _binary(matmul, self, other)

    def __rmatmul__(self, other: object) -> Any:
        return _binary(matmul, other, self)

    def __imatmul__(self, other: object) -> Any:
        return _in_place(matmul, self, other)

    def __and__(self, other: object) -> Any:
        return _binary(comparison.bitwise_and, self, other)

    def __rand__(self, other: object) -> Any:
        return _binary(comparison.bitwise_and, other, self)

    def __iand__(self, other: object) -> Any:
        return _in_place(comparison.bitwise_and, self, other)

    def __or__(self, other: object) -> Any:
        return _binary(comparison.bitwise_or, self, other)

    def __ror__(self, other: object) -> Any:
        return _binary(comparison.bitwise_or, other, self)

    def __ior__(self, other: object) -> Any:
        return _in_place(comparison.bitwise_or, self, other)

    def __xor__(self, other: object) -> Any:
        return _binary(comparison.bitwise_xor, self, other)

    def __rxor__(self, other: object) -> Any:
        return _binary(comparison.bitwise_xor, other, self)

    def __ixor__(self, other: object) -> Any:
        return _in_place(comparison.bitwise_xor, self, other)

    def __lshift__(self, other: object) -> Any:
        return _binary(comparison.bitwise_left_shift, self, other)

    def __rlshift__(self, other: object) -> Any:
        return _binary(comparison.bitwise_left_shift, other, self)

    def __ilshift__(self, other: object) -> Any:
        return _in_place(comparison.bitwise_left_shift, self, other)

    def __rshift__(self, other: object) -> Any:
        return _binary(comparison.bitwise_right_shift, self, other)

    def __rrshift__(self, other: object) -> Any:
        return _binary(comparison.bitwise_right_shift, other, self)

    def __irshift__(self, other: object) -> Any:
        return _in_place(comparison.bitwise_right_shift, self, other)

    def __neg__(self) -> Any:
        return arithmetic.neg(self)

    def __pos__(self) -> Any:
        return arithmetic.positive(self)

    def __abs__(self) -> Any:
        return arithmetic.abs(self)

    def __round__(self, ndigits: int | None = None) -> Any:
        """Return whole numbers, halves to even; the tensor's type stays."""
        if ndigits is not None and ndigits != 0:
            problem = f"ndigits is {shown(ndigits)}, and tensors round to whole numbers"
            fix = "Use round(x * 10**ndigits) / 10**ndigits"
            raise OptionError(problem, fix, describe("round", self))
        return arithmetic.round(self)

    def __invert__(self) -> Any:
        return comparison.bitwise_invert(self)

    def __eq__(self, other: object) -> Any:
        return _binary(comparison.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return _binary(comparison.not_equal, self, other)

    def __contains__(self, value: object) -> bool:
        """Return whether any element, at any depth, equals `value`, as in NumPy."""
        found = self == value
        # Values of other classes may be equal by identity alone, which is a bool.
        return bool(reduction.any(found) if isinstance(found, Operators) else found)

    def __lt__(self, other: object) -> Any:
        return _binary(comparison.less, self, other)

    def __le__(self, other: object) -> Any:
        return _binary(comparison.less_equal, self, other)

    def __gt__(self, other: object) -> Any:
        return _binary(comparison.greater, self, other)

    def __ge__(self, other: object) -> Any:
        return _binary(comparison.greater_equal, self, other)

    def __array_ufunc__(
        self, ufunc: np.ufunc, how: str, *operands: Any, **options: Any
    ) -> Any:
        """Run our operation for NumPy's `ufunc(...)` with a tensor as an operand."""
        return ufuncs.run(ufunc, how, operands, options)


def _is_ours(value: object) -> bool:
    """Return whether operations accept `value`: a tensor, a number or an array."""
    if isinstance(value, Operators) or type(value) in _NUMBERS:
        return True
    return isinstance(value, NUMPY)


def _binary(operation: object, x1: object, x2: object) -> Any | NotImplementedType:
    if _is_ours(x1) and _is_ours(x2):
        return operation(x1, x2)
    # A class of another package may have methods for our operations.
    types = type(x1), type(x2)
    is_list = list in types or tuple in types
    if is_list or any(m.accepts(types) for m in operation.operation.methods):
        return operation(x1, x2)
    name = _REFLECTED[operation.__name__]
    # Equality with anything else is identity, but an array has elements to compare.
    if operation.__name__ in _EQUALITY and not is_array_like(x2):
        return NotImplemented
    result = _call_reflected(x2, name, x1) if _is_ours(x1) else NotImplemented
    # Python's TypeError would name only the types; the operation's error names a fix.
    return operation(x1, x2) if result is NotImplemented else result


def _call_reflected(right: object, name: str, x: object) -> Any | NotImplementedType:
    """Return the result of the right operand's reflected method, as Python does."""
    # Python looks at the class only: `getattr(right, name)` would find the methods of
    # its instances if the operand is a class.
    for kind in type(right).__mro__:
        if name in vars(kind):
            return getattr(type(right), name)(right, x)
    return NotImplemented


def _in_place(operation: object, x1: object, x2: object) -> Any | NotImplementedType:
    """Write the result into the buffer of x1; return a non-tensor result as it is.

    Raises:
        PromotionError, ShapeError, GridError: the result has another type, shape or
            grid than x1.
        WriteError: the buffer is read-only.
    """
    result: Any = _binary(operation, x1, x2)
    # Another package's class, or NotImplemented, which Python handles.
    if not isinstance(result, Operators):
        return result
    return write_into(x1, result, operation.__name__, (x1, x2))


def write_into(target: Any, result: Any, name: str, operands: tuple[Any, ...]) -> Any:
    """Write the result of a call into the buffer of `target`, and return `target`.

    Args:
        target: a tensor of the type, shape and grid of the result.
        result: a tensor.
        name, operands: the call, for errors.

    Raises:
        PromotionError, ShapeError, GridError: the result has another type, shape or
            grid than the target.
        WriteError: the buffer is read-only.
    """
    wanted = type_and_shape(target)
    # A lazy result is computed now, because the target is written now.
    # A result of another package may be no tensor of ours.
    home, place = (getattr(x, "device", None) for x in (result, target))
    if home is not place and getattr(home, "implementation", None) is not None:
        result = result.to(place)
    # Type before shape, as in the errors of operations: a cast may change both.
    if type(result) is not type(target):
        kind, problem = PromotionError, f"the result is {type_and_shape(result)}"
    elif result.shape != target.shape:
        kind, problem = ShapeError, f"the result is {type_and_shape(result)}"
    elif _grid(result) != _grid(target):
        kind, problem = GridError, f"the result is on ({_grid(result).describe()})"
    else:
        return indexing.setitem(target, ..., result)
    raise kind(
        f"{problem}, which {wanted} cannot take in place",
        f"Use x = {name}(x, ...) for a new tensor",
        describe(name, *operands),
    )


# Operations with `out=` are below this module, and write through the class.
Operation.write = staticmethod(write_into)


def _grid(x: object) -> Any:
    """Return the grid of a quantized tensor; None for others."""
    return getattr(x, "qparams", None)


# Operations as methods of their first tensor: `x.sum(axis=0)` is `sum(x, axis=0)`.

#: Data attributes of Python numbers and NumPy arrays, which must not become methods.
_DATA = frozenset({"real", "imag"})
#: numpy.sum(x) calls x.sum(axis=None, dtype=None, out=None), and so on.
_CALLED_BY_NUMPY = frozenset(
    {"all", "any", "max", "mean", "min", "prod", "std", "sum", "var"}
)
#: Methods whose first argument is the axis in NumPy and in PyTorch.
BY_AXIS = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "mean", "prod", "std", "sum", "var"}
)
#: x.max(0) returns values in NumPy, and values with indices in PyTorch.
_SPLIT = frozenset({"max", "min"})


# Only our operations become attributes, so that a tensor's attributes do not depend on
# other imports (decision 0015).
def bind(kind: type, namespace: Mapping[str, Any]) -> None:
    """Add the operations of `namespace` to `kind` as methods, except existing names.

    Operations on sequences are omitted, and so are `real` and `imag`. Methods also
    accept the forms that NumPy and PyTorch share: `x.sum(0)`, `x.reshape(3, 2)`,
    `x.squeeze()`.

    Example:
        >>> import mdtensor as md
        >>> md.asarray([1, 2]).add(3).tolist(), md.Tensor.add is md.add
        ([4, 5], True)
    """
    for name, value in namespace.items():
        is_method = is_operation(value) and not value.operation.sequence
        if is_method and not (name in _DATA or hasattr(kind, name)):
            setattr(kind, name, _with_manners(name, value))


def is_operation(value: object) -> bool:
    """Return whether `value` is an operation that `generic` declared."""
    return isinstance(value, FunctionType) and hasattr(value, "operation")


def _with_manners(name: str, operation: object) -> Any:
    """Return `operation` as a method that accepts the forms of other libraries."""
    if name == "reshape":
        return _sizes_one_by_one(operation)
    if name == "squeeze":
        return _all_axes_at_once(operation)
    if name == "astype":
        return _dtype_by_name(operation)
    if name in _CALLED_BY_NUMPY or name in BY_AXIS:
        return _for_numpy(operation)
    return operation


def _for_numpy(operation: object) -> Callable[..., Any]:
    """Return `operation` with ddof, out=None, dtype=None, and the axis by position."""
    name = operation.__name__

    @functools.wraps(operation)
    def call(x: object, /, *arguments: Any, **options: Any) -> Any:
        if len(arguments) == 1 and "axis" not in options:
            if name in _SPLIT:
                raise _ambiguous(name, x)
            if name in BY_AXIS:
                options["axis"], arguments = arguments[0], ()
        # numpy.sum passes these as None; any other value is an error of the operation.
        for word in ("out", "dtype"):
            if options.get(word, 0) is None:
                del options[word]
        if "ddof" in options:
            _rename_ddof(name, x, options)
        return operation(x, *arguments, **options)

    return call


def _rename_ddof(name: str, x: object, options: dict[str, Any]) -> None:
    """Give the option `ddof` its name here, `correction`.

    Raises:
        OptionError: `correction` is given as well.
    """
    if "correction" in options:
        problem = "ddof and correction are two names of one option"
        raise OptionError(problem, "Give one of them", describe(name, x))
    options["correction"] = options.pop("ddof")


def _ambiguous(name: str, x: object) -> DispatchError:
    """Return the error of `x.max(0)` and `x.min(0)`."""
    return DispatchError(
        f"x.{name}(0) gives values in NumPy, and values with indices in PyTorch",
        f"Use x.{name}(axis=0) for values, x.arg{name}(axis=0) for indices",
        describe(name, x),
    )


def _sizes_one_by_one(operation: object) -> Callable[..., Any]:
    """Return `reshape` that takes a shape, or its sizes one by one."""

    @functools.wraps(operation)
    def call(x: object, /, *shape: Any, **options: Any) -> Any:
        _refuse_twice("shape", x, operation, shape, options)
        return operation(x, *(shape if len(shape) < 2 else (shape,)), **options)

    return call


def _all_axes_at_once(operation: object) -> Callable[..., Any]:
    """Return `squeeze` that removes every axis of size 1 if none is named."""

    @functools.wraps(operation)
    def call(x: object, /, *axis: Any, **options: Any) -> Any:
        _refuse_twice("axis", x, operation, axis, options)
        given = [*axis, *options.values()]
        # In NumPy, an axis of None stands for all of them.
        is_open = not given or (len(given) == 1 and given[0] is None)
        if is_open and options.keys() <= {"axis"}:
            axis = (tuple(at for at, size in enumerate(x.shape) if size == 1),)
            options = {}
        return operation(x, *axis, **options)

    return call


def _dtype_by_name(operation: object) -> Callable[..., Any]:
    """Return `astype` that takes NumPy's `dtype=`, and `order=` if it changes nothing.

    zarr calls it so. The result has memory of its own, which no other order describes.
    """

    @functools.wraps(operation)
    def call(x: object, /, *dtype: Any, **options: Any) -> Any:
        _refuse_twice("dtype", x, operation, dtype, options)
        if "dtype" in options:
            dtype = (options.pop("dtype"),)
        if options.get("order") in ("A", "C", "K"):
            del options["order"]
        return operation(x, *dtype, **options)

    return call


def _refuse_twice(
    name: str, x: Any, operation: Any, places: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Raise `DispatchError` for an option by position and by name at once."""
    # Python would raise a TypeError before the operation sees the call.
    if places and name in options:
        call = describe(operation.__name__, x)
        raise DispatchError(f"{name} is given by position and by name", "", call)
