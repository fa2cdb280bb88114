"""Kernels on AVX2 with FMA; what lacks here is taken from the generic runway."""

from mdtensor.kernels.cpu.avx2 import (
    conv as conv,
    elementwise as elementwise,
    float_matmul as float_matmul,
    matmul as matmul,
    weight_only as weight_only,
)
