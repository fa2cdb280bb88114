"""Kernels on AVX2 with FMA; the generic ISA has all others.

Products of floats have 512-bit vectors on the ISAs with AVX-512.
"""
