"""Chains: an elementwise formula on up to four arrays, as one call from Python.

An Elementwise of a Program reads an arena, into which inputs are copied. A chain reads
NumPy's arrays where they are and writes a fresh result, so its call allocates the
result and nothing else of that size.
"""

import logging

import numpy as np

from mdtensor.kernels import observe
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.float_calls import F32, LARGE, in_a_row
from mdtensor.kernels.cpu.generic.opcodes import INPUTS, PLACE
from mdtensor.kernels.cpu.program.elementwise import tables_of
from mdtensor.kernels.numpy import empty
from mdtensor.kernels.numpy.threads import POOL

elementwise_f32 = kernel_set.HOST.elementwise_f32
run_chain = Entry("program.run_chain", "run_chain")
#: The loop for each element type; 16-bit floats are passed as bit patterns.
LOOPS = {
    "float32": run_chain,
    "float16": Entry("program.run_narrow_chain", "run_float16"),
    "bfloat16": Entry("program.run_narrow_chain", "run_bfloat16"),
}

#: Elements from which a result may take the memory of an earlier one.
SMALL = LARGE // F32.itemsize
#: The bits of a float of 16 bits.
BITS = np.dtype(np.uint16)
#: Stands for an input that the formula does not have.
NONE = np.zeros(1, F32)
_log = logging.getLogger(__name__)


# A chain is called as a NumPy function is: on arrays where they lie (decision 0062).
class Chain:
    """A formula whose result has a shape; a call passes only the inputs.

    Args:
        formula: its result has at least one element.
        shape: of the result.
        dtype: of inputs and result, float32 or a float of 16 bits; then the formula
            rounds to its numbers.
    """

    __slots__ = (
        *("bits", "call", "dtype", "elements", "formula", "numbers", "rest", "shape"),
        *("table", "text"),
    )

    def __init__(self, formula, shape, dtype=F32):
        self.formula, self.shape, self.elements = formula, shape, formula.elements
        self.dtype = dtype
        #: The type of the arrays that the loop takes.
        self.bits = F32 if dtype == F32 else BITS
        tables, parts = tables_of(formula), []
        parts.append(tables.numbers.reshape(-1))
        at = parts[0].size
        for row, (array, _) in zip(
            tables.operands[INPUTS:], formula.constants, strict=True
        ):
            parts.append(np.asarray(array, F32).reshape(-1))
            row[PLACE], at = at, at + parts[-1].size
        self.numbers = np.concatenate(parts)
        head = (len(tables.operands), len(tables.program), tables.blocks)
        rows = tables.operands.reshape(-1), tables.program.reshape(-1)
        sizes = tables.segment, tables.size, tables.length
        self.table = np.concatenate([(*head, *sizes), *rows])
        self.rest = (NONE.astype(self.bits),) * (INPUTS - len(formula.inputs))
        #: The compiled function, and its own text if it was generated.
        self.call, self.text = LOOPS[dtype.name].call, ""

    def __call__(self, *arrays, over=None):
        """Return the result as a fresh array; inputs have the type of the chain.

        Args:
            over: the place of an array of the shape of the result, whose memory nobody
                else reads, so that the result may lie there. The last instruction must
                not read it.
        """
        out = None if over is None else arrays[over]
        # A generated loop that writes what it reads would not become vectors.
        if out is None or self.text or not out.flags.carray:
            out = empty(self.shape, self.dtype, LARGE)
        flat = out if out.ndim == 1 else out.reshape(-1)
        rows = [x if x.ndim == 1 and x.flags.carray else in_a_row(x) for x in arrays]
        if self.bits is BITS:
            flat, rows = flat.view(BITS), [x.view(BITS) for x in rows]
        rows += self.rest
        if self.is_small:
            self.call(self.table, self.numbers, *rows, 0, flat)
        else:
            self._spread(rows, flat)
        if observe.ACTIVE:
            self.report()
        return out

    @property
    def is_small(self):
        """Return whether the result is fresh memory, and one thread computes it."""
        return self.elements < SMALL

    # A wrong loop that is fast must not run (decision 0068).
    def generate(self):
        """Compile a loop for this formula; it takes over if it has the same bytes."""
        from mdtensor.kernels.cpu.program import agreement, generated

        text = generated.render(self.formula) if self.dtype == F32 else None
        if text is None:
            return
        found = generated.compiled(text)
        same = agreement.sampled(self.formula)
        of_samples = Chain(same, (same.elements,))
        given = of_samples.table, of_samples.numbers, agreement.samples(same)
        if agreement.agree(found, run_chain.call, *given):
            self.call, self.text = found, text.replace("{name}", found.__name__)
        else:
            _log.warning("a generated loop has other bytes and is not used:\n%s", text)

    def report(self):
        """Tell observers that the kernel ran."""
        observe.ran(self.kernel, self.isa)

    def _spread(self, rows, out):
        """Write the result, rows of it shared among threads."""

        def work(start, stop):
            self.call(self.table, self.numbers, *rows, start, out[start:stop])

        POOL.spread(work, self.elements, self.formula.length or 1)

    @property
    def kernel(self):
        """Return the name of the kernel that does the work."""
        return self.call.__name__ if self.text else elementwise_f32.__name__

    @property
    def isa(self):
        """Return the ISA of the kernel."""
        return kernel_set.isa_of(elementwise_f32)
