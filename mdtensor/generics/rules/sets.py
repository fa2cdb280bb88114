"""Shape rules of set operations, whose sizes depend on the elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.promotion import is_weak
from mdtensor.spec.elementwise import joint_type, one_tensor
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def distinct(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the type of the argument, in one dimension."""
    return x.with_shape((DYNAMIC,))


def distinct_all(x: TensorSpec, **_: Any) -> UniqueAllResult:
    """Infer values, and int64 for each value and for each element."""
    values, inverse = distinct_inverse(x)
    each = values.with_dtype(dtypes.int64)
    return UniqueAllResult(values, each, inverse, each)


def distinct_counts(x: TensorSpec, **_: Any) -> UniqueCountsResult:
    """Infer values, and int64 for each value."""
    values = distinct(x)
    return UniqueCountsResult(values, values.with_dtype(dtypes.int64))


def distinct_inverse(x: TensorSpec, **_: Any) -> UniqueInverseResult:
    """Infer values, and int64 for each element."""
    return UniqueInverseResult(distinct(x), x.with_dtype(dtypes.int64))


def membership(x1: Any, x2: Any, *, invert: Any = False, **_: Any) -> TensorSpec:
    """Infer bool and the shape of the first argument, or () for a number."""
    flag(invert, "invert")
    if is_weak(x1) or is_weak(x2):
        joint_type(x1, x2)
    tensor: TensorSpec = one_tensor(x1, x2)
    return tensor.with_dtype(dtypes.bool_).with_shape(getattr(x1, "shape", ()))
