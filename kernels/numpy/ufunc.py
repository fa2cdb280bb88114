"""NumPy's loops as kernels: operands are cast inside the loop, block by block.

Floating-point arithmetic never warns. Narrow floats, of 16 bits or less, are computed
in float32 and rounded once. Integers wrap. Kernels never write to their arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels import observe
from mdtensor.kernels.numpy import elementwise, empty, float16, joint_shape, quietly
from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import (
    FLOAT32 as FLOAT32,
    is_narrow as is_narrow,
    round_to,
    widen,
)
from mdtensor.kernels.numpy.float32 import COMPILED, PAIRS, call, pair
from mdtensor.kernels.numpy.threads import LARGE, POOL

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def compute_dtype(dtype: DType) -> DType:
    """Return the type that arithmetic on `dtype` uses: float32 for narrow floats."""
    return FLOAT32 if is_narrow(dtype) else dtype


def unary(ufunc: Callable[..., Any], x: Array) -> Array:
    """Compute ufunc(x) in the type of x."""
    if ufunc in COMPILED and (x.dtype == FLOAT32 or is_narrow(x.dtype)):
        return call(COMPILED[ufunc], x)
    if not is_narrow(x.dtype):
        return elementwise(ufunc, x) if x.size < LARGE else spread(ufunc, x)
    if isinstance(ufunc, np.ufunc):
        return float16.unary(ufunc, x)
    found = np.asarray(quietly(ufunc, widen(x)))
    return round_to(found, x.dtype) if found.dtype == FLOAT32 else found


def predicate(ufunc: Callable[..., Any], x: Array) -> Array:
    """Compute ufunc(x), which gives bools."""
    return unary(ufunc, x)


# NumPy runs dense arithmetic, so that `import mdtensor` does not load a compiler
# (decision 0002).
def binary(ufunc: np.ufunc, x1: Array, x2: Array, dtype: DType) -> Array:
    """Compute ufunc(x1, x2), operands cast to `dtype` in the loop."""
    # Test the most frequent case first: it costs the least.
    if x1.dtype is x2.dtype is dtype and x1.size < LARGE and not is_narrow(dtype):
        if dtype == FLOAT32 and ufunc in PAIRS:
            return pair(ufunc, x1, x2)
        return elementwise(ufunc, x1, x2)
    if is_narrow(dtype):
        return float16.binary(ufunc, promote(x1, dtype), promote(x2, dtype))
    if dtype == FLOAT32 and ufunc in PAIRS:
        return pair(ufunc, promote(x1, dtype), promote(x2, dtype))
    if x1.dtype == x2.dtype == dtype:
        # With two operands, threads pay off only beyond the caches (decision 0007).
        is_large = max(x1.size, x2.size) >= 4 * LARGE
        return (spread if is_large else elementwise)(ufunc, x1, x2)
    return np.asarray(quietly(ufunc, x1, x2, dtype=dtype, casting="unsafe"))


def spread(ufunc: Any, *operands: Array) -> Array:
    """Compute ufunc(*operands), elements shared among threads."""
    count = max(x.size for x in operands)
    if not _are_rows(ufunc, operands, count):
        return elementwise(ufunc, *operands)
    types = ufunc.resolve_dtypes((*(x.dtype for x in operands), None))
    result = empty(joint_shape(*(x.shape for x in operands)), types[-1])
    rows, out = [x.reshape(-1) for x in operands], result.reshape(-1)

    def work(start: int, stop: int) -> None:
        pieces = [x[start:stop] if x.size > 1 else x for x in rows]
        quietly(ufunc, *pieces, out=out[start:stop])

    POOL.spread(work, count)
    # Report here: other threads, which are not observed, may have run every piece.
    if observe.ACTIVE:
        observe.spread(ufunc, *operands)
    return result


def _are_rows(ufunc: Any, operands: tuple[Array, ...], count: int) -> bool:
    """Return whether each operand is one number, or `count` contiguous elements."""
    if not isinstance(ufunc, np.ufunc):
        return False
    shape = joint_shape(*(x.shape for x in operands))
    rows = (x.size in (1, count) and x.flags.c_contiguous for x in operands)
    return prod(shape) == count and all(rows)


def run_and_round(function: Callable[..., Any], dtype: DType, *operands: Any) -> Array:
    """Call function(*operands) and round the result to `dtype`."""
    found = np.asarray(quietly(function, *operands))
    return found if found.dtype == dtype else float16.cast(found, dtype)


def in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate a function to compute narrow floats in float32 and to round once."""

    @wraps(function)
    def in_wide(x: Array, *options: Any) -> Array:
        if is_narrow(x.dtype):
            return run_and_round(function, x.dtype, widen(x), *options)
        return np.asarray(quietly(function, x, *options))

    return in_wide


Kernel = Callable[..., Array]

#: Elements of a block. In smaller ones the calls cost more than the cache saves
#: (decision 0007).
BLOCK = 1 << 18
#: Elements of a block for functions with several float64 temporaries.
SHORT = 1 << 15


def _by_blocks(length: int, function: Callable[..., None]) -> Kernel:
    """Decorate function(x, out, *options) to run on one block after another.

    Narrow floats are computed in float32 and rounded once. The function writes every
    element of `out`, and none of x.
    """

    def on_row(x: Array, *options: Any) -> Array:
        out = np.empty_like(x)
        function(x, out, *options)
        return out

    @wraps(function)
    def run_blocks(x: Array, *options: Any) -> Array:
        if is_narrow(x.dtype):
            return float16.unary(on_row, x, *options)
        # A transposed array is read, and its result lies, as it does.
        if x.flags.f_contiguous and not x.flags.c_contiguous:
            return run_blocks(x.T, *options).T
        y = empty(x.shape, x.dtype)
        flat, out = x.reshape(-1), y.reshape(-1)

        def work(start: int, stop: int) -> None:
            for at in range(start, stop, length):
                block = slice(at, min(at + length, stop))
                quietly(function, flat[block], out[block], *options)

        POOL.spread(work, flat.size)
        return y

    return run_blocks


#: Decorators that make a kernel of a function(x, out, *options) of one block.
in_blocks = partial(_by_blocks, BLOCK)
in_short_blocks = partial(_by_blocks, SHORT)
