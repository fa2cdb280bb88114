"""Memory of large results, used again: fresh pages cost as much as the arithmetic.

The system gives a large array pages that it clears at their first touch, and takes
them back with the array. So what large results leave behind is kept, and the next
result of about that size takes it.
"""

from __future__ import annotations

from collections import deque
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Bytes of a result from which NumPy's allocator asks the system each time.
LARGE = 1 << 24
#: Bytes that are kept at most.
KEPT = 1 << 28


class _Block(np.ndarray[Any, Any]):
    """Memory of its own, in bytes."""


class _Loan(np.ndarray[Any, Any]):
    """A view of a block, which is left when nobody looks at the loan any more."""

    def __del__(self) -> None:
        if type(self.base) is _Block:  # and this is no part of a loan
            _keep(self.base)


#: The last one is the last that was left.
_LEFT: deque[_Block] = deque()


# Large results reuse memory, because clearing fresh pages takes as long as an addition
# (decision 0007).
def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """numpy.empty(shape, dtype), in memory that is at hand."""
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    block = _left(size)
    if block is None:
        block = _Block(size, np.uint8)
    loan = _Loan(block.shape, np.uint8, buffer=block)
    return np.ndarray(shape, dtype, buffer=loan)


def _left(size: int) -> _Block | None:
    """A kept block of `size` bytes or a quarter more; None if there is none.

    Each step on the deque is one for all threads, and a loan may end between any two.
    """
    for _ in range(len(_LEFT)):
        try:
            block = _LEFT.pop()
        except IndexError:
            return None
        if size <= block.size <= size + size // 4:
            return block
        _LEFT.appendleft(block)
    return None


def _keep(block: _Block) -> None:
    _LEFT.append(block)
    while sum(kept.size for kept in list(_LEFT)) > KEPT:
        try:
            _LEFT.popleft()
        except IndexError:
            return
