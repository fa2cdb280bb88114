"""Kernels on AVX2 with FMA; the generic ISA has all others.

Products of floats have 512-bit vectors on the ISAs with AVX-512.
"""

from mdtensor.kernels.cpu.avx2 import (
    conv as conv,
    elementwise as elementwise,
    float_conv as float_conv,
    float_depthwise as float_depthwise,
    float_matmul as float_matmul,
    matmul as matmul,
    weight_only as weight_only,
)
