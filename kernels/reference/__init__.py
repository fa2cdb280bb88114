"""The oracle: slow and obvious versions of all kernels, with the same names.

They use NumPy and Python integers.
"""
