"""8-bit floats of any kind as bits, by the tables of `numpy/float8.py`."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from mdtensor.kernels.numpy import float8

REST = np.uint32(0xFFFF)


class Casts(NamedTuple):
    """Casts between the bits of a type and float32, for compiled functions."""

    widen: Any
    narrow: Any


@cache
def casts(name):
    """Return the casts of the NumPy type `name`."""
    wide = float8.wide(np.dtype(name))
    bits = float8.narrow(np.dtype(name)).view(np.uint8)

    @register_jitable
    def widen(h):
        """Return the float32 that equals the bits `h`."""
        return wide[h]

    @register_jitable
    def narrow(x):
        """Return `x` rounded half to even, as bits."""
        found = np.float32(x).view(np.uint32)
        # The upper 16 bits round like the whole float32 if their last bit also says
        # whether any lower bit is set. So a table of 65,536 entries is enough.
        behind = np.uint32(np.uint32(found & REST) != np.uint32(0))
        return bits[np.uint32(found >> np.uint32(16)) | behind]

    return Casts(widen, narrow)
