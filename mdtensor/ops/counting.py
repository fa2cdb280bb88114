"""Counts of elements of host tensors: `bincount` and `histogram`.

The elements decide the size of a result, so they run at once, also on lazy tensors.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mdtensor.dispatch.composed import composed
from mdtensor.errors import (
    BoundsError,
    DataError,
    DispatchError,
    OptionError,
    ShapeError,
    describe,
    shown,
)
from mdtensor.kernels.numpy import counting as kernel
from mdtensor.ops.operands import allocate, not_real
from mdtensor.spec.shapes import is_size
from mdtensor.tensor import Tensor, from_numpy


class HistogramResult(NamedTuple):
    """The result of `histogram`."""

    counts: Any
    edges: Any


@composed
def bincount(x: Any, /, *, weights: Any = None, minlength: int = 0) -> Any:
    """Return how often each integer from 0 on occurs in `x`.

    Args:
        x: integers of at least 0, of one axis.
        weights: real, the shape of `x`; then each result is the sum of the weights of
            its integer, in float64, in their order.
        minlength: the least number of results.

    Returns:
        Int64Tensor, or Float64Tensor with `weights`, of the largest integer plus 1.

    Raises:
        DispatchError: `x` is not a tensor of integers.
        ShapeError: `x` does not have one axis, or `weights` has another shape.
            The result does not fit into memory.
        BoundsError: an integer is below 0.
        OptionError: `minlength` is not an integer of at least 0.

    Example:
        >>> import mdtensor as md
        >>> md.bincount(md.asarray([0, 2, 2, 5])).tolist()
        [1, 0, 2, 0, 0, 1]

    Source: NumPy, `numpy.bincount`; PyTorch, `torch.bincount`.
    """
    call = describe("bincount", x)
    a = _elements(x, "bincount")
    if a.dtype.kind not in "iu":
        fix = "Use astype(x, int64, casting='wrap')"
        raise DispatchError(f"{x.dtype} elements are not integers", fix, call)
    if a.ndim != 1:
        raise ShapeError(f"x has {a.ndim} axes, not 1", "Use reshape(x, (-1,))", call)
    if not is_size(minlength) or minlength < 0:
        problem = f"minlength is {shown(minlength)}"
        raise OptionError(problem, "Use an integer of at least 0", call)
    if a.size and int(a.min()) < 0:
        problem = f"the least element is {int(a.min())}"
        raise BoundsError(problem, "Use integers of at least 0", call)
    heavy = None if weights is None else _elements(weights, "bincount")
    if heavy is not None and heavy.shape != a.shape:
        problem = f"weights has the shape {heavy.shape}, and x {a.shape}"
        raise ShapeError(problem, "Give a weight for each element", call)
    counted = partial(kernel.bincount, a, heavy, int(minlength))
    return from_numpy(allocate(counted, "bincount", x))


@composed
def histogram(x: Any, /, bins: Any = 10, *, range: Any = None) -> HistogramResult:
    """Return how many elements are between neighbouring edges, and the edges.

    A count includes its lower edge, and the last one its upper edge as well. Numbers
    outside of `range` or of the edges are not counted.

    Args:
        x: real, any shape.
        bins: how many of one width, at least 1; or a tensor of edges that increase.
        range: the first and the last edge, if `bins` is a number; by default the least
            and the largest element, and 0 and 1 without elements.

    Returns:
        `counts`, Int64Tensor, and `edges`, one more: the edges given, or float32 for
        narrow floats and float32, and float64 for others.

    Raises:
        DispatchError: `x` is not real.
        DataError: an element is NaN or infinite and `range` is None; or the ends of it
            are too close to each other, or too far apart, for `bins` edges.
        OptionError: `bins` is not a positive integer or edges that increase, or `range`
            is not two finite numbers in their order.

    Example:
        >>> import mdtensor as md
        >>> found = md.histogram(md.asarray([0.5, 1.5, 1.5, 4.0]), 4, range=(0, 4))
        >>> found.counts.tolist(), found.edges.tolist()
        ([1, 2, 0, 1], [0.0, 1.0, 2.0, 3.0, 4.0])

    Source: NumPy, `numpy.histogram`; PyTorch, `torch.histogram`.
    """
    call = describe("histogram", x)
    a = _elements(x, "histogram")
    edges = _bins(bins, call)
    ends = None if range is None else _ends(range, call)
    is_open = ends is None and not isinstance(edges, np.ndarray)
    if is_open and a.dtype.kind == "f" and not np.isfinite(a).all():
        problem = "an element is NaN or infinite, so there is no last edge"
        raise DataError(problem, "Give range=(first, last)", call)
    try:
        counts, found = kernel.histogram(a, edges, ends)
    except ValueError:
        first, last = ends or (a.min().item(), a.max().item())
        problem = f"floats cannot hold {bins} different edges from {first} to {last}"
        raise DataError(problem, "Use fewer bins, or another range", call) from None
    return HistogramResult(from_numpy(counts), from_numpy(found))


def _bins(bins: Any, call: str) -> Any:
    """Return the number of bins, or the array of edges.

    Raises:
        OptionError: they are neither.
    """
    if is_size(bins):
        if bins >= 1:
            return int(bins)
        raise OptionError(f"bins is {shown(bins)}", "Use 1 or more", call)
    if isinstance(bins, (Tensor, np.ndarray, list, tuple)):
        edges = np.asarray(bins)
        is_row = edges.ndim == 1 and edges.size >= 2 and edges.dtype.kind in "iuf"
        if is_row and (edges[1:] >= edges[:-1]).all():
            return edges
    problem = f"bins is {shown(bins)}, not a number of bins or edges that increase"
    raise OptionError(problem, "Use an integer, or a tensor of edges", call)


def _ends(given: Any, call: str) -> tuple[float, float]:
    """Return the first and the last edge.

    Raises:
        OptionError: they are not two finite numbers in their order.
    """
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2
    if is_pair and all(isinstance(end, (int, float)) for end in given):
        first, last = map(float, given)
        if np.isfinite([first, last]).all() and first <= last:
            return first, last
    problem = f"range is {shown(given)}, not two finite numbers in their order"
    raise OptionError(problem, "Use a pair such as (0, 1)", call)


def _elements(x: Any, name: str) -> Any:
    """Return the elements of a tensor of real numbers, which is computed if it is lazy.

    Raises:
        DispatchError: `x` is not one.
        DeviceError: it is on another device.
    """
    call = describe(name, x)
    if not isinstance(x, (Tensor, np.ndarray)):
        raise DispatchError(f"{shown(x)} is not a tensor", "Use asarray(x)", call)
    tensor = x if isinstance(x, Tensor) else from_numpy(x)
    if not (tensor.dtype.is_integer or tensor.dtype.is_floating):
        raise not_real(tensor, name)
    return np.asarray(tensor)
