"""Kernels on the 8-bit dot product, or on what a CPU has in its place.

Written once, in vectors of 16 lanes of 32 bits; narrower registers hold parts of them.
`isa.DOT_RUNWAY` says for which CPU: the files that differ are `products.py` (how bytes
are multiplied), `avx512.py` and `plain.py` (everything else).
"""

from mdtensor.kernels.cpu.dot8 import (
    conv as conv,
    elementwise as elementwise,
    matmul as matmul,
    reduction as reduction,
)
