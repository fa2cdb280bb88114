"""The oracle of `cpu/float_matmul.py`: rationals, rounded after each product."""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference.rounding import round_to_float32


def multiply_add(x, y, z):
    """x * y + z of float32 numbers, rounded once."""
    wide = [np.float64(value) for value in (x, y, z)]
    with np.errstate(all="ignore"):
        near = wide[0] * wide[1] + wide[2]
    if not np.isfinite(wide).all() or near == 0:  # this is exact
        return np.float32(near)
    x, y, z = map(Fraction, wide)
    return round_to_float32(x * y + z)


def gemm_f32f32f32(a, w, bias):
    """bias + a @ w.T, one product after the other; a [m, k], w [n, k], bias [n]."""
    out = np.empty((len(a), len(w)), np.float32)
    for i, j in np.ndindex(*out.shape):
        total = np.float32(bias[j])
        for x, y in zip(a[i], w[j], strict=True):
            total = multiply_add(x, y, total)
        out[i, j] = total
    return out
