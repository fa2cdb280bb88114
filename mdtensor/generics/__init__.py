"""The dictionary of the library: every operation, declared and documented once."""
