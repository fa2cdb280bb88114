"""The kernels of other CPUs, for plans that are made here and run there.

Weights are packed by plain Python, and a plan names its kernels. So a plan for a CPU
can be made on any other one. Only a call of a kernel needs the CPU.
"""

from functools import cache

from mdtensor.kernels import refusal
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.avx2.packing import WIDE
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.kernel_set import entries_in, modules_of, with_packing


class Elsewhere(Entry):
    """A kernel that this process does not run."""

    @property
    def call(self):
        """Raise `refusal.error`."""
        raise refusal.error(
            f"this process does not run kernels of {self.isa}",
            f"Use {' or '.join(isa.here())}",
            self.key,
        )

    compiled = call


# An ISA is an argument here and not a constant of the process (decision 0095).
@cache
def kernels_elsewhere(name):
    """Return what `kernel_set.kernels` returns on a CPU that has the ISA `name`."""
    own = modules_of(name)
    found = with_packing(name, own, entries_in(own, name, Elsewhere))
    if own["float_conv"].startswith("avx2."):
        # There the process has this ISA, here another one.
        found.MULTIPLIES_WINDOWS = name not in WIDE
    return found
