"""NumPy's loops as kernels: operands are cast inside the loop, block by block.

Floating point never warns. Narrow floats, of 16 bits or less, are computed in float32
and rounded once. Integers wrap. No kernel writes to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels import observe
from mdtensor.kernels.numpy import float16
from mdtensor.kernels.numpy.conversion import promoted
from mdtensor.kernels.numpy.float16 import (
    FLOAT32 as FLOAT32,
    is_narrow as is_narrow,
    rounded,
    widened,
)
from mdtensor.kernels.numpy.runtime import elementwise, empty, joint_shape, quietly
from mdtensor.kernels.numpy.threads import LARGE, TEAM

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def compute_dtype(dtype: DType) -> DType:
    """Where arithmetic on `dtype` is done: float32 for narrow floats."""
    return FLOAT32 if is_narrow(dtype) else dtype


def unary(ufunc: Callable[..., Any], x: Array) -> Array:
    """ufunc(x) in the type of x."""
    if not is_narrow(x.dtype):
        return elementwise(ufunc, x) if x.size < LARGE else spread(ufunc, x)
    if isinstance(ufunc, np.ufunc):
        return float16.unary(ufunc, x)
    found = np.asarray(quietly(ufunc, widened(x)))
    return rounded(found, x.dtype) if found.dtype == FLOAT32 else found


def predicate(ufunc: Callable[..., Any], x: Array) -> Array:
    """ufunc(x), truth values."""
    return unary(ufunc, x)


# NumPy runs dense arithmetic, so that `import mdtensor` loads no compiler (decision
# 0002).
def binary(ufunc: np.ufunc, x1: Array, x2: Array, dtype: DType) -> Array:
    """ufunc(x1, x2), operands cast to `dtype` in the loop."""
    # The usual case before all questions.
    if x1.dtype is x2.dtype is dtype and x1.size < LARGE and not is_narrow(dtype):
        return elementwise(ufunc, x1, x2)
    if is_narrow(dtype):
        return float16.binary(ufunc, promoted(x1, dtype), promoted(x2, dtype))
    if x1.dtype == x2.dtype == dtype:
        # Beyond the caches only: memory is what two operands wait for.
        is_large = max(x1.size, x2.size) >= 4 * LARGE
        return (spread if is_large else elementwise)(ufunc, x1, x2)
    return np.asarray(quietly(ufunc, x1, x2, dtype=dtype, casting="unsafe"))


def spread(ufunc: Any, *operands: Array) -> Array:
    """ufunc(*operands), their elements shared out among threads."""
    count = max(x.size for x in operands)
    if not _are_rows(ufunc, operands, count):
        return elementwise(ufunc, *operands)
    types = ufunc.resolve_dtypes((*(x.dtype for x in operands), None))
    result = empty(joint_shape(*(x.shape for x in operands)), types[-1])
    rows, out = [x.reshape(-1) for x in operands], result.reshape(-1)

    def work(start: int, stop: int) -> None:
        pieces = [x[start:stop] if x.size > 1 else x for x in rows]
        quietly(ufunc, *pieces, out=out[start:stop])

    TEAM.spread(work, count)
    if observe.ACTIVE:  # other threads may have done it all
        observe.spread(ufunc, *operands)
    return result


def _are_rows(ufunc: Any, operands: tuple[Array, ...], count: int) -> bool:
    """Whether each is a lone number, or `count` elements in one row of memory."""
    if not isinstance(ufunc, np.ufunc):
        return False
    shape = joint_shape(*(x.shape for x in operands))
    rows = (x.size in (1, count) and x.flags.c_contiguous for x in operands)
    return prod(shape) == count and all(rows)


def narrowed(function: Callable[..., Any], dtype: DType, *operands: Any) -> Array:
    """function(*operands), rounded to `dtype`."""
    found = np.asarray(quietly(function, *operands))
    return found if found.dtype == dtype else float16.cast(found, dtype)


def in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Run a function of narrow floats in float32, so that it rounds once."""

    @wraps(function)
    def in_wide(x: Array, *options: Any) -> Array:
        if is_narrow(x.dtype):
            return narrowed(function, x.dtype, widened(x), *options)
        return np.asarray(quietly(function, x, *options))

    return in_wide


# Element by element in blocks that stay in the cache, so temporaries cost little.

Kernel = Callable[..., Array]

#: Elements of a block: fewer, and the calls cost more than the cache saves.
BLOCK = 1 << 18
#: The same where several temporaries are float64.
SHORT = 1 << 15


def _blocked(length: int, function: Callable[..., None]) -> Kernel:
    """Run function(x, out, *options) of each element on one block after another.

    Narrow floats are computed in float32 and rounded once. The function writes every
    element of `out`, and none of x.
    """

    def on_row(x: Array, *options: Any) -> Array:
        out = np.empty_like(x)
        function(x, out, *options)
        return out

    @wraps(function)
    def blocked(x: Array, *options: Any) -> Array:
        if is_narrow(x.dtype):
            return float16.unary(on_row, x, *options)
        y = empty(x.shape, x.dtype)
        flat, out = x.reshape(-1), y.reshape(-1)

        def work(start: int, stop: int) -> None:
            for at in range(start, stop, length):
                block = slice(at, min(at + length, stop))
                quietly(function, flat[block], out[block], *options)

        TEAM.spread(work, flat.size)
        return y

    return blocked


#: A kernel from a function(x, out, *options), which says what to do with a block.
in_blocks = partial(_blocked, BLOCK)
in_short_blocks = partial(_blocked, SHORT)
