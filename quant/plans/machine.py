"""The kernels of this process for a stored plan: those of a library, or numba's."""

from typing import Any

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.isa import here
from mdtensor.kernels.cpu.program import STEP, kinds
from mdtensor.kernels.cpu.program.invoke import invokers
from mdtensor.kernels.cpu.threads import words
from mdtensor.kernels.native import library

#: ISAs whose kernels do not depend on that of the process, the fastest first.
ISAS = ("avx2", "generic")
KINDS = [".".join(place) for place in kinds.FUNCTIONS]


class Kernels:
    """The functions of an ISA."""

    def __init__(self, isa: str) -> None:
        self._isa = isa

    def function(self, key: str) -> Any:
        """Return a function as a Python callable."""
        module, _, name = key.rpartition(".")
        return Entry(module, name, self._isa).call

    def address(self, key: str) -> int:
        """Return the address of a function for the loop over steps."""
        return int(invokers(self._isa)[KINDS.index(key)].address)


class Process:
    """What a plan needs to know of this process."""

    step, kinds, queue = STEP, KINDS, words.describe()

    @property
    def stamp(self) -> str:
        """Return a hash of the sources of the kernels."""
        return str(library.stamp())

    def isas(self) -> list[str]:
        """Return the ISA of this process, and the others that this CPU runs."""
        own = kernel_set.HOST.name
        return [own, *(name for name in ISAS if name != own and name in here())]

    def library(self, isa: str) -> Kernels:
        """Return the functions of one of them."""
        return Kernels(isa)
