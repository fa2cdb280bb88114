"""Numbers on their way into an arena: copied and looked at in one pass."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

MAGNITUDE, INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)


@kernel
def copy_f32(source, target):
    """target[i] = source[i], float32 as uint32; returns whether none of them is NaN."""
    largest = np.uint32(0)
    for i in range(np.uintp(len(source))):
        bits = source[i]
        target[i] = bits
        largest = max(largest, bits & MAGNITUDE)
    return largest <= INFINITY
