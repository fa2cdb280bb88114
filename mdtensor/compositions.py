"""Functions that are other operations in a row: `split` and `topk`.

They take every type and device that these operations take, and their methods are those
of the operations.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mdtensor.dispatch.composed import composed
from mdtensor.errors import (
    BoundsError,
    DispatchError,
    OptionError,
    ShapeError,
    checked,
    describe,
    shown,
)
from mdtensor.generics.indexing import getitem, take_along_axis
from mdtensor.generics.sorting import argsort
from mdtensor.ops.operands import not_real
from mdtensor.ops.sorting import leading
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import integers, is_size, normalize_axis
from mdtensor.tensor import Tensor, from_numpy


class TopKResult(NamedTuple):
    """The result of `topk`."""

    values: Any
    indices: Any


@composed
def split(x: Any, /, sizes: Sequence[int], *, axis: int = 0) -> tuple[Any, ...]:
    """Split `x` along `axis` into parts of these sizes; views.

    Args:
        x: any shape.
        sizes: the size of each part along the axis. NumPy takes their number there, and
            PyTorch the size of each, so one integer raises here.
        axis: counted from the front, or from the end if negative.

    Returns:
        A tuple with a tensor for each size.

    Raises:
        ShapeError: the axis does not exist, or the sizes do not add up to its size.
        OptionError: `sizes` is not a sequence of integers that are at least 0.

    Example:
        >>> import mdtensor as md
        >>> first, rest = md.split(md.asarray([1, 2, 3]), (1, 2))
        >>> first.tolist(), rest.tolist()
        ([1], [2, 3])

    Source: ONNX 1.23, `Split`; PyTorch, `torch.split`.
    """
    x, call = as_tensor(x, "split"), describe("split", x)
    at = checked("split", (x,), lambda: normalize_axis(axis, x.ndim))
    total = x.shape[at]
    if not isinstance(sizes, (tuple, list)):
        problem = f"sizes is {shown(sizes)}, not the size of each part"
        way = f"Give a tuple, such as {(total // 2, total - total // 2)}"
        raise OptionError(problem, way, call)
    fix = "Give the size of each part"
    known = checked("split", (x,), lambda: integers(sizes, "sizes", fix))
    if min(known, default=0) < 0 or sum(known) != total:
        problem = f"the sizes {known} do not add up to {total}, the size of axis {at}"
        raise ShapeError(problem, "Give sizes of at least 0 that do", call)
    ends = [sum(known[: i + 1]) for i in range(len(known))]
    ranges = [slice(end - n, end) for n, end in zip(known, ends, strict=True)]
    return tuple(getitem(x, (*[slice(None)] * at, part)) for part in ranges)


@composed
def topk(x: Any, /, k: int, *, axis: int = -1, largest: bool = True) -> TopKResult:
    """Return the `k` largest elements along `axis` in order, and their indices.

    Of equal elements the first comes first. NaN counts as the largest number.

    Args:
        x: one dimension or more, real or quantized on one grid.
        k: how many, from 0 to the size of the axis.
        axis: counted from the front, or from the end if negative.
        largest: False for the smallest.

    Returns:
        `values` of the type of `x`, and `indices`, Int64Tensor.

    Raises:
        ShapeError: the axis does not exist.
        BoundsError: the axis has fewer than `k` elements, or `k` is below 0.

    Example:
        >>> import mdtensor as md
        >>> found = md.topk(md.asarray([3.0, 9.0, 2.0, 9.0]), 2)
        >>> found.values.tolist(), found.indices.tolist()
        ([9.0, 9.0], [1, 3])

    Source: ONNX 1.23, `TopK`; PyTorch, `torch.topk`, which leaves the order of equal
    elements open.
    """
    x, call = as_tensor(x, "topk"), describe("topk", x)
    at = checked("topk", (x,), lambda: normalize_axis(axis, x.ndim))
    if not is_size(k):
        raise OptionError(f"k is {shown(k)}", "Give an integer", call)
    count = int(k)
    checked("topk", (x,), lambda: flag(largest, "largest"))
    if not 0 <= count <= x.shape[at]:
        problem = f"k is {count}, and axis {at} has {x.shape[at]} elements"
        raise BoundsError(problem, f"Use 0 to {x.shape[at]}", call)
    places = leading(x, at, count, largest)
    if places is None:
        order = argsort(x, axis=at, descending=largest, stable=True)
        places = getitem(order, (*[slice(None)] * at, slice(0, count)))
    return TopKResult(take_along_axis(x, places, axis=at), places)


def as_tensor(x: Any, name: str) -> Any:
    """Return a tensor, also for a NumPy array; raise for anything else."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        return from_numpy(x)
    problem = f"{shown(x)} is not a tensor"
    raise DispatchError(problem, "Use asarray(x)", describe(name, x))


def as_real(x: Any, name: str) -> Any:
    """Return a tensor of real numbers, also for a NumPy array.

    Raises:
        DispatchError: `x` is another one.
    """
    x = as_tensor(x, name)
    if x.dtype.is_integer or x.dtype.is_floating:
        return x
    raise not_real(x, name)
