"""Shape rules of operations that run along an axis."""

from __future__ import annotations

from typing import Any

from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.generics.rules.reduction import accumulator
from mdtensor.promotion import result_type
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import Shape, concat_shape, is_size, longer, normalize_axis
from mdtensor.spec.spec import TensorSpec, is_tensor


def accumulated(
    x: TensorSpec,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    **_: Any,
) -> TensorSpec:
    """Infer the type of a sum; one element longer with the initial value."""
    extra = int(flag(include_initial, "include_initial"))
    longer = _resized(x.shape, running_axis(x.shape, axis), extra)
    return x.with_shape(longer).with_dtype(accumulator(x.dtype, dtype))


def running_axis(shape: Shape, axis: int | None) -> int:
    """Return the axis to run along, counted from the front; None is the only axis.

    Raises:
        ShapeError: the axis does not exist, or is missing for more than one dimension.
    """
    if axis is not None:
        return normalize_axis(axis, len(shape))
    if len(shape) != 1:
        raise ShapeError(f"axis is missing, there are {len(shape)}", "Pass axis=")
    return 0


def differences(
    x: TensorSpec,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Any = None,
    append: Any = None,
    **_: Any,
) -> TensorSpec:
    """Infer the promoted type of the joined tensors, `n` elements shorter."""
    at = normalize_axis(axis, x.ndim)
    if not is_size(n) or n < 0:
        raise OptionError(f"n is {shown(n)}", "Use an integer from 0")
    for name, given in (("prepend", prepend), ("append", append)):
        _check_tensor(given, name)
    parts = [part for part in (prepend, x, append) if part is not None]
    shape = concat_shape([part.shape for part in parts], at)
    dtype = result_type(*(part.dtype for part in parts))
    return x.with_dtype(dtype).with_shape(_resized(shape, at, -n))


def _check_tensor(given: Any, name: str) -> None:
    if given is not None and not is_tensor(given):
        raise OptionError(f"{name} is a {type(given).__name__}", "Use a tensor")


def _resized(shape: Shape, axis: int, by: int) -> Shape:
    return (*shape[:axis], longer(shape[axis], by), *shape[axis + 1 :])
