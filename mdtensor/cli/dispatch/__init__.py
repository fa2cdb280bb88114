"""`mdtensor dispatch`: check the methods of functions, and explain what runs.

`commands` has the options, `query` finds functions and types and runs the checks of
mdtensor.diagnose, and `text`, `formats` and `html` render the results.
"""
