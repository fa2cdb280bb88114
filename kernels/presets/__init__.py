"""Rules of rounding in NumPy: what other libraries answer, bit for bit.

One file a library, one function an operation, with the names of
`kernels/reference/presets`, the oracle in Python integers. Codes and sums are int64
arrays, a `Grid` is plain numbers, results are int64 codes, saturated.
"""
