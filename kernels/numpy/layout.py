"""How the operands of a call lie in memory: contiguous rows, or not.

The choice is made once for all operands of a call. It has two outcomes, however many
operands there are, so a loop needs two kernels and not two for each operand (decision
0012).
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Operand(NamedTuple):
    """An array that a scalar function reads or writes.

    Args:
        array: an array of any rank and strides; it must outlive the loop.
        name: the name of the element type; NumPy does not have a dtype for `bfloat16`.
        writes: whether the function may write to the array.
        ranked: whether a view of the array takes one index for each dimension
            (`ranked_in`, `ranked_out`), rather than one index for all elements.
    """

    array: Array
    name: str
    writes: bool = False
    ranked: bool = False


class FunctionError(TypeError):
    """Raised if a function cannot run, with the reason and, if known, the line."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason, line)
        self.reason, self.line = reason, line


def is_contiguous(*arrays: Array) -> bool:
    """Return whether each array is one row of memory, in the order of its indices.

    Example:
        >>> x = np.zeros((2, 3))
        >>> is_contiguous(x, x), is_contiguous(x, x.T), is_contiguous(x[:, :1])
        (True, False, False)
    """
    return all(x.flags.c_contiguous and x.flags.aligned for x in arrays)


def address(array: Array) -> int:
    """Return the address of the first element."""
    found: int = array.__array_interface__["data"][0]
    return found


def lines(array: Array) -> Array:
    """Return int64 [2, ndim]: sizes, and strides in bytes."""
    return np.array((array.shape, array.strides), np.int64).reshape(2, array.ndim)


def merge_axes(*arrays: Array) -> Array:
    """Return int64 [1 + arrays, ndim >= 1]: sizes, then each array's strides in bytes.

    All arrays have one shape. Dimensions of size 1 are left out, and neighbours that
    every array steps through as if they were one dimension are merged.

    Example:
        >>> x = np.zeros((2, 3, 4), np.int8)
        >>> merge_axes(x, x).tolist()
        [[24], [1], [1]]
        >>> merge_axes(x, x[:, ::-1]).tolist()
        [[2, 3, 4], [12, 4, 1], [12, -4, 1]]
    """
    axes: list[list[int]] = []
    for column in zip(arrays[0].shape, *(x.strides for x in arrays), strict=True):
        size, *steps = column
        if size == 1:
            continue
        if axes and axes[-1][1:] == [size * step for step in steps]:
            axes[-1] = [axes[-1][0] * size, *steps]
        else:
            axes.append(list(column))
    if not axes:
        axes = [[1, *(x.itemsize for x in arrays)]]
    return np.ascontiguousarray(np.array(axes, np.int64).T)


def in_order(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays, axes sorted in the order in which the first lies in memory.

    Example:
        >>> x = np.zeros((2, 3)).T
        >>> [found.shape for found in in_order(x, np.broadcast_to(1.0, (3, 2)))]
        [(2, 3), (2, 3)]
    """
    steps = arrays[0].strides
    order = sorted(range(len(steps)), key=lambda axis: -abs(steps[axis]))
    return tuple(x.transpose(order) for x in arrays)


def repeats(array: Array) -> bool:
    """Return whether elements share bytes, as after a broadcast; exact for any strides.

    Example:
        >>> strided = np.lib.stride_tricks.as_strided
        >>> x = np.zeros(8, np.int8)
        >>> repeats(strided(x, (3, 2), (2, 1))), repeats(strided(x, (3, 3), (2, 1)))
        (False, True)
    """
    if array.size < 2:
        return False
    pairs = zip(array.strides, array.shape, strict=True)
    steps = sorted((abs(step), n) for step, n in pairs if n > 1)
    end, is_nested = array.itemsize, True
    for step, n in steps:
        is_nested &= step >= end
        end += step * (n - 1)
    if is_nested:
        return False
    # Only strides that interleave get this far; for the rest, two tests decide cheaply.
    if steps[0][0] < array.itemsize or array.nbytes > end:
        return True
    # Compare the addresses of all elements: the strides alone do not decide.
    places: Array = reduce(np.add.outer, [step * np.arange(n) for step, n in steps])
    return bool(np.diff(np.sort(places, axis=None)).min() < array.itemsize)
