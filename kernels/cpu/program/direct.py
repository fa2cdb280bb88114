"""Programs of a few elementwise steps, run on the arrays of the caller.

An arena would cost a copy of every input and output, and these steps do little more
than read and write memory.
"""

from collections import deque

import numpy as np

from mdtensor.kernels.cpu.program import interpret
from mdtensor.kernels.cpu.program.interpret import SLACK
from mdtensor.kernels.cpu.program.interpret_floats import ITEM
from mdtensor.kernels.cpu.program.step import as_bytes
from mdtensor.kernels.numpy.threads import LARGE, POOL

#: More steps than this are faster in one compiled loop.
MOST_STEPS = 3
#: Bytes of all inputs and outputs from which on several steps save time this way.
LEAST_BYTES = 1 << 15


class Direct:
    """Elementwise steps as calls on arrays.

    Args:
        program, steps, outputs: as an Executable has them.
    """

    def __init__(self, program, steps, outputs):
        self._inputs = [slot.storage for slot in program.inputs]
        self._outputs = outputs
        self._invoke = interpret.invokers(program.on.name)[interpret.ELEMENTWISE_F32]
        self._steps = [
            (plan, row, slots[0].storage, slots[-1].storage, result)
            for plan, row, slots, result in steps
        ]

    def __call__(self, arrays, threads=1):
        """Return the outputs as fresh arrays; the bytes do not depend on `threads`."""
        values = dict(zip(self._inputs, map(_bytes_of, arrays), strict=True))
        for plan, row, x, y, result in self._steps:
            out = np.empty(result.bytes, np.uint8)
            self._run(plan, row, values[x], values[y], out, threads)
            values[result.storage] = out
        return [
            values[slot.storage].view(slot.dtype).reshape(slot.shape)
            for slot in self._outputs
        ]

    def _run(self, plan, row, x, y, out, threads):
        """Run one step, in a piece for each thread if it is large."""
        size = len(out) // ITEM

        def work(start, stop):
            part = row
            if stop - start < size:
                part = row.copy()
                part["start"] += start
                part["out_bytes"] = (stop - start) * ITEM
            scratch = np.empty(plan.scratch + SLACK, np.uint8)
            own = out[start * ITEM : stop * ITEM]
            self._invoke(part, 0, x, y, own, scratch, plan.constants)

        if threads == 1 or size < LARGE:
            return work(0, size)
        step = -(-size // threads)
        pieces = ((at, min(at + step, size)) for at in range(0, size, step))
        return POOL.share(work, deque(pieces))


def _bytes_of(array):
    """Return the bytes of an array; numba would compile anew for a read-only one."""
    return as_bytes(array if array.flags.writeable else array.copy())


def direct(program, steps, outputs):
    """Return a Direct for the steps of a program; None if an arena is better."""
    if not 1 <= len(steps) <= MOST_STEPS:
        return None
    made = {result.storage for _, _, _, result in steps}
    written = [slot.storage for slot in outputs]
    # A result must not share memory with another one, or with an input.
    is_own = len({*written}) == len(written) and made.issuperset(written)
    kinds = {row[0].kind for _, row, _, _ in steps}
    size = sum(slot.bytes for slot in (*program.inputs, *outputs))
    pays = len(steps) == 1 or size >= LEAST_BYTES
    if not (is_own and pays and kinds == {interpret.ELEMENTWISE_F32} and size):
        return None
    return Direct(program, steps, outputs)
