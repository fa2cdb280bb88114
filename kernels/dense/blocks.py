"""Element by element in blocks that stay in the cache, so temporaries cost little."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense import half
from mdtensor.kernels.dense.half import NARROW
from mdtensor.kernels.dense.quiet import quietly
from mdtensor.kernels.dense.team import TEAM

Array = npt.NDArray[Any]

BLOCK = 1 << 16  # elements: fewer, and the calls cost more than the cache


def in_blocks(function: Callable[..., Array]) -> Callable[..., Array]:
    """Run a function of each element on one block after another.

    16-bit floats are computed in float32 and rounded once. The function may return a
    wider type, which is rounded to that of x, and must not write to its argument.
    """

    @wraps(function)
    def blocked(x: Array, *options: Any) -> Array:
        if x.dtype in NARROW:
            return half.unary(function, x, *options)
        flat, y = x.reshape(-1), np.empty(x.shape, x.dtype)

        def work(start: int, stop: int) -> None:
            for at in range(start, stop, BLOCK):
                block = slice(at, min(at + BLOCK, stop))
                y.reshape(-1)[block] = quietly(function, flat[block], *options)

        TEAM.spread(work, flat.size)
        return y

    return blocked
