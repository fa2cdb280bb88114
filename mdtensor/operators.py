"""Operators: `x + y` is `add(x, y)`, for tensors, Python numbers and NumPy arrays.

NumPy arrays and scalars become tensors of their own element type, on either side of an
operator and in NumPy's ufuncs, so that no tensor ever decays into a bare array. For
strangers the operators return NotImplemented.
"""

from __future__ import annotations

from types import NotImplementedType
from typing import Any, ClassVar

import numpy as np

from mdtensor.errors import DispatchError, type_and_shape
from mdtensor.generics import arithmetic, comparison, exponential, trigonometry
from mdtensor.generics.matmul import matmul

#: NumPy's ufuncs under our names, where those differ.
_RENAMED = {"subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg"}
#: Where the counterparts of ufuncs are declared.
_FAMILIES = (arithmetic, comparison, exponential, trigonometry)
_NUMBERS = frozenset({bool, int, float, complex})


class Operators:
    """The operators of tensors; `_from_numpy` is the tensor's own."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    _from_numpy: ClassVar[Any]

    def __add__(self, other: Any) -> Any:
        return _binary(arithmetic.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary(arithmetic.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary(arithmetic.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary(arithmetic.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary(arithmetic.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary(arithmetic.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary(arithmetic.div, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary(arithmetic.div, other, self)

    def __matmul__(self, other: Any) -> Any:
        return _binary(matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _binary(matmul, other, self)

    def __neg__(self) -> Any:
        return arithmetic.neg(self)

    def __eq__(self, other: object) -> Any:
        return _binary(comparison.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return _binary(comparison.not_equal, self, other)

    def __lt__(self, other: Any) -> Any:
        return _binary(comparison.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _binary(comparison.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary(comparison.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary(comparison.greater_equal, self, other)

    def __array_ufunc__(
        self, ufunc: np.ufunc, how: str, *operands: Any, **options: Any
    ) -> Any:
        """NumPy's `ufunc(...)` with a tensor among the operands runs our operation."""
        name = _RENAMED.get(ufunc.__name__, ufunc.__name__)
        is_product = ufunc is np.matmul
        operation = matmul if is_product else _counterpart(name)
        if how != "__call__" or options or not hasattr(operation, "select"):
            raise DispatchError(
                f"numpy.{ufunc.__name__} has no counterpart here",
                "Use numpy.asarray(x) to leave mdtensor",
                f"{ufunc.__name__}({', '.join(map(type_and_shape, operands))})",
            )
        return operation(*map(_operand, operands))


def _counterpart(name: str) -> Any:
    return next((vars(f)[name] for f in _FAMILIES if name in vars(f)), None)


def _operand(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return Operators._from_numpy(value)
    return value


def _is_ours(value: Any) -> bool:
    """Whether it is a tensor or a Python number; NumPy's numbers are not."""
    return isinstance(value, Operators) or type(value) in _NUMBERS


def _binary(operation: Any, x1: Any, x2: Any) -> Any | NotImplementedType:
    if _is_ours(x1) and _is_ours(x2):
        return operation(x1, x2)
    x1, x2 = _operand(x1), _operand(x2)
    if _is_ours(x1) and _is_ours(x2):
        return operation(x1, x2)
    types = type(x1), type(x2)
    if any(method.accepts(types) for method in operation.operation.methods):
        return operation(x1, x2)
    return NotImplemented
