"""Comparison of a quantized model with its float model, node by node."""
