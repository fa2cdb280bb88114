"""Grids of results: what moving codes and combining tensors makes of them."""
