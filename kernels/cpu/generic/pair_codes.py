"""Functions of two codes, looked up in a table of all pairs."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel


@kernel
def lookup_pairs_u8(a, b, table, out):
    """Set out[i] = table[256 * a[i] + b[i]]; uint8 1-D, the table has 65,536 entries.

    `out` may alias an operand.
    """
    for i in range(np.uintp(len(out))):
        out[i] = table[np.uintp(a[i]) << np.uintp(8) | np.uintp(b[i])]
