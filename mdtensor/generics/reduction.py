"""Reductions: sums, means, minima and maxima over axes.

All take `axis`: one axis, several, or None for all axes. The result omits these axes,
or has them with size 1 if `keepdims` is True. Floats of 16 bits are computed in float32
and rounded once.
"""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.dispatch.operation import generic
from mdtensor.errors import CastError, OptionError, ShapeError, shown
from mdtensor.promotion import current, result_type
from mdtensor.spec.elementwise import check_fractions, quotient_type
from mdtensor.spec.options import DTypeName, flag, number
from mdtensor.spec.shapes import (
    Axes,
    Shape,
    check_nonempty,
    concat_shape,
    is_size,
    longer,
    normalize_axis,
    reduced_shape,
)
from mdtensor.spec.spec import TensorSpec, is_tensor

# Shape rules of reductions.

#: How far a kind of numbers reaches; a sum may be held in its own kind or above.
_REACH = {
    "bool": 0,
    "signed integer": 1,
    "unsigned integer": 1,
    "real floating": 2,
    "complex floating": 3,
}


def reduction(
    x: TensorSpec, *, axis: Axes | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer the type of the argument and the reduced shape."""
    return x.with_shape(reduced_shape(x.shape, axis, flag(keepdims, "keepdims")))


def infer_mean(
    x: TensorSpec, *, axis: Axes | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer the reduced shape, in the type of quotients for integers."""
    return _averaged(x, reduction(x, axis=axis, keepdims=keepdims))


def _averaged(x: TensorSpec, result: TensorSpec) -> TensorSpec:
    """Return `result` in the type of averages of the elements of `x`."""
    if not x.dtype.is_integer:
        return result
    if not current().averages:
        check_fractions(x.dtype)
    return result.with_dtype(quotient_type(x.dtype))


def infer_sum(
    x: TensorSpec,
    *,
    axis: Axes | None = None,
    dtype: DTypeName | None = None,
    keepdims: bool = False,
    **_: Any,
) -> TensorSpec:
    """Infer the reduced shape, in the type of `accumulator`."""
    result = reduction(x, axis=axis, keepdims=keepdims)
    return result.with_dtype(accumulator(x.dtype, dtype))


def accumulator(source: dtypes.DType, wanted: DTypeName | None = None) -> dtypes.DType:
    """Return the type that holds a sum or a product of `source`.

    Without `wanted`, integers and bools widen to 64 bits (array API 2024.12,
    `sum`).

    Raises:
        OptionError: `wanted` is not a number type.
        CastError: `wanted` is real, and `source` is complex.
    """
    # Not `wanted or ...`: every given value is looked up, so that a wrong one raises.
    if wanted is None:
        return _accumulator(source)
    found = dtypes.dtype(wanted)
    # The table does not have bool, because a sum of bools is an integer, or quantized
    # types, because `out=` gives their grid.
    if not _REACH.get(found.kind):
        raise OptionError(f"dtype is {found}", "Use a numeric type")
    # A cast would drop the imaginary parts of all elements before they are added.
    if source.is_complex and not found.is_complex:
        raise CastError(
            f"{found} cannot represent the result for {source} elements",
            "Use real(x) or abs(x) first",
        )
    return found


def _accumulator(source: dtypes.DType) -> dtypes.DType:
    if source.is_floating or source.is_complex:
        return source
    # A sum of narrow integers overflows after a few elements, so the array API widens
    # to the default integer; ours has 64 bits on every platform.
    return dtypes.uint64 if source.kind == "unsigned integer" else dtypes.int64


def infer_max(
    x: TensorSpec, *, axis: Axes | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer as `reduction`; there must be at least one element."""
    # A sum of nothing is 0, but nothing is neither the largest nor the smallest
    # element.
    check_nonempty(x.shape, axis)
    return reduction(x, axis=axis, keepdims=keepdims)


def infer_var(
    x: TensorSpec,
    *,
    axis: Axes | None = None,
    correction: float = 0.0,
    keepdims: bool = False,
    **_: Any,
) -> TensorSpec:
    """Infer as `mean`; the correction must be a real number."""
    # Not required to be below the number of elements: the quotient is NaN then, and the
    # number may be unknown here.
    number(correction, "correction")
    return _averaged(x, reduction(x, axis=axis, keepdims=keepdims))


def infer_all(
    x: TensorSpec, *, axis: Axes | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer bool and the reduced shape."""
    return reduction(x, axis=axis, keepdims=keepdims).with_dtype(dtypes.bool_)


@generic(deduce=infer_sum)
def sum(
    x: object,
    /,
    *,
    axis: Axes | None = None,
    dtype: DTypeName | None = None,
    keepdims: bool = False,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return Σ x over `axis`.

    Args:
        x: any shape; bools count as 0 and 1.
        axis: one axis, several, or None for all.
        dtype: the type to hold the sum, into which elements are cast first: a float
            loses its fraction in an integer type, as in `astype`.
        keepdims: keep the summed axes with size 1.
        out, rounding: grid and rounding rule of a quantized result; by default the
            exact sum, a `QInt32Tensor`.

    Returns:
        Without `dtype`, floats and complex numbers keep their type; integers give
        int64 or uint64. Integers wrap, also in a cast. The sum of no elements is 0.

    Raises:
        ShapeError: an axis does not exist or repeats.
        CastError: `dtype` is an integer type, and an element is a float outside of its
            range; or an element is complex and `dtype` is real.

    Example:
        >>> import mdtensor as md
        >>> md.sum(md.asarray([[1, 2], [3, 4]]), axis=0).tolist()
        [4, 6]
        >>> md.sum(md.asarray([100, 100], dtype=md.int8), dtype=md.int8).tolist()
        -56

    Source: array API 2024.12, `sum`.
    """


@generic(deduce=infer_sum)
def prod(
    x: object,
    /,
    *,
    axis: Axes | None = None,
    dtype: DTypeName | None = None,
    keepdims: bool = False,
) -> Any:
    """Return Π x over `axis`; types and errors as in `sum`.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        dtype: the type to hold the product.
        keepdims: keep the multiplied axes with size 1.

    Returns:
        The type of a sum. The product of no elements is 1.

    Example:
        >>> import mdtensor as md
        >>> md.prod(md.asarray([[1, 2], [3, 4]])).tolist()
        24

    Source: array API 2024.12, `prod`.
    """


@generic(deduce=infer_mean)
def mean(
    x: object,
    /,
    *,
    axis: Axes | None = None,
    keepdims: bool = False,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return Σ x / N over `axis`, where N is the number of elements.

    Args:
        x: any shape; numbers or quantized.
        axis: one axis, several, or None for all.
        keepdims: keep the averaged axes with size 1.
        out, rounding: grid and rounding rule of a quantized result. The sum of codes
            is exact, and the quotient rounds once.

    Returns:
        The type of `x`; for integers float64, or the type that the promotion rules give
        quotients of `div`. The mean of no elements is NaN.

    Raises:
        PromotionError: `x` has integers, and the promotion rules do not average them
            ("strict", "array_api", "torch", "pypto").

    Example:
        >>> import mdtensor as md
        >>> md.mean(md.asarray([1.0, 2.0])).tolist()
        1.5
        >>> md.mean(md.asarray([1, 2]))
        Float64Tensor[](1.5)

    Source: array API 2024.12, `mean`.
    """


@generic(deduce=infer_var)
def var(
    x: object,
    /,
    *,
    axis: Axes | None = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Any:
    """Return Σ (x - mean(x))² / (N - correction) over `axis`.

    Args:
        x: any shape, floating or integer.
        axis: one axis, several, or None for all.
        correction: 0 for the elements themselves, 1 for the unbiased estimate if
            they are a sample.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The type of `x`, for integers the type of their quotients under the promotion
        rules, computed in float64; NaN unless N is above `correction`.

    Raises:
        OptionError: the correction is not a real number.
        PromotionError: the rules do not average integers.

    Example:
        >>> import mdtensor as md
        >>> md.var(md.asarray([1.0, 2.0, 3.0]), correction=1).tolist()
        1.0

    Source: array API 2024.12, `var`.
    """


@generic(deduce=infer_var)
def std(
    x: object,
    /,
    *,
    axis: Axes | None = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Any:
    """Return √var(x), with the arguments of `var`.

    Args:
        x: any shape, floating or integer.
        axis: one axis, several, or None for all.
        correction: taken from N.
        keepdims: keep the reduced axes with size 1.

    Example:
        >>> import mdtensor as md
        >>> md.std(md.asarray([1.0, 3.0])).tolist()
        1.0

    Source: array API 2024.12, `std`.
    """


@generic(deduce=infer_max)
def max(x: object, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return the largest element over `axis`; NaN if there is one.

    Args:
        x: any shape, real.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Raises:
        ShapeError: the maximum would be taken over an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.max(md.asarray([3, 1, 2])).tolist()
        3

    Source: array API 2024.12, `max`.
    """


@generic(deduce=infer_max)
def min(x: object, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return the smallest element over `axis`; NaN if there is one.

    Args:
        x: any shape, real.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Raises:
        ShapeError: the minimum would be taken over an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.min(md.asarray([3, 1, 2])).tolist()
        1

    Source: array API 2024.12, `min`.
    """


@generic(deduce=infer_all)
def all(x: object, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return whether all elements over `axis` differ from zero, as NaN does.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Returns:
        BoolTensor. It is True for an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.all(md.asarray([[1, 0], [2, 3]]), axis=1).tolist()
        [False, True]

    Source: array API 2024.12, `all`.
    """


@generic(deduce=infer_all)
def any(x: object, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
    """Return whether some element over `axis` differs from zero, as NaN does.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Returns:
        BoolTensor. It is False for an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.any(md.asarray([[0, 0], [0, 3]]), axis=1).tolist()
        [False, True]

    Source: array API 2024.12, `any`.
    """


# Shape rules of operations that run along an axis.


def infer_cumulative_sum(
    x: TensorSpec,
    *,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    include_initial: bool = False,
    **_: Any,
) -> TensorSpec:
    """Infer the type of a sum; one element longer with the initial value."""
    # The flag becomes the number of elements that the empty sum adds.
    extra = int(flag(include_initial, "include_initial"))
    longer = _change_size(x.shape, running_axis(x.shape, axis), extra)
    return x.with_shape(longer).with_dtype(accumulator(x.dtype, dtype))


def running_axis(shape: Shape, axis: int | None) -> int:
    """Return the axis to run along, counted from the front; None is the only axis.

    Raises:
        ShapeError: the axis does not exist, or is missing for more than one dimension.
    """
    if axis is not None:
        return normalize_axis(axis, len(shape))
    # NumPy would flatten first. The array API demands the axis, since the order of
    # flattening would change the result.
    if len(shape) != 1:
        problem = f"axis is missing, and x has {len(shape)} dimensions"
        raise ShapeError(problem, "Pass axis=")
    return 0


def infer_diff(
    x: TensorSpec,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: object = None,
    append: object = None,
    **_: Any,
) -> TensorSpec:
    """Infer the promoted type of the joined tensors, `n` elements shorter."""
    at = normalize_axis(axis, x.ndim)
    # Checked before the tensors, so that the error does not depend on their shapes.
    if not is_size(n) or n < 0:
        raise OptionError(f"n is {shown(n)}", "Use an integer of 0 or more")
    for name, given in (("prepend", prepend), ("append", append)):
        _check_tensor(given, name)
    # x stands between the two, in the order in which they are joined.
    parts: list[Any] = [part for part in (prepend, x, append) if part is not None]
    shape = concat_shape([part.shape for part in parts], at)
    dtype = result_type(*(part.dtype for part in parts))
    # Each of the n differences takes one element; none are left once n reaches the
    # size.
    return x.with_dtype(dtype).with_shape(_change_size(shape, at, -int(n)))


def _check_tensor(given: Any, name: str) -> None:
    # NumPy accepts a number here. A number has no shape, so its place along the axis
    # would be a guess.
    if given is not None and not is_tensor(given):
        raise OptionError(f"{name} is a {type(given).__name__}", "Use a tensor")


def _change_size(shape: Shape, axis: int, by: int) -> Shape:
    return (*shape[:axis], longer(shape[axis], by), *shape[axis + 1 :])


# Running sums and products along an axis, and differences of neighbours.


@generic(deduce=infer_cumulative_sum)
def cumulative_sum(
    x: object,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    include_initial: bool = False,
) -> Any:
    """Return the running sum y[i] = x[0] + ... + x[i] along `axis`.

    Args:
        x: one dimension or more.
        axis: optional in one dimension.
        dtype: the type to hold the sums, as in `sum`.
        include_initial: put the empty sum, 0, in front.

    Returns:
        The type of a sum; one element longer with `include_initial`.

    Raises:
        ShapeError: the axis does not exist, or is missing for more than one dimension.
        CastError: as in `sum`.

    Example:
        >>> import mdtensor as md
        >>> md.cumulative_sum(md.asarray([1, 2, 3]), include_initial=True).tolist()
        [0, 1, 3, 6]

    Source: array API 2024.12, `cumulative_sum`.
    """


@generic(deduce=infer_cumulative_sum)
def cumulative_prod(
    x: object,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    include_initial: bool = False,
) -> Any:
    """Return the running product along `axis`; errors as in `cumulative_sum`.

    Args:
        x: one dimension or more.
        axis: optional in one dimension.
        dtype: the type to hold the products, as in `prod`.
        include_initial: put the empty product, 1, in front.

    Returns:
        The type of a product; one element longer with `include_initial`.

    Example:
        >>> import mdtensor as md
        >>> md.cumulative_prod(md.asarray([1, 2, 3])).tolist()
        [1, 2, 6]

    Source: array API 2024.12, `cumulative_prod`.
    """


@generic(deduce=infer_diff)
def diff(
    x: object,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: object = None,
    append: object = None,
) -> Any:
    """Return the differences y[i] = x[i + 1] - x[i] along `axis`, taken `n` times.

    Args:
        x: one dimension or more; numbers.
        axis: the axis to go along.
        n: how often; 0 returns `x` with `prepend` and `append` joined to it.
        prepend: a tensor to put in front of `x` first; sizes off `axis` are equal.
        append: a tensor to put behind `x`; sizes off `axis` are equal.

    Returns:
        The promoted type; `n` elements shorter, at least 0. Integers wrap.

    Raises:
        ShapeError: the axis does not exist, or sizes off it differ.
        OptionError: `n` is not an integer of 0 or more, or `prepend` or `append` is
            not a tensor.

    Example:
        >>> import mdtensor as md
        >>> md.diff(md.asarray([1, 4, 9, 16])).tolist()
        [3, 5, 7]
        >>> md.diff(md.asarray([1, 4, 9]), prepend=md.asarray([0])).tolist()
        [1, 3, 5]

    Source: array API 2024.12, `diff`.
    """
