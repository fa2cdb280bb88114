"""Calibrate a graph and quantize it."""
