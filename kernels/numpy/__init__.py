"""Kernels for dense tensors on the host, in NumPy: nothing to compile, nothing to wait.

NumPy's loops run within a few percent of a compiled loop on plain arithmetic, and a
user's first `x + y` should not cost a compiler.
"""
