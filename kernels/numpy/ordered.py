"""Reductions in the order of the axes, for arrays whose memory has another order.

NumPy adds elements in the order of memory, and is slow where only a few neighbouring
elements belong to one result. Here the order is always that of a row-major copy:

    last axis      halves down to 128 elements, in 8 lanes: NumPy's order for rows
    other axes     one element after the other

Both run on blocks that stay in the cache, so they take O(block) memory. Kernels reduce
long arrays of short rows or few columns, for which NumPy calls a loop each.
Source: NumPy, `pairwise_sum` in loops_utils.h.src.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quietly

Array = npt.NDArray[Any]
Axes = tuple[int, ...]

#: Elements of an array that NumPy reduces in less time than the choice of a way takes.
FEW = 1 << 12
#: Elements from which on a kernel may reduce short rows and few columns.
LONG = 1 << 15
#: Elements of a block.
BLOCK = 1 << 17
#: Neighbours that share a result from which on NumPy's inner loop is long enough.
SHORT = 32
#: Columns that are enough for the calls of NumPy that add them in lanes.
COLUMNS = 512
#: Rows that are added in 8 lanes; more are halved.
ROWS = 128


def reduce(
    ufunc: np.ufunc, x: Array, axes: Axes, keepdims: bool, dtype: np.dtype[Any]
) -> Array:
    """Compute ufunc.reduce(x, axes) in `dtype`, in the order of the axes."""
    rounds = ufunc in (np.add, np.multiply) and x.dtype.kind in "fc"
    # NumPy casts in pieces of a row, which have an order of their own.
    is_long = x.size >= FEW and (x.dtype == dtype or not rounds)
    if is_long and rounds and (order := _order_of_memory(x, axes)):
        return _reordered(ufunc, x, axes, order, keepdims, dtype)
    if is_long and (
        found := _by_kernel(ufunc, x, axes, dtype)
        or _by_blocks(ufunc, x, axes, dtype, rounds)
    ):
        ones = [1 if i in axes else n for i, n in enumerate(x.shape)]
        kept = [n for i, n in enumerate(x.shape) if i not in axes]
        return found[0].reshape(ones if keepdims else kept)
    y = in_order(x, axes) if rounds else x
    return np.asarray(quietly(ufunc.reduce, y, axes, dtype, None, keepdims))


# Each result is computed for itself, so where results lie does not change one.
def _order_of_memory(x: Array, axes: Axes) -> list[int] | None:
    """Return an order of all axes in which the kept ones lie as in memory.

    The reduced axes stay last, or not last, and among themselves in their order. Axes
    of one element lie anywhere: behind a last axis it is still the last one.

    Returns:
        The order; None if the kept axes already lie so.
    """
    kept = [i for i in range(x.ndim) if i not in axes]
    found = sorted(kept, key=lambda i: -abs(x.strides[i]) if x.shape[i] > 1 else 0)
    wide = [i for i in kept if x.shape[i] > 1]
    if [i for i in found if x.shape[i] > 1] == wide:
        return None
    if not axes or axes[-1] - axes[0] != len(axes) - 1:
        return None
    is_last = prod(x.shape[axes[-1] + 1 :]) == 1
    return [*found, *axes] if is_last else [*axes, *found]


def _reordered(
    ufunc: np.ufunc,
    x: Array,
    axes: Axes,
    order: list[int],
    keepdims: bool,
    dtype: np.dtype[Any],
) -> Array:
    """Compute `reduce` of the transpose of x by `order`, and move the results back."""
    places = (*(order.index(i) for i in axes),)
    found = reduce(ufunc, x.transpose(order), places, True, dtype)
    back = found.transpose(np.argsort(order))
    kept = back if keepdims else back.squeeze(axes)
    return np.ascontiguousarray(kept)


def _by_kernel(
    ufunc: np.ufunc, x: Array, axes: Axes, dtype: np.dtype[Any]
) -> tuple[Array] | None:
    """Return the reduction by a kernel; None where NumPy's own way is as good."""
    if x.size < LONG or x.dtype != dtype or not x.flags.c_contiguous:
        return None
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return None
    # Import late: `import mdtensor` must not choose kernels (decision 0002).
    from mdtensor.kernels.cpu import fold_calls

    if ufunc not in fold_calls.OPERATIONS:
        return None
    sizes = x.shape[: axes[0]], x.shape[axes[0] : axes[-1] + 1], x.shape[axes[-1] + 1 :]
    outer, length, inner = map(prod, sizes)
    # A single column is a row, which NumPy adds in halves.
    if outer * inner < 2:
        return None
    found = fold_calls.reduce(ufunc, x, (outer, length, inner))
    return None if found is None else (found,)


