"""Any float of 8 bits as its bits, by tables: all there is to know is how NumPy casts.

A number on its way to one needs its first 8 digits only, and whether any came behind
them: those fit 16 bits, of which there is a table.

Source: S. Boldo, G. Melquiond, "When double rounding is odd".
"""

from functools import cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numba.extending import register_jitable

REST = np.uint32(0xFFFF)


class Casts(NamedTuple):
    """Between a type's bits and float32, for compiled functions."""

    widen: Any
    narrow: Any


@cache
def casts(name):
    """Those of the NumPy type `name`."""
    dtype = np.dtype(name)
    with np.errstate(all="ignore"):
        wide = np.arange(1 << 8, dtype=np.uint8).view(dtype).astype(np.float32)
        upper = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
        bits = upper.astype(np.float32).astype(dtype).view(np.uint8)

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
