"""Exact rounding of accumulators and codes to a grid, decided mostly in float32."""
