"""Rounding rules in NumPy that reproduce other libraries, bit for bit (decision 0019).

There is one file for each library and one function for each operation. The oracle in
Python integers, `kernels/reference/presets`, has the same names. Codes and sums are
int64 arrays, a `Grid` holds plain numbers, and results are saturated int64 codes.
"""
