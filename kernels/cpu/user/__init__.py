"""Kernels compiled from functions that users write."""
