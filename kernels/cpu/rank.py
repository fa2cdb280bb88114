"""The order of floats of 16 bits, float16 and bfloat16 alike: sign and magnitude."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel


@kernel
def rank(h):
    """An int16 in the order of the numbers, -0 below 0."""
    bits = np.int16(h)
    return np.int16(bits ^ np.int16(np.int16(bits >> np.int16(15)) & np.int16(0x7FFF)))
