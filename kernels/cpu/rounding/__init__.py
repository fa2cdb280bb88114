"""Rounding of accumulators and codes to a grid: exact, and fast because of it."""
