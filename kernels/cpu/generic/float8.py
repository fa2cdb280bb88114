"""Any float of 8 bits as its bits, by the tables of `dense/float8.py`."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from mdtensor.kernels.numpy import float8

REST = np.uint32(0xFFFF)


class Casts(NamedTuple):
    """Between a type's bits and float32, for compiled functions."""

    widen: Any
    narrow: Any


@cache
def casts(name):
    """Those of the NumPy type `name`."""
    wide = float8.wide(np.dtype(name))
    bits = float8.narrow(np.dtype(name)).view(np.uint8)

    @register_jitable
    def widen(h):
        """The float32 that equals the bits `h`."""
        return wide[h]

    @register_jitable
    def narrow(x):
        """`x` rounded half to even, as bits."""
        found = np.float32(x).view(np.uint32)
        behind = np.uint32(np.uint32(found & REST) != np.uint32(0))
        return bits[np.uint32(found >> np.uint32(16)) | behind]

    return Casts(widen, narrow)