def accumulate(ufunc: np.ufunc, x: Array, axis: int, out: Array) -> bool:
    """Set out = ufunc.accumulate(x, axis) by a kernel; return whether there is one."""
    if x.size < LONG:
        return False
    # Import late: `import mdtensor` must not choose kernels (decision 0002).
    from mdtensor.kernels.cpu import fold_calls

    return fold_calls.accumulate(ufunc, x, axis, out)


# A sum must not depend on where its elements lie: it has the bytes of a copy in order
# (decision 0067). Blocks spare the copy (decision 0090).
def in_order(x: Array, axes: Axes) -> Array:
    """Return x if NumPy reduces it as its copy in row-major order, else the copy."""
    return x if is_ordered(x, axes) else x.copy(order="C")


def is_ordered(x: Array, axes: Axes) -> bool:
    """Return whether the axes lie in memory as their order is.

    Neighbours that are both reduced must lie as one axis: a copy is one row there.
    """
    if x.flags.c_contiguous:
        return True
    kept = [i for i, n in enumerate(x.shape) if n != 1]
    n, steps = x.shape, x.strides
    if any(steps[i] <= 0 for i in kept):
        return False
    for i, j in pairwise(kept):
        is_row = i in axes and j in axes
        if steps[i] < steps[j] or (is_row and steps[i] != n[j] * steps[j]):
            return False
    return True


def _by_blocks(
    ufunc: np.ufunc, x: Array, axes: Axes, dtype: np.dtype[Any], rounds: bool
) -> tuple[Array] | None:
    """Return the reduction in blocks; None where NumPy's own way is as good."""
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return None
    sizes = x.shape[: axes[0]], x.shape[axes[0] : axes[-1] + 1], x.shape[axes[-1] + 1 :]
    outer, count, inner = map(prod, sizes)
    is_straight = is_ordered(x, axes)
    is_quick = inner == 1 or inner >= SHORT or outer == 1
    if outer * inner < 2 or (is_quick and (is_straight or not rounds)):
        return None
    try:
        y = x.reshape((outer, count, inner), copy=False)
    except ValueError:  # The axes do not lie evenly, so only a copy would do.
        return None
    if inner > 1:
        # A short copy stays in the cache as a whole.
        is_worth = inner < SHORT or x.size > BLOCK
        return _one_by_one(ufunc, y, dtype) if is_worth else None
    is_sum = ufunc is np.add and x.dtype.kind == "f" and y.strides[0] == x.itemsize
    return (quietly(_halves, y[:, :, 0].T),) if is_sum and outer >= COLUMNS else None


def _one_by_one(ufunc: np.ufunc, x: Array, dtype: np.dtype[Any]) -> tuple[Array] | None:
    """Reduce the middle one of three axes, one element after the other."""
    outer, _, inner = x.shape
    along = 0 if outer > 1 else 2
    line = x.size // x.shape[along]
    # Columns that lie apart share lines of the cache, so a block has several.
    step = max(BLOCK // line, 2 if along == 0 else COLUMNS // 8)
    if step * line > 8 * BLOCK:
        return None
    result = np.empty((outer, inner), dtype)
    for at in range(0, x.shape[along], step):
        # A single column would be added as a row, so the last block has two at least.
        at = min(at, max(x.shape[along] - 2, 0))
        block = slice(at, at + step)
        rows = _transposed(x[block] if along == 0 else x[:, :, block])
        out = result[block] if along == 0 else result[:, block]
        quietly(ufunc.reduce, rows, 0, dtype, out)
    return (result,)


def _transposed(x: Array) -> Array:
    """Return a copy with the first two of three axes exchanged."""
    size = x.shape[2] * x.itemsize
    if x.strides[2] != x.itemsize or size > 16 * SHORT or x.shape[2] == 1:
        return np.ascontiguousarray(x.transpose(1, 0, 2))
    # Neighbours are copied as one item, since NumPy copies them in a loop.
    items = x.view(f"V{size}" if size not in (4, 8) else f"u{size}")[:, :, 0]
    return np.ascontiguousarray(items.T).view(x.dtype).reshape(*items.T.shape, -1)


def _halves(x: Array) -> Array:
    """Add the rows of x, [n, columns], in the order in which NumPy adds a row."""
    count = len(x)
    if count > ROWS:
        half = count // 2 - count // 2 % 8
        first = _halves(x[:half])
        return np.add(first, _halves(x[half:]), first)
    if count < 8:
        return np.asarray(np.add.reduce(x, 0))
    whole = count - count % 8
    lanes = np.add.reduce(x[:whole].reshape(-1, 8, x.shape[1]), 0)
    pairs = np.add(lanes[::2], lanes[1::2])
    fours = np.add(pairs[::2], pairs[1::2])
    total = np.add(fours[0], fours[1])
    for row in x[whole:]:
        np.add(total, row, total)
    return total
