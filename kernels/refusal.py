"""The error class for an ISA that this CPU cannot run: `error(problem, fix, place)`.

Kernels do not import mdtensor, so the library replaces this class by its own. It does
so before it loads `cpu/isa.py`, which chooses an ISA and may raise at once. This module
stands alone, so that `import mdtensor` does not load numba through it.
"""

error: type[Exception] = RuntimeError
