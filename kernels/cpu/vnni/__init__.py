"""Kernels on AVX-512 with the 8-bit dot product."""

from mdtensor.kernels.cpu.vnni import (
    conv as conv,
    elementwise as elementwise,
    matmul as matmul,
    reduction as reduction,
)
