"""What two element types become when they meet: rules over types, no tensors.

The lattice is one literal. An arrow `a: (b, c)` says that every operation on `a` may
move to `b` or to `c`. The common type of two types is their least upper bound:

    upper(n)    = n and everything that arrows reach from n
    common(S)   = the intersection of upper(n) for n in S
    join(S)     = the one c in common(S) with common(S) = upper(c), if there is one

`c` is below every other common upper bound exactly when all of them are reached from
it; two such c would reach each other, and the lattice has no cycle. Hence join is
unique where it exists, and S is a set: the order of operands never matters.

uint64 with a signed integer have two least common bounds, bfloat16 and float16, and so
no join: an error rather than a silent loss of digits. For the same reason a table, not
a rule, says that an integer never becomes a float unless it meets one.

Source: JAX, `jax/_src/dtypes.py` (lattice and bound); array API 2024.12, "Type
Promotion Rules" (cells within a kind); PyTorch and JAX (a float keeps its width when
it meets an integer).
"""

from __future__ import annotations

from functools import cache
from numbers import Number
from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, OptionError, PromotionError

DEFAULT: dict[str, tuple[str, ...]] = {
    "bool": ("int8", "uint8"),
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "int64": ("bfloat16", "float16"),
    "uint8": ("int16", "uint16"),
    "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"),
    "uint64": ("bfloat16", "float16"),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "complex64": ("complex128",),
    "complex128": (),
}

#: Where a Python scalar of the kind starts when no operand is of that kind.
DEFAULT_FLOAT = dtypes.float32
DEFAULT_COMPLEX = dtypes.complex64
DEFAULT_INTEGER = dtypes.int64


@cache
def _upper(name: str) -> frozenset[str]:
    above = (_upper(larger) for larger in DEFAULT.get(name, ()))
    return frozenset({name}).union(*above)


@cache
def promote_types(*types: DType) -> DType:
    """The smallest element type to which all of `types` promote; order never matters.

    Raises:
        PromotionError: there is none.

    Example:
        >>> promote_types(dtypes.uint8, dtypes.int8)
        mdtensor.int16
        >>> promote_types(dtypes.int32, dtypes.float32)
        mdtensor.float32
    """
    common = frozenset.intersection(*(_upper(t.name) for t in types))
    for candidate in common:
        if _upper(candidate) == common:
            return dtypes.dtype(candidate)
    choices = [f"astype(x, {t})" for t in reversed(types)]
    raise PromotionError(
        f"{' and '.join(map(str, types))} have no common type",
        f"Use {' or '.join(choices)} to choose one",
    )


def result_type(*operands: object) -> DType:
    """The element type of an operation on `operands`.

    Args:
        operands: element types, tensors, and Python scalars. Scalars are weak: they
            give way to any tensor of their kind or of a higher one.

    Raises:
        PromotionError: there is no common type.

    Example:
        >>> result_type(dtypes.int8, 1), result_type(dtypes.int8, 1.5)
        (mdtensor.int8, mdtensor.float32)
    """
    strong = [_dtype_of(x) for x in operands if not is_weak(x)]
    weak: list[Any] = [type(x) for x in operands if is_weak(x)]
    if not strong:
        raise PromotionError("only Python scalars given", "Make one a tensor")
    result = promote_types(*strong)
    for scalar in weak:
        result = with_scalar(result, scalar)
    return result


def is_weak(operand: object) -> bool:
    """Whether it is a Python number; NumPy's float64 only looks like one."""
    number = isinstance(operand, (int, float, complex))
    return number and not isinstance(operand, np.generic)


def _dtype_of(operand: object) -> DType:
    found = getattr(operand, "dtype", operand)
    return dtypes.dtype(found if isinstance(found, (DType, np.dtype)) else operand)


@cache
def with_scalar(tensor: DType, scalar: type) -> DType:
    """The element type of a tensor of type `tensor` that meets a Python scalar.

    Example:
        >>> with_scalar(dtypes.float16, float), with_scalar(dtypes.bool_, int)
        (mdtensor.float16, mdtensor.int64)
    """
    if scalar is bool or tensor.is_complex:
        return tensor
    if issubclass(scalar, complex):
        return promote_types(tensor, DEFAULT_COMPLEX)
    if tensor.is_floating:
        return tensor
    if issubclass(scalar, int):
        return tensor if tensor.is_integer else DEFAULT_INTEGER
    return DEFAULT_FLOAT


def can_cast(source: DType, target: DType) -> bool:
    """Whether promotion alone leads from `source` to `target`.

    Example:
        >>> can_cast(dtypes.int8, dtypes.int16), can_cast(dtypes.int16, dtypes.int8)
        (True, False)
    """
    return target.name in _upper(source.name)


def fit_scalar(value: Any, target: DType) -> Any:
    """`value` if an element of type `target` can hold it, else an error.

    Floats and complex numbers hold every number, rounded to nearest: too large is an
    infinity.

    Raises:
        OptionError: no number at all.
        CastError: no integer, or one outside the range of an integer `target`, or a
            complex number for a real one.
    """
    if not isinstance(value, Number):
        raise OptionError(f"{value!r} is no number", "Give a Python number")
    if target.is_complex:
        return value if isinstance(value, complex) else _as_float(value)
    if isinstance(value, complex):
        raise CastError(f"{target} represents real numbers; cannot represent {value}")
    if target.is_floating:
        return value if isinstance(value, float) else _as_float(value)
    is_exact = target.is_integer or target.kind == "bool"
    if is_exact and not (
        target.minimum <= value <= target.maximum and value == int(value)
    ):
        raise CastError(
            f"{target} represents {target.minimum} to {target.maximum}; "
            f"cannot represent {value}",
            "Use astype(x, ...) to a wider type first",
        )
    return value


def _as_float(value: Any) -> Any:
    try:
        float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
