"""Compiled functions that Python calls: from a library, or else by numba.

A library holds machine code that was compiled ahead of time, see `native/`. numba is
imported at the first call of a function that no library has.
"""

from functools import cached_property
from importlib import import_module
from importlib.util import find_spec

from mdtensor.kernels import refusal
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.native import library

PACKAGE = "mdtensor.kernels.cpu"


# Code that Python calls is named, not imported, so that a process with a library never
# loads a compiler (decision 0058).
class Entry:
    """A compiled function, found at its first call.

    Args:
        module: below `mdtensor.kernels.cpu`.
        name: the name of the function there.
        isa_name: the ISA whose library has it.
        variant: tells apart entries of one function with other types.

    Example:
        >>> import numpy as np
        >>> move = Entry("generic.copies", "copy_f32")
        >>> bits = np.array([1, 2], np.uint32)
        >>> out = np.zeros(2, np.uint32)
        >>> bool(move(bits, out)), out.tolist()
        (True, [1, 2])
    """

    def __init__(self, module, name, isa_name=isa.ISA, variant=""):
        self.__module__ = f"{PACKAGE}.{module}"
        self.__name__ = self.__qualname__ = name
        self.key = f"{module}.{name}" + f":{variant}" * bool(variant)
        self.isa = isa_name

    @cached_property
    def call(self):
        """Return the function itself, which is faster to call than the entry.

        Raises `refusal.error` if no library has it and numba may not compile it.
        """
        found = library.function(self.isa, self.key)
        if found is not None:
            return found
        library.require_numba(self.isa, self.key)
        return self.compiled

    @cached_property
    def is_available(self):
        """Return whether a library has the function, or numba may compile it."""
        found = library.function(self.isa, self.key) is not None
        return found or (library.may_compile() and find_spec("numba") is not None)

    @cached_property
    def compiled(self):
        """Return the function that numba compiles.

        Raises `refusal.error` if numba is not installed.
        """
        try:
            return self._load()
        except ModuleNotFoundError as error:
            if error.name not in ("numba", "llvmlite"):
                raise
            problem = f"numba is not installed, and {library.why_not(self.isa)}"
            raise refusal.error(problem, library.remedy(), self.key) from error

    def _load(self):
        """Import the module of the function, which imports numba."""
        return getattr(import_module(self.__module__), self.__name__)

    def __call__(self, *arguments):
        return self.call(*arguments)

    def __repr__(self):
        return f"Entry({self.key})"
