"""Kernels on AVX2 with FMA; what lacks here is taken from the generic runway.

Products of floats have vectors of 512 bits on the runways of AVX-512.
"""

from mdtensor.kernels.cpu.avx2 import (
    conv as conv,
    elementwise as elementwise,
    float_matmul as float_matmul,
    matmul as matmul,
    weight_only as weight_only,
)
