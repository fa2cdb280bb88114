"""Kernels: arrays in, arrays out; numpy and numba only, never mdtensor."""

if __name__ != "mdtensor.kernels":
    raise ImportError("import mdtensor.kernels, not kernels: two copies break dispatch")
