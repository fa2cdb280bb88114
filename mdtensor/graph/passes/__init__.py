"""Passes that need no grids: each finds one pattern and replaces its last node."""
