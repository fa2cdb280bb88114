"""Grids of results: of moved codes (`moves`) and of several tensors (`combine`)."""
