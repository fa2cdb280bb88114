"""Element by element in blocks that stay in the cache, so temporaries cost little."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.memory import empty
from mdtensor.kernels.numpy import float16
from mdtensor.kernels.numpy.float16 import is_narrow
from mdtensor.kernels.numpy.runtime import quietly
from mdtensor.kernels.numpy.threads import TEAM

Array = npt.NDArray[Any]
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
