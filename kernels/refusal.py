"""The error class for wrong arguments of kernels: `error(problem, fix, place)`.

They are an ISA that this CPU cannot run, and values that are not numbers. Kernels do
not import mdtensor, so the library replaces this class by its own. It does so before it
loads `cpu/isa.py`, which chooses an ISA and may raise at once. This module stands
alone, so that `import mdtensor` does not load numba through it.
"""

error: type[Exception] = RuntimeError
