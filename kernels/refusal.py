"""The error class for an ISA that this CPU cannot run: `error(problem, fix, place)`.

The library replaces it by its own class, because kernels do not import mdtensor. It
does so before `cpu/isa.py` is loaded, which chooses an ISA and may raise at once. So
this module stands alone, and `import mdtensor` does not load numba through it.
"""

error: type[Exception] = RuntimeError
