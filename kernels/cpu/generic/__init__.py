"""Kernels in plain numba, for every CPU; the other folders replace some of them."""
