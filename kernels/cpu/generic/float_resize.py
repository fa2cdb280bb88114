"""Resampling of float32 along one axis.

    out[o, j, i] = 0 + weight[j, 0] · x[o, index[j, 0], i] + weight[j, 1] · ...

Each product and each sum rounds once, in this order, as in `kernels/numpy/resize.py`.
NaN and infinities are as in IEEE 754.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ZERO
from mdtensor.kernels.cpu.jit import kernel


@kernel
def add_weighted(x, place, weight, row):
    """Add the product of a weight and of the elements of x from `place` on to a row."""
    source = x[np.uintp(place) : np.uintp(place + len(row))]
    for i in range(np.uintp(len(row))):
        row[i] = np.float32(row[i] + np.float32(weight * source[i]))


@kernel
def resample_f32(x, outer, length, inner, indices, weights, out):
    """Compute the sums above.

    Args:
        x: float32 1-D [outer, length, inner].
        indices, weights: int64 and float32 [new, taps]; indices are below `length`.
        out: float32 1-D [outer, new, inner], written; it must not alias x.
    """
    new, taps = weights.shape
    size = np.uintp(inner)
    for o in range(outer):
        for j in range(new):
            at = (o * new + j) * inner
            row = out[np.uintp(at) : np.uintp(at) + size]
            first = np.uintp((o * length + indices[j, 0]) * inner)
            a, weight = x[first : first + size], weights[j, 0]
            # Most resizes are linear: two taps in one pass.
            k = min(taps, 2)
            last = np.uintp((o * length + indices[j, k - 1]) * inner)
            b, other = x[last : last + size], weights[j, k - 1]
            if k == 2:
                for i in range(size):
                    part = np.float32(ZERO + np.float32(weight * a[i]))
                    row[i] = np.float32(part + np.float32(other * b[i]))
            else:
                for i in range(size):
                    row[i] = np.float32(ZERO + np.float32(weight * a[i]))
            for k in range(2, taps):
                add_weighted(
                    x, (o * length + indices[j, k]) * inner, weights[j, k], row
                )
