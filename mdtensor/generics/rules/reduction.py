"""Shape rules of reductions."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.errors import CastError, OptionError
from mdtensor.spec.options import flag, number
from mdtensor.spec.shapes import check_nonempty, reduced_shape
from mdtensor.spec.spec import TensorSpec

#: How far a kind of numbers reaches; a sum may be held in its own kind or above.
_REACH = {
    "bool": 0,
    "signed integer": 1,
    "unsigned integer": 1,
    "real floating": 2,
    "complex floating": 3,
}


def reduction(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer the type of the argument and the reduced shape."""
    return x.with_shape(reduced_shape(x.shape, axis, flag(keepdims, "keepdims")))


def accumulation(
    x: TensorSpec,
    *,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    **_: Any,
) -> TensorSpec:
    """Infer the reduced shape, in the type of `accumulator`."""
    result = reduction(x, axis=axis, keepdims=keepdims)
    return result.with_dtype(accumulator(x.dtype, dtype))


def accumulator(source: dtypes.DType, wanted: Any = None) -> dtypes.DType:
    """Return the type that holds a sum or a product of `source`.

    Without `wanted`, integers and bools widen to 64 bits (array API 2024.12,
    `sum`).

    Raises:
        OptionError: `wanted` is not a number type.
        CastError: `wanted` is real, and `source` is complex.
    """
    if wanted is None:
        return _accumulator(source)
    found = dtypes.dtype(wanted)
    if not _REACH.get(found.kind):
        raise OptionError(f"dtype is {found}", "Use a type of numbers")
    if source.is_complex and not found.is_complex:
        raise CastError(
            f"{found} does not hold what {source} elements add up to",
            "Use real(x) or abs(x) first",
        )
    return found


def _accumulator(source: dtypes.DType) -> dtypes.DType:
    if source.is_floating or source.is_complex:
        return source
    return dtypes.uint64 if source.kind == "unsigned integer" else dtypes.int64


def extreme(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer as `reduction`; there must be at least one element."""
    check_nonempty(x.shape, axis)
    return reduction(x, axis=axis, keepdims=keepdims)


def spread(
    x: TensorSpec,
    *,
    axis: Any = None,
    correction: float = 0.0,
    keepdims: bool = False,
    **_: Any,
) -> TensorSpec:
    """Infer as `reduction`; the correction must be a real number."""
    number(correction, "correction")
    return reduction(x, axis=axis, keepdims=keepdims)


def verdict(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer bool and the reduced shape."""
    return reduction(x, axis=axis, keepdims=keepdims).with_dtype(dtypes.bool_)
