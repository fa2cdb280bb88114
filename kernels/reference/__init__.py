"""The oracle: every kernel again, same names, NumPy and Python integers, slow."""
