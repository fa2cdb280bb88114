"""NumPy kernels for dense tensors: no compilation, no start-up delay.

NumPy's loops take within a few percent of the time of a compiled loop on plain
arithmetic, so a user's first `x + y` need not load a compiler (decision 0002).
"""
