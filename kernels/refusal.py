"""The error of an instruction set that this CPU cannot run.

Kernels do not know the errors of mdtensor, and mdtensor must not load numba to set one:
so this module is the place for it.

    raise refusal.error(problem, fix, place)
"""

error: type[Exception] = RuntimeError
