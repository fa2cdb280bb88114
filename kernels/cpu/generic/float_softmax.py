"""Softmax of float32 rows."""

import numpy as np

from mdtensor.kernels.cpu.generic.float_elementwise import exp
from mdtensor.kernels.cpu.jit import kernel

#: Partial sums of a row, so that sums are vectors on every ISA, in one order.
LANES = 16


@kernel
def softmax_f32(x, length, out):
    """Set out = e ** (x - largest) / sum of e ** (x - largest), for each row.

    Args: x, out: float32 1-D [rows, length]; `out` is written.

    Rounding: each power within 1 ulp; sums of every 16th power, then of the 16 sums
    in order; the quotient.
    """
    sums = np.empty(LANES, np.float32)
    for first in range(0, len(out), length):
        row = x[np.uintp(first) : np.uintp(first + length)]
        target = out[np.uintp(first) : np.uintp(first + length)]
        most = np.float32(-np.inf)
        for j in range(np.uintp(length)):
            value = row[j]
            most = value if value > most or value != value else most
        for j in range(np.uintp(length)):
            target[j] = exp(np.float32(row[j] - most))
        sums[:] = np.float32(0)
        for begin in range(0, length, LANES):
            part = target[np.uintp(begin) :]
            for j in range(np.uintp(min(LANES, length - begin))):
                sums[j] = np.float32(sums[j] + part[j])
        total = np.float32(0)
        for j in range(np.uintp(LANES)):
            total = np.float32(total + sums[j])
        for j in range(np.uintp(length)):
            target[j] = np.float32(target[j] / total)
