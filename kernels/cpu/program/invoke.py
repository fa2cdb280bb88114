"""The function of each kind of step, for Python and for the loop over steps."""

from functools import cache, cached_property

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.isa import IS_JIT_DISABLED
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.native import library


# A loop that named all functions would compile all of them for the smallest program
# (decision 0053).
class Invoker(Entry):
    """The function that runs one step of a kind, on an ISA."""

    def __init__(self, kind, isa_name):
        super().__init__(*kinds.FUNCTIONS[kind], isa_name)
        self._kind = kind

    def _load(self):
        from mdtensor.kernels.cpu.program import interpret

        return interpret.invokers(self.isa)[self._kind]

    @cached_property
    def address(self):
        """Return the address of the function for the loop over steps.

        It holds for one process, and is 0 under NUMBA_DISABLE_JIT=1.
        """
        if IS_JIT_DISABLED:
            return 0
        found = library.address(self.isa, self.key)
        if found is not None:
            return found
        library.require_numba(self.isa, self.key)
        from mdtensor.kernels.cpu.program import functions

        return functions.address(self.compiled)


@cache
def invokers(name):
    """Return the functions of all kinds for the ISA `name`."""
    return tuple(Invoker(kind, name) for kind in range(len(kinds.FUNCTIONS)))


def address(kind):
    """Return the address of the function of a kind on the host's ISA."""
    return invokers(kernel_set.HOST.name)[kind].address


def run_rows(invokers, rows, arena, constants):
    """Run rows on this thread, through the functions of an ISA.

    numba compiles only the kinds that occur, and not the loop over them.
    """
    for i, row in enumerate(rows):
        if not row.out_bytes:
            continue
        scratch = arena[: row.scratch_bytes]
        x = arena[row.x : row.x + row.x_bytes + kinds.SLACK]
        y = arena[row.y : row.y + row.y_bytes + kinds.SLACK]
        z = arena[row.out : row.out + row.out_bytes]
        c = constants[row.constants : row.constants + row.constants_bytes]
        invokers[row.kind](rows, i, x, y, z, scratch, c)
